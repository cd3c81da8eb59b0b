"""Dtypes that meet are findings where, and only where, the kernel cannot be built with them; tensors of its own have theirs.

`make test` tries a third of the pairs of dtypes with each form, `make test-long` all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from unittest.mock import patch

import pytest

from anyshape.dims import symbol
from anyshape.dtypes import accum, parse_dtype
from anyshape.equations import Equations
from anyshape.equations.expr import Expr, Read, Tensor, as_expr
from anyshape.errors import SpecError
from anyshape.rules import Bound
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.model.source import Findings
from anyshape_testing.process.profile import LONG

DTYPES = ("f32", "f16", "f64", "i64", "i32", "u8", "bool")
FORMS = (
    "a[i] + b[i]", "a[i] * (i + 1)", "a[i] / (n + 1)", "a[i] - i / 2", "max(a[i], b[i], i)", "a[i] < b[i]", "a[i] == i", "a[i] >= n",
    "a[i] if i < 2 else b[i]", "a[i] if a[i] == b[i] else 0", "sum(a[j] * b[j] for j in n)", "count(a[j] < b[i] for j in n)",
    "max(a[j] for j in range(i + 1)) + b[i]", "x[wrap(a[i] + b[i] + i, n)]", "pad(x, 0)[a[i]]", "x[wrap(i64(a[i]) + i, n)]",
    "both(a[i], b[i])", "both(a[i], i)", "A(b[i]) + a[i]", "cast(a[i], B) * b[i]", "clamp(a[i], 0, i)", "int(a[i] > 0) + b[i]",
    "i + i // 2", "trunc_div(a[i], b[i])", "exp(a[i]) + b[i]", "-a[i] + i",
)  # fmt: skip
VALUES = (
    "less(a[i], b[i])", "a[i] < b[i] and i > 0", "not a[i] > 0", "any(a[j] > 0 for j in n)", "argmax(a[j] for j in n)", "int(n > 2)",
    "max(a[j] for j in n)", "sum(a[j] for j in n)", "sum(j for j in range(i))", "i64(a[i])", "f32(a[i]) * 0.5", "0.5 * b[i]",
    "n // 2", "a[i] if n > 2 else 0", "wrap(i + 1, n)", "both(n, i)",
)  # fmt: skip
DEFINES = {"both": "def both(p, q): return p * 2 + q", "less": "def less(p, q): return p < q"}


def pairs(form: str, second: Sequence[str] = DTYPES) -> list[tuple[str, str]]:
    """Pairs of dtypes that a form is tried with: in `make test` every third one, from another start for the next form."""
    forms = (*FORMS, *VALUES)
    return list(product(DTYPES, second))[0 if LONG else forms.index(form) % 3 :: 1 if LONG else 3]


def test_each_pair_of_dtypes_is_tried_with_several_forms() -> None:
    tried = Counter(pair for form in FORMS for pair in pairs(form))
    assert set(tried) == set(product(DTYPES, DTYPES)) and min(tried.values()) >= len(FORMS) // 3
    assert set(pairs(FORMS[0])) < set(tried) or LONG


def spec(kernel: str) -> str:
    return f"""
ops:
  met:
    define: |
      {next((line for name, line in DEFINES.items() if f"{name}(" in kernel), "")}
    inputs: {{a: "A[n]", b: "B[n]", x: "f32[n]"}}
    outputs: {{y: "f32[n]"}}
    dtypes: {{A: [{{A}}], B: [{{B}}]}}
    kernel: |
      {kernel}
"""


def is_refused(form: str, a: str, b: str) -> bool:
    try:
        analyse({"met.yaml": _of(form, a, b)}, complete=False)
    except SpecError as e:
        assert " meet in " in str(e) or "an index, or an end of a range, is an integer" in str(e)
        return True
    return False


def _of(form: str, a: str, b: str) -> str:
    return spec(f"y[i] = f32({form})").replace("{A}", a).replace("{B}", b)


def is_built(form: str, a: str, b: str) -> bool:
    with patch("anyshape_gen.analysis.check_meeting"):
        return _built(_of(form, a, b), a, b) is not None


def _built(text: str, a: str, b: str) -> Equations | None:
    """The equations of a spec; None where operands have several dtypes."""
    analysis = analyse({"met.yaml": text}, complete=False)
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
        scope["met_kernel"](eqs, bound)
    except SpecError as e:
        assert "its operands have the dtypes" in str(e) or "an index is an integer" in str(e)
        return None
    return eqs


@pytest.mark.parametrize("form", FORMS)
def test_what_is_refused_cannot_be_built(form: str) -> None:
    for a, b in pairs(form):
        assert is_refused(form, a, b) is not is_built(form, a, b), (form, a, b)


@pytest.mark.parametrize("form", (*FORMS, *VALUES))
def test_a_tensor_on_the_way_has_the_dtype_of_its_values(form: str) -> None:
    values: dict[Tensor, Expr] = {}

    def define(eqs: Equations, target: Expr, value: object, source: str = "") -> None:
        assert isinstance(target, Read)
        values[target.tensor] = as_expr(value)

    for a, b in pairs(form, ("f32", "i64")):
        if is_refused(form, a, b):
            continue
        values.clear()
        text = spec(f"held[i] = {form}\n      y[i] = f32(held[i])").replace("{A}", a).replace("{B}", b)
        with patch.object(Equations, "define", define):
            assert _built(text, a, b) is not None
        held, value = next((t, v) for t, v in values.items() if t.name == "held")
        assert held.dtype is (parse_dtype("i64") if value.dtype is None else accum(value.dtype)), (form, a, b)
