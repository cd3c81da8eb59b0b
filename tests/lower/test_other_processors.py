"""Code for processors that are not here: kernels of every form become objects for NEON and for RISC-V's vectors."""

from __future__ import annotations

import pytest

from anyshape.lower import Group, lower_group
from anyshape.lower.gemm.library import library_module
from anyshape.lower.llvm.jit import assembly, compile_object
from anyshape.lower.llvm.types import F32
from anyshape_testing.laws.processors import NEON, RVV, SSE, undefined
from tests.lower.groups import Builder, K, M, N
from tests.lower.test_byte_sums import sums
from tests.lower.test_quantisation import quantised
from tests.lower.test_windows import windows

PROCESSORS = {"neon": NEON, "rvv": RVV}
VECTORS = {"neon": ("fmla", "q0"), "rvv": ("vfmacc", "vle32.v")}
"""What code that uses vectors has in it."""


def groups() -> dict[str, Group]:
    rows, product, transposed = Builder("rows"), Builder("product"), Builder("turned")
    rows.output(rows.softmax(rows.input([N, M])))
    product.output(product.gelu(product.matmul(product.input([N, K]), product.input([K, M]))))
    x = transposed.input([N, M])
    y = transposed.tensor([M, N])
    i, j = transposed.eqs.indices("i", y.shape)
    transposed.eqs.define(y[i, j], x[j, i])
    transposed.output(y)
    return {
        "rows": rows.group(),
        "product": product.group(),
        "turned": transposed.group(),
        "windows": windows("max", 2, 1),
        "product of windows": windows("sum", 1, 1, channels=3),
        "sums of bytes": sums(),
        "bytes of quotients": quantised("i8", of="i16"),
    }


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_every_form_becomes_an_object(name: str) -> None:
    for form, group in groups().items():
        kernel = lower_group(group, PROCESSORS[name])
        code = compile_object(kernel.text, PROCESSORS[name])
        assert code[:4] == b"\x7fELF" and undefined(code) <= {*kernel.imports, "memcpy", "memset"}, form


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_products_use_its_vectors(name: str) -> None:
    text = assembly(library_module(PROCESSORS[name], F32).text(), PROCESSORS[name])
    assert all(word in text for word in VECTORS[name])


def test_what_an_object_leaves_to_be_linked() -> None:
    text = "declare i32 @other(i32)\ndefine i32 @own(i32 %a) {\n%b = call i32 @other(i32 %a)\nret i32 %b\n}\n"
    assert all(undefined(compile_object(text, target)) == {"other"} for target in PROCESSORS.values())
    half = "define float @own(half %a) {\n%b = fpext half %a to float\nret float %b\n}\n"
    assert undefined(compile_object(half, SSE)) == {"__extendhfsf2"}
