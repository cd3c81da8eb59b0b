"""Code for processors that are not here: kernels of every form become objects for NEON and for RISC-V's vectors."""

from __future__ import annotations

import pytest

from anyshape.lower import Group, lower_group
from anyshape.lower.gemm.library import library_module
from anyshape.lower.llvm.jit import assembly, compile_object
from anyshape.lower.llvm.types import F32
from anyshape.lower.target import Target, vector_unit
from tests.lower.groups import Builder, K, M, N
from tests.lower.test_windows import windows

CACHES = {"l1_bytes": 32 << 10, "l2_bytes": 512 << 10, "l3_bytes": 4 << 20}


def processor(triple: str, cpu: str, features: str) -> Target:
    names = {f.removeprefix("+"): True for f in features.split(",")}
    width, registers, fma, masks, scalef = vector_unit(triple, names)
    return Target(triple, cpu, features, width, registers, **CACHES, fma=fma, masks=masks, scalef=scalef)


OTHERS = {
    "neon": processor("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon"),
    "rvv": processor("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b"),
}
VECTORS = {"neon": ("fmla", "q0"), "rvv": ("vfmacc", "vle32.v")}
"""What code that uses vectors has in it."""


def groups() -> dict[str, Group]:
    rows, product, turned = Builder("rows"), Builder("product"), Builder("turned")
    rows.output(rows.softmax(rows.input([N, M])))
    product.output(product.gelu(product.matmul(product.input([N, K]), product.input([K, M]))))
    x = turned.input([N, M])
    y = turned.tensor([M, N])
    i, j = turned.eqs.indices("i", y.shape)
    turned.eqs.define(y[i, j], x[j, i])
    turned.output(y)
    return {
        "rows": rows.group(),
        "product": product.group(),
        "turned": turned.group(),
        "windows": windows("max", 2, 1),
        "product of windows": windows("sum", 1, 1, channels=3),
    }


@pytest.mark.parametrize("name", list(OTHERS))
def test_every_form_becomes_an_object(name: str) -> None:
    for form, group in groups().items():
        kernel = lower_group(group, OTHERS[name])
        assert compile_object(kernel.text, OTHERS[name])[:4] == b"\x7fELF", form


@pytest.mark.parametrize("name", list(OTHERS))
def test_products_use_its_vectors(name: str) -> None:
    text = assembly(library_module(OTHERS[name], F32).text(), OTHERS[name])
    assert all(word in text for word in VECTORS[name])
