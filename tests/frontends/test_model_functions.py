"""Operators given as graphs of others: the model's own functions, and the bodies that ONNX's declarations carry."""

from __future__ import annotations

import pytest
from onnx import helper

from anyshape.errors import ModelError, UnsupportedError
from anyshape.frontends.onnx import load
from tests.frontends.models import call, function, model, node, tensor
from tests.frontends.small_ops import TABLE

X = tensor("x", ["n", 3])


def _load(nodes, functions, table=TABLE):
    return load(model(nodes, [X], "y", domains=["acme"], functions=functions), table=table)


def test_functions_of_the_model_are_inlined_with_attributes_and_absent_inputs():
    inner = helper.make_node("ReduceMax", ["h"], ["y"])
    for name, kind in (("axes", 7), ("keepdims", 2)):
        inner.attribute.add(name=name, ref_attr_name="k_" + name, type=kind)
    top = function("Top", "x unused", [node("Relu", "x", "h"), inner], attributes=["k_axes", "k_keepdims"])
    f = _load([call("Top", "x", "y", "call", k_keepdims=0)], [top])
    assert [n.source for n in f.nodes] == ["Relu 'h' in Top 'call'", "ReduceMax 'y' in Top 'call'"]
    assert str(f.results[0].type) == "f32[3]"
    with pytest.raises(UnsupportedError, match=r"Top \(acme, opset 1\): in its body, ReduceMax: keepdims must be 0"):
        _load([call("Top", "x", "y", "call", k_keepdims=1)], [top])


def test_a_function_goes_before_a_mapping_only_in_its_own_domain():
    f = _load([call("Relu", "x", "y")], [function("Relu", "x", [node("Add", "x x", "y")])])
    assert [n.op.name for n in f.nodes] == ["add"]


def test_what_a_body_lacks_is_reported_of_the_call():
    with pytest.raises(
        UnsupportedError, match=r"F \(acme, opset 1\): in its body, Det: no mapping \(2 times, first F 'a'\)"
    ):
        _load([call("F", "x", "a"), call("F", "a", "y")], [function("F", "x", [node("Det", "x", "y")])])


def test_recursion_depth_and_number_of_nodes_are_bounded():
    with pytest.raises(ModelError, match="calls itself"):
        _load([call("F", "x", "y")], [function("F", "x", [call("F", "x", "y")])])
    last = node("Relu", "x", "y")
    tower = [function(f"F{k}", "x", [call(f"F{k + 1}", "x", "a"), call(f"F{k + 1}", "a", "y")]) for k in range(40)]
    with pytest.raises(UnsupportedError, match="nodes"):
        _load([call("F0", "x", "y")], [*tower, function("F40", "x", [last])])
    deep = [function(f"F{k}", "x", [call(f"F{k + 1}", "x", "y")]) for k in range(400)]
    with pytest.raises(UnsupportedError, match="deep"):
        _load([call("F0", "x", "y")], [*deep, function("F400", "x", [last])])


def test_damaged_functions():
    with pytest.raises(ModelError, match=r"function F: nothing produces its output 'q'"):
        _load([call("F", "x", "y")], [function("F", "x", [node("Relu", "x", "y")], output="q")])
    with pytest.raises(ModelError, match=r"function F: .*reads 'z', which nothing produces"):
        _load([call("F", "x", "y")], [function("F", "x", [node("Relu", "z", "y")])])
    with pytest.raises(ModelError, match="has 1 input, got 2"):
        _load([call("F", "x x", "y")], [function("F", "x", [node("Relu", "x", "y")])])
    with pytest.raises(ModelError, match="two functions"):
        _load([call("F", "x", "y")], [function("F", "x", [node("Relu", "x", "y")])] * 2)


def _first(n):
    return [n.input(0)]


def test_bodies_that_onnx_carries_are_inlined():
    seen = []
    table = {**TABLE, **{op: {1: lambda n: seen.append(n.source) or [n.input(0)]} for op in ("ReduceSum", "Mul")}}
    load(model([node("ReduceSumSquare", "x", "y", "sq")], [X], "y", opset=18), table=table)
    assert len(seen) == 2 and all("in ReduceSumSquare 'sq'" in s for s in seen)


def test_bodies_that_look_at_types():
    clip = model([node("Clip", "x - hi", "y")], [X, tensor("hi", [])], "y")
    table = {**TABLE, **{op: {1: _first} for op in ("Max", "Min", "Less", "Where", "CastLike")}}
    assert load(clip, table=table).results
    with pytest.raises(UnsupportedError, match=r"Clip \(ai.onnx, opset 17\): in its body, (Less|Where|Min|Max)"):
        load(clip, table=TABLE)
