"""Sequence and optional operators of ONNX beside onnxruntime, in branches and loops too; Scan of opset 8 with lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.cli.main import main
from anyshape.errors import ModelError, ShapeError, UnsupportedError
from tests.control.comparing import same
from tests.control.test_onnx_control import graph, infos, node, rows

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
FORMS: tuple[dict[str, Any], ...] = ({}, {"loop": "python"})


def seq(name: str, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, shape)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any], opset: int = 17
) -> onnx.ModelProto:
    g = helper.make_graph(list(nodes), "g", list(inputs), list(outputs))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agree(m: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]]) -> None:
    session = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    for form in FORMS:
        exe = anyshape.compile(m, **form)
        for feed in feeds:
            same(exe.run(feed), session.run(None, feed), rtol=1e-5, atol=1e-6)


def test_a_loop_that_collects_a_sequence_in_a_branch() -> None:
    """Rows of changing size, in a branch of the turns whose number is odd."""
    then = graph([node("SequenceInsert", "s piece", "t")], "", "")
    then.output.extend([seq("t")])
    other = graph([node("Identity", "s", "e")], "", "")
    other.output.extend([seq("e")])
    body = graph(
        [
            node("Cast", "c_in", "c_out", to=TensorProto.BOOL), node("Mod", "i two", "r"), node("Equal", "r one", "odd"),
            node("Unsqueeze", "i zero", "end"), node("Slice", "x zero end", "piece"),
            node("If", "odd", "s2", then_branch=then, else_branch=other),
        ],
        "i:i[] c_in:b[]", "c_out:b[]", {"two": np.int64(2), "one": np.int64(1), "zero": np.array([0])},
    )  # fmt: skip
    body.input.extend([seq("s")])
    body.output.extend([seq("s2")])
    m = model(
        [
            node("SequenceEmpty", "", "s0"), node("Loop", "n c s0", "all", body=body), node("SequenceLength", "all", "count"),
            node("SequenceInsert", "all x", "more"), node("ConcatFromSequence", "more", "y", axis=0),
        ],
        infos("n:i[] c:b[] x:f[,3]"), [seq("all"), *infos("count:i[] y:f[,]")],
    )  # fmt: skip
    agree(m, [{"n": np.array(k), "c": np.array(True), "x": rows(5, 3)} for k in (0, 1, 2, 6)])


def test_what_comes_and_goes_as_a_sequence() -> None:
    m = model(
        [
            node("SequenceErase", "s at", "less"), node("SequenceAt", "s at", "x"), node("SequenceInsert", "less x zero", "more"),
            node("ConcatFromSequence", "more", "y", axis=1, new_axis=1), node("SequenceConstruct", "x x", "two"),
        ],
        [seq("s", [None, None]), *infos("at:i[] zero:i[]")], [seq("more"), *infos("y:f[,,]"), seq("two")],
    )  # fmt: skip
    s = [rows(2, 3) * k for k in range(1, 4)]
    agree(m, [{"s": s, "at": np.array(k), "zero": np.array(0)} for k in (0, 2, -1, -3)])
    exe = anyshape.compile(m)
    with pytest.raises(ShapeError, match=r"list_erase \(SequenceErase 'less'\): position 3 is outside of a list of 3"):
        exe.run({"s": s, "at": np.array(3), "zero": np.array(0)})


def test_tensors_of_different_ranks_in_one_sequence() -> None:
    """A sequence without a rank in its type is examined when it is there."""
    m = model(
        [node("SequenceAt", "s at", "x"), node("Exp", "x", "y")],
        [seq("s"), *infos("at:i[]")],
        infos("y:f?".replace("f?", "f[?]")),
    )
    exe = anyshape.compile(m)
    s = [rows(2, 3), rows(4), np.float32(1)[()] * np.ones(())]
    s[2] = s[2].astype(np.float32)
    for k in (0, 1, 2, -1):
        same(exe.run({"s": s, "at": np.array(k)}), [np.exp(s[k])], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("split", [None, np.array(2), np.array([1, 4])])
@pytest.mark.parametrize("axis", [0, -1])
def test_split_to_sequence(split: Any, axis: int) -> None:
    lengths = {} if split is None else {"k": split}
    inputs = infos("x:f[n,m]") + ([] if split is None else infos("k:i[k]" if split.ndim else "k:i[]"))
    operands = "x" if split is None else "x k"
    m = model([node("SplitToSequence", operands, "s", axis=axis, keepdims=int(split is not None))], inputs, [seq("s")])
    agree(m, [{"x": rows(5, 5), **lengths}])


def test_sequence_map() -> None:
    body = helper.make_graph(
        [node("Add", "a b", "c"), node("Shape", "a", "d")], "body", infos("a:f[?] b:f[?]"), infos("c:f[?] d:i[?]")
    )
    m = model([node("SequenceMap", "s x", "t u", body=body)], [seq("s", [None, 3]), *infos("x:f[3]")],
              [seq("t"), helper.make_tensor_sequence_value_info("u", INT64, None)])  # fmt: skip
    agree(m, [{"s": [rows(k, 3) for k in range(1, 4)], "x": rows(3)}, {"s": [rows(2, 3)], "x": rows(3)}])


def test_optionals() -> None:
    """An optional tensor gives its element, or something else where there is none."""
    opt = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [None, 3])))
    then = graph([node("OptionalGetElement", "o", "t")], "", "t:f[,3]")
    other = graph([node("Exp", "x", "e")], "", "e:f[,3]")
    m = model(
        [node("OptionalHasElement", "o", "has"), node("If", "has", "y", then_branch=then, else_branch=other), node("Optional", "y", "z")],
        [opt, *infos("x:f[n,3]")], [*infos("y:f[,3] has:b[]"), helper.make_value_info("z", opt.type)], 18,
    )  # fmt: skip
    for form in FORMS:
        exe = anyshape.compile(m, **form)
        a, x = rows(2, 3), rows(4, 3)
        for optional, expected in ((a, a), (None, np.exp(x))):
            y, has, z = exe.run({"o": optional, "x": x})
            same([y, z], [expected, expected], rtol=1e-5, atol=1e-6)
            assert has == (optional is not None)


@pytest.mark.parametrize("back", [0, 1])
def test_scan_of_opset_8_with_lengths(back: int) -> None:
    body = graph([node("Add", "s x", "t"), node("Identity", "t", "y")], "s:f[2] x:f[2]", "t:f[2] y:f[2]")
    m = model([node("Scan", "lens s0 xs", "last all", body=body, num_scan_inputs=1, directions=[back])],
              infos("lens:i[b] s0:f[b,2] xs:f[b,n,2]"), infos("last:f[b,2] all:f[b,n,2]"), 8)  # fmt: skip
    feeds = [{"lens": np.array(k), "s0": rows(3, 2), "xs": rows(3, 4, 2)} for k in ([4, 2, 1], [1, 3, 4])]
    agree(m, feeds)


def test_what_is_wrong_is_reported() -> None:
    with pytest.raises(ModelError, match=r"declared as list\[f32\[\.\.\.\]\], but gets f32"):
        body = graph([node("Identity", "c", "c2"), node("SequenceInsert", "s x", "s2")], "i:i[] c:b[]", "c2:b[]")
        body.input.extend([seq("s")])
        body.output.extend([seq("s2")])
        anyshape.compile(model([node("Loop", "n c x", "y", body=body)], infos("n:i[] c:b[] x:f[3]"), [seq("y")]))
    with pytest.raises(UnsupportedError, match="a map"):
        value = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
        anyshape.compile(model([node("Identity", "m", "y")], [helper.make_value_info("m", value)], infos("y:f[?]")))


def test_the_command_and_the_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes sequences as inputs too, and the session tells types as onnxruntime does."""
    m = model([node("SequenceAt", "s at", "x"), node("SequenceErase", "s at", "t")], [seq("s", [None, 3]), *infos("at:i[]")],
              [*infos("x:f[,3]"), seq("t")])  # fmt: skip
    onnx.save(m, tmp_path / "m.onnx")
    assert main(["run", str(tmp_path / "m.onnx"), "--ints", "0:3"]) == 0
    assert "s: list of 3: float32[8, 3]; float32[9, 3]; float32[10, 3]" in capsys.readouterr().out
    session = anyshape.InferenceSession(str(tmp_path / "m.onnx"))
    assert [a.type for a in session.get_inputs()] == ["seq(tensor(float))", "tensor(int64)"]
