"""The library: its functions are exact, have gradients, and are known in every folder of specs; and names that are not are errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import SpecError
from anyshape.graph.call import call
from anyshape_gen.analysis import analyse
from anyshape_gen.memo import Memo
from anyshape_gen.parse.library import own_library
from anyshape_testing.matrix.making import make
from anyshape_testing.mutation.running import Trial

NEAR = [
    0.0,
    5e-324,
    1e-310,
    1e-45,
    1e-30,
    1e-9,
    1e-4,
    0.1,
    0.41421356,
    0.5,
    1.0,
    1.5,
    2.0,
    20.0,
    88.0,
    1e4,
    1e30,
    1.7e308,
    np.inf,
]
POINTS = np.array([*NEAR, np.nan, *np.linspace(0.01, 3, 50)])
POINTS = np.concatenate([POINTS, -POINTS])
UNARY: dict[str, Callable[..., Any]] = {
    "expm1": np.expm1, "log1p": np.log1p, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos,
    "log1p_exp": lambda v: np.logaddexp(0, v), "logistic": lambda v: 1 / (1 + np.exp(-v)),
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {"atan2": np.arctan2, "copysign": np.copysign}
ULPS = 4


def spec(function: str, inputs: str) -> str:
    operands = ", ".join(f'{i}: "F[*d]"' for i in inputs)
    values = ", ".join(f"{i}[*k]" for i in inputs)
    return f"""
ops:
  an_op:
    summary: A function of the library.
    inputs: {{{operands}}}
    outputs: {{z: "F[*d]"}}
    dtypes: {{F: [f32, f64]}}
    kernel: "z[*k] = {function}({values})"
    reference: {inputs[0]}
    examples: [{{{", ".join(f"{i}: [2]" for i in inputs)}, z: [2]}}]
"""


def results(
    function: str, arrays: list[np.ndarray], kernels: Any = "native", gradients: bool = False
) -> list[np.ndarray]:
    op = make(spec(function, "yx"[: len(arrays)]), "an_op")
    with op.in_place():
        params = [anyshape.input(n, f"{'f32' if a.dtype == np.float32 else 'f64'}[n]") for n, a in zip("yx", arrays)]
        (z,) = call(op.defs[0], params, {})
        outputs = anyshape.gradients(z, params) if gradients else z
        got = anyshape.compile(anyshape.function(params, outputs), kernels=kernels)(*arrays)
    return list(got) if isinstance(got, list | tuple) else [got]


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Checks values within ULPS units of the last place, and the signs of zeros."""
    assert got.dtype == want.dtype
    tiny = np.finfo(want.dtype).smallest_normal
    np.testing.assert_allclose(got, want, rtol=ULPS * np.finfo(want.dtype).eps, atol=tiny)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


def arguments(function: str, dtype: Any) -> list[np.ndarray]:
    with np.errstate(over="ignore", under="ignore"):
        points = POINTS.astype(dtype)
    if function in UNARY:
        return [points]
    y, x = np.array(list(itertools.product(points, points)), dtype).T
    return [np.ascontiguousarray(y), np.ascontiguousarray(x)]


@pytest.mark.parametrize("kernels", ["native", "interpret"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [*UNARY, *BINARY])
def test_a_function_is_exact(function: str, dtype: Any, kernels: str) -> None:
    arrays = arguments(function, dtype)
    if function == "copysign":  # which NaN has which sign is no matter of a value
        arrays = [a[~np.isnan(arrays[0]) & ~np.isnan(arrays[1])] for a in arrays]
    with np.errstate(all="ignore"):
        wide = (UNARY | BINARY)[function](*(a.astype(np.longdouble) for a in arrays)).astype(dtype)
        (got,) = results(function, arrays, kernels)
    same(got, wide)


SLOPES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "expm1": lambda v: (np.exp(v),),
    "log1p": lambda v: (1 / (1 + v),),
    "log1p_exp": lambda v: (1 / (1 + np.exp(-v)),),
    "atan": lambda v: (1 / (1 + v * v),),
    "asin": lambda v: (1 / np.sqrt(1 - v * v),),
    "acos": lambda v: (-1 / np.sqrt(1 - v * v),),
    "atan2": lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
}


