"""What the playground answers: the gallery, faults with their places, and requests that must not end it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape_testing.process.profile import LONG
from tests.playground.conftest import Ask

Entries = dict[str, dict[str, Any]]
QUICK = ("relu", "gelu", "add", "mean", "matmul", "attend", "gather", "cumsum", "nonzero")


def test_the_whole_gallery(here: Ask, entries: Entries) -> None:
    assert len(entries) >= 12
    for op in entries if LONG else QUICK:
        e = entries[op]
        answers = [here("edit", text=e["spec"]), here("infer", types=e["types"], params=e["params"])]
        answers.append(here("compute", sizes=e["dims"], fills=e["fills"]))
        if LONG:
            answers.append(here("plan", sizes=e["dims"]))
        assert not [a for a in answers if "error" in a], op
        assert {d["name"] for d in answers[1]["dims"]} == set(e["dims"]), op
        assert {i["name"] for i in answers[1]["inputs"]} == set(e["fills"]), op


def opened(here: Ask, e: dict[str, Any]) -> dict[str, Any]:
    here("edit", text=e["spec"])
    answer: dict[str, Any] = here("infer", types=e["types"], params=e["params"])
    return answer


def test_results_are_those_of_numpy(here: Ask, entries: Entries) -> None:
    e = entries["attend"]
    opened(here, e)
    answer = here("compute", sizes={"n": 2, "m": 3, "d": 4, "e": 5}, fills=e["fills"])
    q, k, v = (np.reshape(i["data"], i["shape"]) for i in answer["inputs"])
    weights = np.exp(q @ k.T)
    (y,) = answer["outputs"]
    assert y["shape"] == [2, 5]
    np.testing.assert_allclose(np.reshape(y["data"], (2, 5)), weights / weights.sum(1, keepdims=True) @ v, rtol=1e-5)


def test_checks_and_equations_have_their_lines(here: Ask, entries: Entries) -> None:
    answer = opened(here, entries["attend"])
    assert answer["outputs"] == [{"name": "y", "type": "f32[n, e]"}]
    assert answer["checks"] == ["m != 0  # attend: there is nothing to attend to among m keys"]
    lines = entries["attend"]["spec"].split("\n")
    for q in answer["equations"]:
        assert lines[q["line"] - 1].split("[")[0].strip() == q["text"].split("[")[0]


def test_parameters_have_kinds_and_defaults_as_the_spec_has_them(here: Ask, entries: Entries) -> None:
    params = {p["name"]: (p["kind"], p["default"]) for p in here("edit", text=entries["max_pool"]["spec"])["params"]}
    assert params["kernel"] == ("ints", None)
    assert params["strides"] == ("ints", "fill(len(d), 1)")
    assert params["auto_pad"] == ("NOTSET | SAME_UPPER | SAME_LOWER | VALID", '"NOTSET"')


def test_a_fault_has_its_place_and_a_corrected_spec_goes_on(here: Ask, entries: Entries) -> None:
    e = entries["softmax"]
    answer = here("edit", text=e["spec"].replace("total[*a, *b]\n", "totl[*a, *b]\n"))
    (fault,) = answer["findings"]
    line = e["spec"].split("\n")[fault["line"] - 1].replace("total[*a, *b]", "totl[*a, *b]")
    assert "did you mean 'total'" in fault["text"]
    assert line.rindex("totl") == fault["col"] - 1 and fault["end"] - fault["col"] == 4
    assert here("infer", types=e["types"], params=e["params"]) == {"error": "the spec has errors"}
    assert here("compute", sizes={}, fills={}) == {"error": "there is no call to compute"}
    assert "outputs" in opened(here, e)


SPECS = [
    "", "ops:", "ops: {}", "ops: [1, 2]", "- - -", "a: *b", "\0", "ops: {f: {inputs: 3}}", "é: [", "ops:\n  f:\n    kernel: 'y[i] = '",
    "ops: " + "{a: " * 200 + "1" + "}" * 200, "[" * 3000, "&a [*a, *a]", "ops:\n\tf: 1", "x" * 200,
    "ops:\n  f:\n    inputs: {x: 'F[n]'}\n    outputs: {y: 'F[n]'}\n    dtypes: {F: float}\n    compose: 'y = softmax(x)'",
    "ops:\n  f:\n    inputs: {x: 'F[n]'}\n    outputs: {y: 'F[n]'}\n    kernel: 'y[i] = " + "(" * 400 + "x[i]" + ")" * 400 + "'",
]  # fmt: skip


@pytest.mark.parametrize("text", SPECS, ids=range(len(SPECS)))
def test_a_spec_that_is_wrong_is_answered(here: Ask, entries: Entries, text: str) -> None:
    answer = here("edit", text=text)
    assert answer["error"]
    for fault in answer.get("findings", ()):
        assert fault["line"] >= 1 and fault["end"] > fault["col"] >= 1 and fault["text"]
    assert "outputs" in opened(here, entries["relu"])


CALLS: list[tuple[dict[str, Any], str]] = [
    ({"types": {}}, "say the type of the input x"),
    ({"types": {"x": "f32[n"}}, ""),
    ({"types": {"x": "f99[n]"}}, "f99"),
    ({"types": {"x": "f32[n]; f32[m]"}}, "x is one tensor"),
    ({"types": {"x": "f32[n]"}, "params": {"axis": "7"}}, "7"),
    ({"types": {"x": "f32[n]"}, "params": {"axis": "("}}, ""),
    ({"types": {"x": "f32[n]"}, "params": {"axis": "[1] * 3"}}, ""),
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=range(len(CALLS)))
def test_a_call_that_is_wrong_is_answered(here: Ask, entries: Entries, call: dict[str, Any], words: str) -> None:
    opened(here, entries["softmax"])
    assert words in here("infer", **{"params": {}, **call})["error"]
    assert "outputs" in here("infer", types={"x": "f32[n]"}, params={})


SIZES: list[tuple[dict[str, Any], str, str]] = [
    ({"n": 2, "m": 2}, "1 / 0", "cannot be made by '1 / 0': ZeroDivisionError"),
    ({"n": 2, "m": 2}, "unknown", "NameError"),
    ({"n": 2, "m": 2}, "__import__('os')", "NameError"),
    ({"n": 2, "m": 2}, "k +", "SyntaxError"),
    ({"n": 2, "m": 2}, "[k, k]", "cannot be made"),
    ({"n": 2, "m": 2}, "'text'", "cannot be made"),
    ({"n": 1000, "m": 1000}, "k", "1000000 elements"),
    ({"n": -1, "m": 2}, "k", ""),
    ({"n": 2}, "k", "m"),
]


@pytest.mark.parametrize(("sizes", "fill", "words"), SIZES, ids=range(len(SIZES)))
def test_sizes_and_elements_that_are_wrong_are_answered(
    here: Ask, entries: Entries, sizes: dict[str, Any], fill: str, words: str
) -> None:
    e = entries["softmax"]
    opened(here, e)
    assert words in here("compute", sizes=sizes, fills={"x": fill})["error"]
    assert here("compute", sizes={"n": 0, "m": 2}, fills={"x": "nan"})["outputs"][0]["data"] == []
    assert here("compute", sizes={"n": 1, "m": 1}, fills={"x": "inf"})["outputs"][0]["data"] == ["nan"]


def test_a_request_that_the_page_does_not_have_is_answered(here: Ask) -> None:
    assert "error" in here("destroy") and "error" in here("edit") and "error" in here("compute", sizes=3, fills=[])


def test_a_run_that_is_refused_says_so(here: Ask, entries: Entries) -> None:
    e = entries["gather"]
    opened(here, e)
    answer = here("compute", sizes=e["dims"], fills={**e["fills"], "index": "v"})
    assert answer["error"].startswith("index 5 is out of range for axis 0 of x with size 5")
    opened(here, entries["attend"])
    answer = here("compute", sizes={"n": 2, "m": 0, "d": 1, "e": 1}, fills={})
    assert "nothing to attend to among 0 keys" in answer["error"]
