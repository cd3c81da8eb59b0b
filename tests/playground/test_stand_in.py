"""The page's stand-in for NumPy, beside NumPy: expressions, and all that the page asks of it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from tests.playground.answering import evaluated
from tests.playground.conftest import Ask

A, B = "np.arange(6).reshape(2, 3)", "np.array([[0.5, -1.5, 2.5], [np.nan, np.inf, -0.0]], np.float32)"
EXPRESSIONS = [
    *(f"{A}{index}" for index in (
        "[1]", "[:, 1]", "[..., ::-1]", "[1, 2]", "[-1, -1]", "[:, None, 0]", "[1:, :2]", "[[1, 0, 1]]", "[:, [2, 0]]", "[[0, 1], [2, 0]]",
        "[np.array([[0], [1]]), np.array([0, 2])]", f"[{A} % 2 == 0]", "[np.array([True, False])]", "[2]", "[0, 3]", "[0, 0, 0]", "[()]",
        ".T", ".sum(axis=0)", ".max(axis=1, keepdims=True)", ".reshape(3, -1)", ".cumsum(axis=1)", ".cumsum(axis=0)", ".reshape(4)",
    )),
    *(f"{A} {op} 2" for op in ("+", "-", "*", "/", "//", "%", "**", "<", "==", "&", "|", "^", "<<", ">>")),
    *(f"{B} {op} np.float32(0.75)" for op in ("+", "-", "*", "/", "//", "%", "<=", "!=")),
    *(f"np.{f}({B})" for f in (
        "exp", "expm1", "log", "log1p", "sqrt", "tanh", "sin", "floor", "ceil", "trunc", "rint", "abs", "negative", "isnan", "isfinite",
        "logical_not", "max", "min",
    )),
    *(f"np.array([100, -128, 127], np.int8) {op} np.int8(100)" for op in ("+", "-", "*")),
    "np.array([250], np.uint8) + np.uint8(10)", "-np.array([1], np.uint8)", "np.array([1, 0]) // np.array([0, 0])",
    "np.array([7, -7]) % np.array([-3, 3])", "np.fmod(np.array([7, -7]), np.array([-3, 3]))", "np.array([1.0, -1.0, 0.0]) / 0.0",
    "np.array([300, -1]).astype(np.uint8)", "np.array([1.7, -1.7]).astype(np.int32)", "np.array([1e5], np.float32).astype(np.float16)",
    "np.array([1, 2], np.int8) + 1", "np.array([1, 2], np.int8) + 1.5", "np.array([1, 2], np.int8) + 300", "np.array([True]) + 1",
    "np.array([True, False]) + np.array([True, True])", "np.array([1], np.int32) + np.array([1], np.uint32)",
    "np.array([1], np.float32) + np.array([1], np.int64)", "np.array([1], np.float16) * np.array([1], np.int8)",
    "np.array([0.1], np.float32).view(np.int32)", "np.array([1, 2], np.int16).view('u2')", "np.broadcast_to(np.arange(3), (2, 3))",
    "np.broadcast_arrays(np.arange(3), np.arange(2).reshape(2, 1))[1]", f"np.where({A} > 2, {A}, -1)", "np.where([True, False], 1.5, 2)",
    "np.argsort(np.array([3.0, np.nan, 1.0, 3.0]), kind='stable')", "np.unique(np.array([3, 1, 3, 2]))", "np.clip(np.arange(5), 1, 3)",
    "np.unique(np.array([3.0, np.nan, 1.0, np.nan]), return_inverse=True)[1]", "np.concatenate([np.arange(2), np.array([1.5])])",
    "np.array([[1, 2], [3]])", "np.zeros((2, 0))", "np.ones(3, bool)", "np.sum(np.array([True, True]))",
    "np.prod(np.array([2, 3], np.int8))",
    "np.all(np.zeros((0,)))", "np.any(np.array([[0, 1], [0, 0]]), axis=1)", "np.arange(3) + np.arange(2)", "np.int64(3) + 4",
    "np.float32(0.1) + 0.2", "np.zeros(1, np.promote_types('int32', 'float32'))",
    "np.power(np.array([2.0, -8.0, 0.0]), np.array([-1.0, 1 / 3, -1.0]))",
    f"np.nan_to_num({B}, nan=0.0, posinf=np.inf, neginf=-np.inf)", "np.tile(np.arange(2), 3)",
    "np.flatnonzero(np.array([0, 3, 0, 4]))", "np.left_shift(np.array([1], np.uint64), np.array([63], np.uint64))",
]  # fmt: skip
UNITS = 8
"""Units in the last place by which floats may differ: NumPy's functions of f32 are not the nearest, sums are added in another order"""