@pytest.mark.parametrize("function", SLOPES)
def test_a_function_has_a_gradient(function: str) -> None:
    near = np.array([0.0, -0.0, 1e-9, -1e-9, 0.3, -0.3, 0.8, -0.8])
    arrays = [near]
    if function == "atan2":
        both = np.array(
            [(y, x) for y, x in itertools.product([*near, 3.0, -3.0], repeat=2) if (y or x) and abs(y) != abs(x)]
        )
        arrays = [np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])]
    for got, want in zip(results(function, arrays, gradients=True), SLOPES[function](*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


OP = """
ops:
  {name}:
    inputs: {{x: "f64[*d]"}}
    outputs: {{y: "f64[*d]"}}
    kernel: "y[*i] = {value}"
"""
SHARED = """
library: |
  def third(v): return half(v) / 1.5
  def of_nobody(v): return v
"""
HALF = """
library: |
  def half(v): return v / 2
"""


def defines(contents: dict[str, str]) -> dict[str, list[str]]:
    return {a.spec.name: [f.name for f in a.spec.defines] for a in analyse(contents, complete=False).ops}


def test_functions_are_known_in_all_files_of_a_folder() -> None:
    files = {
        "a.yaml": SHARED + OP.format(name="a", value="third(x[*i])"),
        "b.yaml": OP.format(name="b", value="half(x[*i])"),
    }
    assert defines(files | {"c.yaml": HALF}) == {"a": ["half", "third"], "b": ["half"]}


def test_a_folder_has_the_functions_of_anyshape_unless_it_has_a_library_of_its_own() -> None:
    text = OP.format(name="a", value="atan_series(x[*i])")
    assert defines({"a.yaml": text}) == {"a": ["atan_series"]}
    assert defines({"a.yaml": text + HALF}) == {"a": ["atan_series"]}
    with pytest.raises(SpecError, match="unknown function 'atan_series'"):
        analyse({"a.yaml": text, "my/library.yaml": HALF}, complete=False)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a.yaml": OP.format(name="a", value="atanseries(x[*i])")},
            r"a.yaml:6:22: unknown function 'atanseries'; did you mean 'atan_series'\?",
        ),
        (
            {"a.yaml": "define: |\n  def atan(v): return v\n" + OP.format(name="a", value="atan(x[*i])")},
            r"a.yaml:2:7: 'atan' is a function of the library, at anyshape/specs/library.yaml:\d+:7; use another name",
        ),
        (
            {"a.yaml": HALF, "b.yaml": OP.format(name="b", value="half(x[*i])") + HALF.replace("2", "3")},
            r"b.yaml:9:7: the function 'half' of the library is also defined at a.yaml:3:7",
        ),
        (
            {"a.yaml": HALF.replace("half", "atan_series")},
            r"the function 'atan_series' of the library is also defined at a.yaml:3:7",
        ),
        ({"a.yaml": HALF.replace("v / 2", "v / n")}, r"a.yaml:3:27: unknown name 'n'"),
        ({"a.yaml": HALF.replace("v / 2", "v / F(2)")}, r"a.yaml:3:27: unknown function 'F'"),
        ({"a.yaml": HALF.replace("v / 2", "exp(v, 2)")}, r"a.yaml:3:23: 'exp' takes 1 argument, got 2"),
        ({"a.yaml": HALF.replace("half", "exp")}, r"a.yaml:3:7: 'exp' is a function of the language"),
        ({"a.yaml": HALF.replace("v / 2", "half(v)")}, r"a.yaml:3:7: the function 'half' calls itself"),
        ({"a.yaml": HALF.replace("v / 2", "v /")}, r"a.yaml:3:"),
    ],
    ids=["a name near one", "a clash", "twice", "twice with anyshape's", "a name of an op", "a dtype of an op", "arity", "the language's",
         "recursion", "no syntax"],
)  # fmt: skip
def test_wrong_use(files: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        analyse(files, complete=False)


def test_a_call_in_a_composition_is_of_the_op_of_that_name() -> None:
    text = OP.format(name="half", value="x[*i] / 2") + """
  whole:
    inputs: {x: "f64[*d]"}
    outputs: {y: "f64[*d]"}
    compose: y = half(x)
"""  # fmt: skip
    assert defines({"a.yaml": text + HALF}) == {"half": [], "whole": []}


def test_what_calls_a_changed_function_is_analysed_anew() -> None:
    memo = Memo()
    files = {
        "a.yaml": OP.format(name="a", value="half(x[*i])"),
        "b.yaml": OP.format(name="b", value="x[*i]"),
        "c.yaml": HALF,
    }

    def analysed() -> list[Any]:
        names = list(analyse(files, complete=False, memo=memo).ops)
        memo.end_round()
        return names

    first = analysed()
    files["c.yaml"] = HALF.replace("2", "3")
    changed = analysed()
    assert changed[0] is not first[0] and changed[1] is first[1]
    files["c.yaml"] = "\n" + files["c.yaml"]
    assert [f.span.line for f in analysed()[0].spec.defines] == [4], "places of errors move with the text"


def test_a_function_of_two_ops_is_mutated_once() -> None:
    files = {f"{n}.yaml": spec("log1p_exp", "y").replace("an_op", n) for n in "ab"} | {"library.yaml": own_library()}
    trial = Trial(analyse(files), "library")
    assert [m for op in "ab" for m in trial.mutants(op) if m.label.startswith("defines: ")] == []
    assert any(m.place == "defines log1p_exp: + to -" for m, _ in trial.distinct("library.log1p_exp")[0])
    assert trial.library["library.log1p_exp"].users == ("a", "b")
