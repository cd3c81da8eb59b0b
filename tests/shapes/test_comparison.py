"""The comparison with other tools: what it counts, and that no shape of an exported model is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.models import structure
from benchmarks.models.zoo.arguments import calls
from benchmarks.symbolic_shapes import (
    Subject,
    Tally,
    Tool,
    _at,
    _judge,
    _run,
    by_anyshape,
    by_anyshape_of_bounded_sizes,
    by_onnx,
    by_onnxruntime,
)
from tests.frontends.models import model, node, tensor

SUBJECT = Subject(
    "halves",
    model([node("Concat", "x x", "y", axis=0), node("NonZero", "x", "z")], [tensor("x", ["n"])], "y z"),
    [{"x": np.ones(n, np.float32)} for n in (2, 5)],
    {"y": [(4,), (10,)], "z": [(1, 2), (1, 5)]},
)


def judged(said: Any) -> Tally:
    tally = Tally()

    def tool(proto: Any, feeds: Sequence[Any]) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    _judge(SUBJECT, tool, tally)
    return tally


@pytest.mark.parametrize(("said", "right", "unknown", "wrong"), [
    ({"y": [[4], [10]], "z": [[1, 2], [1, 5]]}, 3, 0, []), ({"y": [[4], [10]], "z": [[1, None], [1, None]]}, 2, 1, []),
    ({"y": [[4], [4]], "z": [[1, 2], [1, 5]]}, 2, 0, [("halves", "y", 0, 4, 10)]), ({}, 0, 3, []),
    ({"y": [None, None], "z": [[1, 2], [1, 5]]}, 2, 1, []), ({"y": [[4], [None]], "z": [[1, 2], [1, 5]]}, 2, 1, []),
    ({"y": [[2, 2], [2, 5]], "z": [[1, 2], [1, 5]]}, 2, 1, [("halves", "y", -1, 2, 1)]),
])  # fmt: skip
def test_what_is_counted(said: Any, right: int, unknown: int, wrong: list[Any]) -> None:
    tally = judged(said)
    assert (tally.right, tally.unknown, tally.wrong, tally.failed, tally.dims) == (right, unknown, wrong, 0, 3)


def test_a_tool_that_fails_knows_nothing() -> None:
    tally = judged(ValueError("no"))
    assert (tally.right, tally.unknown, tally.failed) == (0, 3, 1)


@pytest.mark.parametrize("tool", [by_anyshape, by_onnx, by_onnxruntime])
def test_what_a_tool_says_is_read(tool: Any) -> None:
    assert tool(SUBJECT.proto, SUBJECT.feeds)["z"] == [[1, None], [1, None]]
    if tool is not by_onnx:  # which gives no expressions
        assert tool(SUBJECT.proto, SUBJECT.feeds)["y"] == [[4], [10]]


@pytest.mark.parametrize(("text", "number"), [
    ("n", 6), ("2*n + 1", 13), ("floor(n/4)", 1), ("Max(1, n - 2)", 4), ("unk__0", None), ("", None), ("n + unk__1", None), ("n*", None),
])  # fmt: skip
def test_expressions_of_other_tools(text: str, number: int | None) -> None:
    assert _at(onnx.TensorShapeProto.Dimension(dim_param=text), {"n": 6}) == number


def of_exported(name: str, tool: Tool, folder: Path) -> Tally:
    built = structure.build(f"zoo_{name}", folder / "m.onnx", seed=7)
    (subject,) = _run(name, onnx.load(built), calls(name))
    tally = Tally()
    _judge(subject, tool, tally)
    assert not tally.wrong and not tally.failed and tally.right > 50
    return tally


@pytest.mark.parametrize("name", ["gpt2", "swin", "unet_dynamo", "segmenter_dynamo", "detector"])
def test_no_shape_of_an_exported_model_is_wrong(name: str, tmp_path: Path) -> None:
    tally = of_exported(name, by_anyshape, tmp_path)
    assert tally.unknown == 0 or name == "detector", "a size is unknown that data does not decide"


@pytest.mark.parametrize("name", ["tf_pyramid", "yolo_dynamo"])
def test_arithmetic_in_floats_is_followed_of_bounded_sizes(name: str, tmp_path: Path) -> None:
    assert of_exported(name, by_anyshape_of_bounded_sizes, tmp_path).unknown == 0
    assert of_exported(name, by_anyshape, tmp_path).unknown > 0, "nothing is left that a bound makes known"
