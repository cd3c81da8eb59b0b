"""Every operator in every opset beside onnxruntime and ONNX's reference: a sample; `make test-long` runs all trials."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from anyshape.frontends.onnx.mappings import all_mappings, find_schema
from tests.frontends.differential import Trial, bases, opsets, trials
from tests.frontends.differential_kept import KEPT, PAGE, Kept, page
from tests.frontends.differential_run import (
    Runtime,
    Runtimes,
    chosen,
    difference,
    differences,
    is_kept,
    runtimes,
    unlike,
)

SAMPLE = 150
"""One trial of so many"""
TRIAL = Trial("Relu", 14, "a case", "as it is", {}, (np.ones(2, np.float32),), 1)


@cache
def named(name: str) -> Trial:
    return next(t for t in trials() if t.name == name)


@pytest.fixture(scope="module")
def by() -> Iterator[Runtimes]:
    engines = runtimes()
    yield engines
    engines.close()


@pytest.mark.parametrize("e", KEPT, ids=lambda e: e.example)
def test_what_is_kept_differs(e: Kept, by: Runtimes):
    t = named(e.example)
    d = difference(t, by)
    assert d is not None, "it differs no more: take it off the list"
    assert e.covers(d.kind, t.operator, t.opset, t.case, t.change, d.why), d


def test_nothing_else_differs():
    listed = chosen(part=(0, SAMPLE))
    assert len(listed) > 100
    new = [f"{d.kind} {t.name}: {d.why}" for t, d in differences(listed) if d is not None and not is_kept(d)]
    assert not new, "\n".join(new)


def test_the_page_has_the_table():
    assert page(PAGE.read_text()) == PAGE.read_text()


def test_every_attribute_of_learners_is_in_a_case():
    """Every attribute of learners is tried absent, empty and at its extremes."""
    missing = []
    for operator, versions in opsets().items():
        domain, _, op = operator.rpartition(":")
        said_by_cases = {a.name for base in bases()[operator] for a in base.node.attribute}
        if domain == "ai.onnx.ml":
            missing += [
                f"{operator}-{v}: {n}"
                for v in versions
                for n in find_schema(domain, op, v).attributes
                if n not in said_by_cases
            ]
    assert not missing
    learners = {o for o, versions in all_mappings().items() if o.startswith("ai.onnx.ml:") and any(versions.values())}
    assert learners <= set(opsets()), "operators without a case"


def test_what_is_empty_is_tried():
    names = {t.change for t in trials() if t.operator == "ai.onnx.ml:LinearClassifier"}
    assert {"intercepts absent", "intercepts=[]", "post_transform=b''", "classlabels_strings=[]"} <= names
    tensors = {t.change for t in trials() if t.operator == "ai.onnx.ml:LabelEncoder"}
    assert {"keys_tensor=[]", "keys_tensor absent"} <= tensors


INF, NAN = np.inf, np.nan


def said(us, other, reference, wide=None, change=TRIAL.change, fed=1.0, axes=(1,)) -> str:
    """What is found where the three runtimes say these numbers, or that they have none."""

    def says(v):
        return v if isinstance(v, str) else [np.array(v, np.float32)]

    answers = iter([says(reference), says(wide if wide is not None else reference)])
    differs = difference(
        replace(
            TRIAL,
            change=change,
            attributes={"axes": helper.make_attribute("axes", axes)},
            feeds=(np.full(2, fed, np.float32), None),
        ),
        Runtimes(lambda *_: says(us), lambda *_: says(other), lambda *_: next(answers)),
    )
    return differs.kind if differs is not None else ""


def test_who_is_believed():
    assert said([1], [1], [2]) == ""  # onnxruntime is enough
    assert said([1], [2], [2]) == "wrong"
    assert said([1], [2], [1]) == "other"
    assert said([1], "none", [2]) == "wrong"
    assert said([1], [2], "none") == "other"
    assert said([1], "none", "none") == ""
    assert said([1], [2], [3], wide=[1]) == ""  # floats of 64 bits decide
    assert said([1], [2], [3], wide=[3]) == "wrong"
    assert said("refused: no", [2], [2]) == "refused"
    assert said("refused: no", [2], [3]) == ""
    assert said("refused: no", "none", [3]) == ""
    assert said("refused: no", "none", [3], change="axes=[]") == "refused"
    assert said("refused: no", "none", [3], change="shape=[]") == "", "an input that is an empty vector"
    assert said("refused: no", "none", [3], change="intercepts absent") == "refused"
    assert said("died: of something", "none", "none") == "died"


def test_an_overflow_of_theirs_alone_is_no_difference():
    assert said([1, 2], [1, INF], [1, 2]) == "" and said([1, -INF], [1, NAN], [1, -INF]) == ""
    assert said([1], [NAN], [NAN], wide=[1]) == "", "floats of 64 bits decide"
    assert said([1], [NAN], [NAN]) == "wrong" and said([1], [NAN], [NAN], wide=[2]) == "wrong"
    assert said([1], [INF], "none") == "other", "nobody says that it is 1"
    assert said([1, 2], [3, INF], [1, 2]) == "other", "the element beside it"
    assert said([INF], [1], [1]) == "wrong" and said([NAN], [1], [INF], wide=[1]) == "wrong", "an overflow of ours"
    assert said([1], [INF], [1], fed=INF) == "other" and said([1], [NAN], [1], axes=(NAN,)) == "other", (
        "what was given is none"
    )


def test_what_the_reference_has_not_written_is_the_same_in_every_run(by: Runtimes):
    trial = named("MaxUnpool-11 maxunpool_export_without_output_shape: kernel_shape=[]")
    assert {str(by.reference(*trial.model()))[:10] for _ in range(5)} == {"IndexError"}


def test_every_float_input_has_the_largest_and_the_lowest():
    changes = {t.change for t in trials() if t.name.startswith("BatchNormalization-15 batchnorm_example: ")}
    inputs = ("X", "scale", "B", "input_mean", "input_var")
    assert {f"{name} with {end}" for name in inputs for end in ("nan", "inf", "largest", "lowest")} <= changes


def test_a_large_number_hides_nothing():
    top = float(np.finfo(np.float32).max)
    large = np.array([top, 1], np.float32)
    assert not unlike([large], [large * np.float32(0.999)])
    assert unlike([large], [np.array([top, 1.1], np.float32)]), "the element beside it"
    assert unlike([large], [np.array([top * 0.9, 1], np.float32)]) and unlike([large], [-large])
    half = np.array([60000, 1], np.float16)
    assert unlike([half], [np.array([60000, 3], np.float16)]) and not unlike([half], [np.array([60032, 1], np.float16)])
    assert unlike([np.array([15], ml_dtypes.uint4)], [np.array([14], ml_dtypes.uint4)]), "an integer is equal or not"


def test_what_is_unlike():
    nan, one = np.array([np.nan], np.float32), np.ones(1, np.float32)
    assert not unlike([one, nan], [one, nan]) and not unlike([one * 1.0001], [one])
    assert unlike([one], [nan]) and unlike([one * 1.1], [one]) and unlike([one], [one, one])
    assert unlike([one], [one[:, None]]) and unlike([one], [one.astype(np.float64)])
    assert unlike([np.array(["a"])], [np.array(["b"], object)]) and not unlike(
        [np.array(["a"])], [np.array(["a"], object)]
    )
    assert unlike([np.array([np.inf], np.float32)], [np.array([-np.inf], np.float32)])
    assert not unlike(pickle.loads(pickle.dumps([one])), [one])
    eighth = np.array([0.125], ml_dtypes.float8_e5m2)
    assert not unlike([eighth], [eighth.view(np.uint8)]) and unlike([eighth], [eighth.view(np.int8)])
    assert "dtypes" in unlike([one], [np.ones(1, np.int32)]) and "dtypes" in unlike(
        [one.astype(ml_dtypes.bfloat16)], [one.astype(np.float16)]
    )


def test_onnxruntime_is_given_floats_beside_those_that_numpy_has_not(by: Runtimes):
    def result_of(op: str, *feeds: np.ndarray, **attributes: int) -> np.ndarray:
        protos = {key: helper.make_attribute(key, value) for key, value in attributes.items()}
        return by.other(*Trial(op, 21, "a case", "as it is", protos, feeds, 1).model())[0]

    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):
        assert result_of("Cast", np.ones(2, dtype), to=onnx.TensorProto.FLOAT).tolist() == [1, 1]
    coded = result_of(
        "QuantizeLinear", np.ones(2, np.float32), np.array(2, np.float32), np.zeros((), ml_dtypes.float8_e4m3fn)
    )
    assert coded.view(ml_dtypes.float8_e4m3fn).astype(float).tolist() == [0.5, 0.5]
    assert result_of("Neg", np.ones(2, np.float32)).tolist() == [-1, -1]


def test_a_runtime_that_dies_costs_one_trial():
    dies = Runtime(lambda model, feed: os._exit(7) if model == b"last" else [len(model)])
    assert (
        dies(b"one", {}) == [3] and dies(b"last", {}) == "died: the process ended with 7" and dies(b"more", {}) == [4]
    )
    dies.close()


def test_a_runtime_that_hangs_is_stopped():
    hangs = Runtime(lambda model, feed: [0 for _ in iter(int, 1)], longest=0.1)
    assert hangs(b"", {}) == "died: more than 0 seconds"
    hangs.close()


def test_a_reference_that_hangs_is_not_run_again_with_wider_floats():
    asked = []

    def reference(model, feed):
        asked.append(model)
        return "died: more than 5 seconds"

    by = Runtimes(lambda *_: [np.ones(2, np.float32)], lambda *_: [np.zeros(2, np.float32)], reference)
    assert difference(TRIAL, by).kind == "other" and len(asked) == 1