def test_expressions(page: Ask) -> None:
    theirs = page(expressions=EXPRESSIONS)
    wrong = [
        (e, mine, yours)
        for e, yours in zip(EXPRESSIONS, theirs, strict=True)
        if not same(mine := evaluated(np, e), yours)
    ]
    assert not wrong, "\n".join(map(str, wrong))


def same(expected: dict[str, Any], got: dict[str, Any]) -> bool:
    """Whether dtypes, shapes, elements and errors are alike."""
    if "error" in expected or "error" in got:
        return expected == got
    return all(expected[key] == got[key] for key in ("dtype", "shape")) and all(
        mine == yours or near(float(mine), float(yours), expected["dtype"])
        for mine, yours in zip(expected["data"], got["data"])
    )


def near(a: float, b: float, dtype: str) -> bool:
    step = float(np.finfo(dtype).eps) if dtype.startswith("float") else 0.0
    return math.isfinite(a) and math.isfinite(b) and (a != 0) == (b != 0) and abs(a - b) <= UNITS * step * abs(a)


def test_what_is_same() -> None:
    one = {"dtype": "float32", "shape": [1], "data": ["1.0"]}
    assert same(one, {**one, "data": ["1.0000001"]}) and same({"error": "E"}, {"error": "E"})
    for other in ({"data": ["1.00001"]}, {"data": ["nan"]}, {"dtype": "float64"}, {"shape": []}, {"error": "E"}):
        assert not same(one, {**one, **other})


def test_the_gallery_is_answered_alike(page: Ask, here: Ask, entries: dict[str, dict[str, Any]]) -> None:
    for op in ("softmax", "scatter_elements", "topk", "unique", "concat", "reshape", "max_pool"):
        e = entries[op]
        assert page("edit", text=e["spec"]) == here("edit", text=e["spec"]), op
        arguments = {"types": e["types"], "params": e["params"]}
        assert _numbered(page("infer", **arguments)) == _numbered(here("infer", **arguments)), op
        theirs, ours = (ask("compute", sizes=e["dims"], fills=e["fills"]) for ask in (page, here))
        assert theirs.keys() == ours.keys() == {"inputs", "outputs"}, op
        for part in ours:
            for a, b in zip(ours[part], theirs[part], strict=True):
                assert {**a, "data": 0} == {**b, "data": 0}, op
                np.testing.assert_allclose(b["data"], a["data"], rtol=1e-5, atol=1e-7, err_msg=op)


def test_the_plan_is_that_of_an_export(page: Ask, here: Ask, entries: dict[str, dict[str, Any]]) -> None:
    e = entries["softmax"]
    for ask in (page, here):
        ask("edit", text=e["spec"])
        ask("infer", types=e["types"], params=e["params"])
    plan = page("plan", sizes=e["dims"])
    assert plan == here("plan", sizes=e["dims"])
    assert plan["memory"]["value"]["lines"][0].startswith("arena = 64*((m + 15) // 16)")
    assert plan["memory"]["value"]["bytes"] == 8576
    assert "target triple" in plan["kernels"]["value"][0]["llvm"]


def test_what_a_stand_in_does_not_have_is_named(page: Ask, entries: dict[str, dict[str, Any]]) -> None:
    page("edit", text=entries["relu"]["spec"])
    for dtype, words in (("bf16", "the page cannot compute with bfloat16"), ("f16", None)):
        assert "error" not in page("infer", types={"x": f"{dtype}[n]"}, params={})
        assert page("compute", sizes={"n": 3}, fills={"x": "k"}).get("error", "").startswith(words or "")
        assert ("error" in page("plan", sizes={"n": 3})["memory"]) == (words is not None)
    assert page(expressions=["np.fft", "np.linspace(0, 1)"]) == [{"error": "AttributeError"}] * 2


def _numbered(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the numbers of unnamed symbols, which count from the start of a process."""
    return {**answer, "equations": [{**q, "text": re.sub(r"\.\d+", ".", q["text"])} for q in answer["equations"]]}
