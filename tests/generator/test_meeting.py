"""Dtypes that meet are findings where, and only where, the kernel cannot be built with them."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import pytest

from anyshape.dims import symbol
from anyshape.dtypes import parse_dtype
from anyshape.equations import Equations
from anyshape.equations.expr import Tensor
from anyshape.errors import SpecError
from anyshape.rules import Bound
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.source import Findings

DTYPES = ("f32", "f16", "f64", "i64", "i32", "u8", "bool")
FORMS = (
    "a[i] + b[i]", "a[i] * (i + 1)", "a[i] / (n + 1)", "a[i] - i / 2", "max(a[i], b[i], i)", "a[i] < b[i]", "a[i] == i", "a[i] >= n",
    "a[i] if i < 2 else b[i]", "a[i] if a[i] == b[i] else 0", "sum(a[j] * b[j] for j in n)", "count(a[j] < b[i] for j in n)",
    "max(a[j] for j in range(i + 1)) + b[i]", "x[wrap(a[i] + b[i] + i, n)]", "pad(x, 0)[a[i]]", "x[wrap(i64(a[i]) + i, n)]",
    "both(a[i], b[i])", "both(a[i], i)", "A(b[i]) + a[i]", "cast(a[i], B) * b[i]", "clamp(a[i], 0, i)", "int(a[i] > 0) + b[i]",
    "i + i // 2", "trunc_div(a[i], b[i])", "exp(a[i]) + b[i]", "-a[i] + i",
)  # fmt: skip


def spec(form: str) -> str:
    return f"""
ops:
  met:
    define: |
      def both(p, q): return p * 2 + q
    inputs: {{a: "A[n]", b: "B[n]", x: "f32[n]"}}
    outputs: {{y: "f32[n]"}}
    dtypes: {{A: [{{A}}], B: [{{B}}]}}
    kernel: "y[i] = f32({form})"
"""


def is_refused(form: str, a: str, b: str) -> bool:
    try:
        analyse({"met.yaml": _of(form, a, b)}, complete=False)
    except SpecError as e:
        assert " meet in " in str(e)
        return True
    return False


def _of(form: str, a: str, b: str) -> str:
    text = spec(form).replace("{A}", a).replace("{B}", b)
    return text if "both(" in form else text.replace("    define: |\n      def both(p, q): return p * 2 + q\n", "")


def is_built(form: str, a: str, b: str) -> bool:
    with patch("anyshape_gen.analysis.check_meeting"):
        analysis = analyse({"met.yaml": _of(form, a, b)}, complete=False)
    (text,) = (t for path, t in emit_package(analysis, "met", Findings()).items() if path == "met/kernels/met.py")
    scope: dict[str, object] = {}
    exec(text, scope)
    n = symbol("n")
    dtypes = {"A": parse_dtype(a), "B": parse_dtype(b)}
    tensors = {"a": dtypes["A"], "b": dtypes["B"], "x": parse_dtype("f32")}
    eqs = Equations(
        "met", {k: Tensor(k, t, (n,)) for k, t in tensors.items()}, {"y": Tensor("y", parse_dtype("f32"), (n,))}, dtypes
    )
    bound = Bound({}, {"n": n})
    try:
        scope["met_kernel"](eqs, bound)  # type: ignore[operator]
    except SpecError as e:
        assert "its operands have the dtypes" in str(e)
        return False
    return True


@pytest.mark.parametrize("form", FORMS)
def test_what_is_refused_cannot_be_built(form: str) -> None:
    for a, b in product(DTYPES, DTYPES):
        assert is_refused(form, a, b) is not is_built(form, a, b), (form, a, b)
