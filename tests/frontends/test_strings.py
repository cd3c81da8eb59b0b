"""Tensors of strings: at the border, in models, and the two cases of letters."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, DtypeError, ModelError, ShapeError, UnsupportedError
from anyshape.strings import as_chars, as_strings
from tests.frontends import models

BLOCKS = (range(0x180), range(0x370, 0x400), range(0x400, 0x590), range(0x1E00, 0x1F00), range(0xFF00, 0xFF60))
"""Blocks in which letters have two cases, for `string_normalizer`."""
CASELESS = {0x370, 0x371, 0x372, 0x373, 0x376, 0x377, 0x37B, 0x37C, 0x37D, 0x37F, 0x3CF, *range(0x3D0, 0x400), 0x130}
"""Letters in those blocks that stay: archaic Greek and Coptic, and the capital I with a dot."""


def concat():
    a, b = anyshape.input("a", "char[n, v]"), anyshape.input("b", "char[w]")
    return anyshape.compile(anyshape.function([a, b], [ops.string_concat(a, b)]))


def model(node, inputs, outputs, opset=21, initializers=()):
    def infos(types):
        return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in types.items()]

    graph = helper.make_graph([node], "g", infos(inputs), infos(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize(
    "strings",
    [
        np.array(["ab", "", "é😀"]),
        np.array(["ab", "", "é😀"], object),
        ["ab", "", "é😀"],
        np.array(["ab", "", "é😀"]).astype(">U7"),
        np.array(["ab", "x", "", "x", "é😀"])[::2],
    ],
)
def test_strings_of_all_kinds_go_in(strings):
    got = concat()(strings, "!")
    assert got.dtype.kind == "U" and got.tolist() == ["ab!", "!", "é😀!"]


def test_what_is_no_string_is_refused():
    with pytest.raises(DtypeError, match=re.escape("input a must be strings, of type char[n, v]; got f64")):
        concat()(np.ones(2), "!")
    with pytest.raises(DtypeError, match="3 is not a string"):
        concat()(np.array(["a", 3], object), "!")
    with pytest.raises(ShapeError, match="of rank 1; got rank 2"):
        concat()(np.array([["a"]]), "!")
    assert concat()(np.array([[97, 98]], np.uint32), "!").tolist() == ["ab!"]


def test_characters_and_back():
    for a in (np.array([["ab", "c"], ["", "def"]]), np.array("xy"), np.zeros((2, 0), "<U3"), np.array(["", ""])):
        chars = as_chars(a)
        assert chars.dtype == "<U1" and chars.shape[:-1] == a.shape
        assert as_strings(chars).tolist() == a.tolist()


@pytest.mark.parametrize("action, cased", [("UPPER", str.upper), ("LOWER", str.lower)])
def test_letters_have_the_cases_of_unicode(action, cased):
    x = anyshape.input("x", "char[n, w]")
    none = np.zeros((0,), "<U1")
    exe = anyshape.compile(anyshape.function([x], [ops.string_normalizer(x, none, action=action)]))
    letters = [chr(c) for block in BLOCKS for c in block if c and c not in CASELESS]
    expected = [m if len(m := cased(c)) == 1 else c for c in letters]
    assert dict(zip(letters, exe(np.array(letters)).tolist(), strict=True)) == dict(zip(letters, expected, strict=True))


def test_constants_and_defaults_of_strings():
    node = helper.make_node("StringConcat", ["x", "suffix"], ["y"])
    suffix = helper.make_tensor("suffix", TensorProto.STRING, [2], [b".com", "é".encode()])
    m = model(node, {"x": (TensorProto.STRING, [None])}, {"y": (TensorProto.STRING, [None])}, initializers=[suffix])
    got = anyshape.InferenceSession(m.SerializeToString()).run(None, {"x": np.array(["a", "b"], object)})[0]
    assert got.dtype == object and got.tolist() == ["a.com", "bé"]
    suffix.string_data[0] = b"\xff"
    m.graph.initializer[0].CopyFrom(suffix)
    with pytest.raises(ModelError, match="'suffix': an element is not UTF-8"):
        anyshape.compile(m)
    del m.graph.initializer[0].string_data[:]
    with pytest.raises(ModelError, match="its shape has 2 strings, but its data has 0"):
        anyshape.compile(m)


def test_simplified_models_keep_their_strings():
    node = helper.make_node("StringConcat", ["x", "suffix"], ["y"])
    suffix = helper.make_tensor("suffix", TensorProto.STRING, [1], [b"!"])
    m = model(node, {"x": (TensorProto.STRING, ["n"])}, {"y": (TensorProto.STRING, None)}, initializers=[suffix])
    simplified = anyshape.simplify(m)
    onnx.checker.check_model(simplified, full_check=True)
    assert [d.dim_param for d in simplified.graph.output[0].type.tensor_type.shape.dim] != []
    assert anyshape.compile(simplified)(np.array(["a", "b"])).tolist() == ["a!", "b!"]


def test_saved_models_take_strings(tmp_path):
    concat().save(tmp_path / "m.anyshape")
    assert anyshape.load(tmp_path / "m.anyshape")(["a"], "b").tolist() == ["ab"]


@pytest.mark.parametrize(
    ("kind", "to", "why"), [(1, 8, "strings of numbers"), (7, 8, "strings of numbers"), (8, 1, "numbers of strings")]
)
@pytest.mark.parametrize("opset", [6, 17, 25])
def test_strings_and_numbers_are_not_cast(kind, to, why, opset):
    proto = models.model([models.node("Cast", "x", "y", to=to)], [models.tensor("x", ["n"], kind)], "y", opset=opset)
    with pytest.raises(UnsupportedError, match=f"{why}: .*integers of hundreds of digits"):
        anyshape.compile(proto)


def test_strings_cast_to_strings_are_themselves():
    f = anyshape.compile(models.model([models.node("Cast", "x", "y", to=8)], [models.tensor("x", ["n"], 8)], "y"))
    assert f(np.array(["a", "bc"])).tolist() == ["a", "bc"]


def test_no_operator_makes_strings_by_a_dtype():
    proto = models.model([models.node("EyeLike", "x", "y", dtype=8)], [models.tensor("x", ["n", "m"])], "y")
    with pytest.raises(AnyshapeError, match="dtype must be a dtype of numbers, got char"):
        anyshape.compile(proto)
