"""Small models of what docs/onnx.md decides, and of dtypes that operators took only in part."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyshape
from anyshape.errors import AnyshapeError, ShapeError, UnsupportedError
from anyshape.frontends.onnx.bookkeeping import BOOKKEEPING
from anyshape.frontends.onnx.control import CONTROL
from anyshape.frontends.onnx.mappings import find_schema
from tests.frontends.differential import element_type
from tests.frontends.hostile_attributes import mapped

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ML = "ai.onnx.ml"


def run(
    op: str, *feeds: np.ndarray, opset: int = 18, domain: str = "", empty: dict[str, int] | None = None, **attributes
):
    """The first result of one node; `empty`: list attributes without items, with their types."""
    names = [f"x{k}" for k in range(len(feeds))]
    outputs = ["y", "places"] if op == "TopK" else ["y"]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    node.attribute.extend(onnx.AttributeProto(name=n, type=t) for n, t in (empty or {}).items())
    inputs = [helper.make_tensor_value_info(n, element_type(a), [None] * a.ndim) for n, a in zip(names, feeds)]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=y) for y in outputs])
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    results = anyshape.compile(helper.make_model(graph, opset_imports=imports, ir_version=9)).run(
        dict(zip(names, feeds, strict=True))
    )
    return results[0]


INTS, STRINGS = onnx.AttributeProto.INTS, onnx.AttributeProto.STRINGS


@pytest.mark.parametrize("opset", [1, 11, 13, 17])
def test_a_list_without_items_is_absent(opset):
    assert run("ReduceMax", X, opset=opset, keepdims=0, empty={"axes": INTS}).tolist() == 5
    assert run("Squeeze", X[:, None], opset=min(opset, 11), empty={"axes": INTS}).shape == (2, 3)
    w = np.ones((1, 1, 2), np.float32)
    assert run("Conv", X[:, None], w, empty={"dilations": INTS, "strides": INTS, "pads": INTS}).shape == (2, 1, 2)


RANGES = [
    ((0, 1, 0), "step", "0.0"), ((0, 1, np.nan), "step", "nan"), ((np.nan, 1, 1), "start", "nan"), ((0, np.nan, 1), "stop", "nan"),
    ((0, np.inf, 1), "range", "inf"),
]  # fmt: skip


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize(("ends", "named", "got"), RANGES)
def test_a_range_of_floats_that_has_no_length_is_refused_by_name(ends, named, got, domain):
    """A range is refused as data, when the program runs, and as constants, when the model is read."""
    numbers = [np.float32(v) for v in ends]
    words = {"step": "must be a number other than 0", "range": "must have less than 9e18 numbers"}.get(
        named, "must be a number"
    )
    with pytest.raises(ShapeError, match=rf"Range 'y'\): .*{named} {words} .* = {got}"):
        run("Range", *numbers, domain=domain)
    names = ["start", "limit", "delta"]
    held = [numpy_helper.from_array(v, n) for n, v in zip(names, numbers)]
    node = helper.make_node("Range", names, ["y"], domain=domain)
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], held)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(ShapeError, match=rf"{words} .* = {got}.*Range 'y'|Range 'y'.*{words} .* = {got}"):
        anyshape.compile(helper.make_model(graph, opset_imports=imports, ir_version=9))


def test_ranges_of_floats_that_have_a_length():
    for ends, length in (
        ((0, 1, 0.25), 4),
        ((1, 0, 1), 0),
        ((1, 0, -0.5), 2),
        ((0, -np.inf, 1), 0),
        ((0, 5, np.inf), 0),
    ):
        assert run("Range", *map(np.float32, ends)).shape == (length,)


def test_tile_has_a_repeat_for_each_axis():
    """The rank of a result is known where the length of its repeats is not; any other length is refused."""
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 3]), helper.make_tensor_value_info("r", 7, [None])]
    graph = helper.make_graph(
        [helper.make_node("Tile", ["x", "r"], ["y"])], "g", inputs, [onnx.ValueInfoProto(name="y")]
    )
    exe = anyshape.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    assert exe.function.results[0].type.rank == 2
    np.testing.assert_array_equal(exe.run({"x": X, "r": np.array([2, 3])})[0], np.tile(X, (2, 3)))
    for wrong in ([2], [2, 3, 1]):
        with pytest.raises(ShapeError, match=rf"Tile 'y'.*expected \[2\], got \[{len(wrong)}\]"):
            exe.run({"x": X, "r": np.array(wrong)})
        with pytest.raises(ShapeError, match=rf"Tile 'y'.*expected \[2\], got \[{len(wrong)}\]"):
            run("Tile", X, np.array(wrong))


def test_a_list_without_items_is_one_where_it_is_wanted():
    assert run("Unsqueeze", X, opset=11, empty={"axes": INTS}).shape == (2, 3)
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.append(onnx.AttributeProto(name="value_ints", type=INTS))
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
    assert anyshape.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)).run(
        {}
    )[0].shape == (0,)


def test_no_text_is_no_choice():
    x = X[None, None]
    assert run("MaxPool", x, auto_pad="", kernel_shape=[2, 2]).shape == (1, 1, 1, 2)
    with pytest.raises(AnyshapeError, match="SAME_UPPER"):
        run("MaxPool", x, auto_pad="SAME", kernel_shape=[2, 2])


def test_the_greatest_is_nan():
    x, two = np.array([1, np.nan, 3, np.inf], np.float32), np.array([2])
    np.testing.assert_array_equal(run("TopK", x, two), [np.nan, np.inf])
    np.testing.assert_array_equal(run("TopK", x, two, largest=0), [1, 3])
    long = np.arange(100, dtype=np.float32)  # sorted by another way
    long[40] = np.nan
    np.testing.assert_array_equal(run("TopK", long, two), [np.nan, 99])


def test_features_of_one_row():
    assert run("FeatureVectorizer", X[0], X[1, :2], domain=ML, inputdimensions=[3, 2]).tolist() == [[0, 1, 2, 3, 4]]
    assert run("FeatureVectorizer", X, X[:, :1], domain=ML, inputdimensions=[3, 1]).shape == (2, 4)


KINDS = [bool, np.int8, np.float16, ml_dtypes.bfloat16, np.uint64]


@pytest.mark.parametrize("kind", KINDS)
def test_scattering_takes_any_dtype(kind):
    x, at, put = np.zeros(4, kind), np.array([0, 2]), np.ones(2, kind)
    for got in (run("ScatterND", x, at[:, None], put), run("ScatterElements", x, at, put)):
        assert got.dtype == kind and got.astype(int).tolist() == [1, 0, 1, 0]


def test_strings_are_moved_and_ordered():
    words = np.array(["b", "a", "b", "ab"], object)
    at, put = np.array([0, 2]), np.array(["p", "qq"], object)
    assert run("ScatterND", words, at[:, None], put).tolist() == ["p", "a", "qq", "ab"]
    assert run("ScatterElements", words, at, put).tolist() == ["p", "a", "qq", "ab"]
    assert run("Unique", words).tolist() == ["a", "ab", "b"]
    assert run("Unique", words, sorted=0).tolist() == ["b", "a", "ab"]
    assert run("Unique", np.array([["b", "a"], ["b", "a"]], object), axis=0).tolist() == [["b", "a"]]
    assert run("Trilu", words.reshape(2, 2)).tolist() == [["b", "a"], ["", "ab"]]
    image, scales, nothing = words.reshape(1, 1, 2, 2), np.array([1, 1, 2, 1], np.float32), np.zeros(0, np.float32)
    for op, opset, behind in (("Upsample", 9, [scales]), ("Resize", 13, [nothing, scales])):
        assert run(op, image, *behind, opset=opset, mode="nearest").ravel().tolist() == [
            "b",
            "a",
            "b",
            "a",
            "b",
            "ab",
            "b",
            "ab",
        ]
        assert run(op, image == "b", *behind, opset=opset, mode="nearest").dtype == bool
        with pytest.raises(UnsupportedError, match="got char"):
            run(op, image, *behind, opset=opset, mode="linear")
    assert run("NonZero", np.array(["b", "", "ab"], object)).tolist() == [[0, 2]]
    with pytest.raises(UnsupportedError, match="got char"):
        run("ScatterND", words, at[:, None], put, reduction="max")


def test_products_of_integers_with_vectors():
    a, b = np.array([[1, 2], [3, 4]], np.uint8), np.array([[1, 0], [2, 5]], np.uint8)
    assert run("MatMulInteger", a[0], b).tolist() == [5, 10]
    assert run("MatMulInteger", a, b[:, 0]).tolist() == [5, 11]
    assert run("MatMulInteger", a, b, np.array([[1], [3]], np.uint8)).tolist() == [[2, 5], [2, 5]]


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_mean_variance_normalisation_of_any_float(kind):
    x = np.array([[1, 3], [5, 5]], kind)
    got = run("MeanVarianceNormalization", x, opset=13, axes=[1])
    assert got.dtype == kind and np.allclose(got, [[-1, 1], [0, 0]])


def test_a_scale_of_as_many_axes_as_the_input():
    x, s = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    plain = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run("LayerNormalization", x, s, s), plain * s + s, rtol=1e-5)


def test_dtypes_that_onnx_has():
    whole = np.array([[7, -2], [-8, 1]], np.int32)
    assert run("ReduceMean", whole, opset=13, axes=[1], keepdims=0).tolist() == [2, -3]
    assert run("Gemm", whole, whole, transB=1).tolist() == (whole @ whole.T).tolist()
    with pytest.raises(UnsupportedError, match="an alpha or a beta"):
        run("Gemm", whole, whole, alpha=0.5)
    assert run("QuantizeLinear", whole, np.float32(2), np.array(10, np.uint8), opset=13).tolist() == [[14, 9], [6, 10]]


def test_sizes_by_scales_have_no_aspect_ratio_to_keep():
    got = run("Resize", np.ones((1, 1, 2, 2), np.float32), np.zeros(0, np.float32), np.array([1, 1, 2, 3], np.float32),
                opset=19, keep_aspect_ratio_policy="not_smaller")  # fmt: skip
    assert got.shape == (1, 1, 4, 6)


def test_attributes_of_quantisation_that_came_later():
    x, one, code = np.array([1, 1000], np.float32), np.float32(1), np.zeros((), ml_dtypes.float8_e4m3fn)
    assert run("QuantizeLinear", x, one, code, opset=19).astype(float).tolist() == [1, 448]
    np.testing.assert_array_equal(run("QuantizeLinear", x, one, code, opset=19, saturate=0).astype(float), [1, np.nan])
    for zero, codes in ((0, [0x80, 0x38]), (1, [0x38, 0x40]), (-1, [0xB8, 0])):  # -0 stays what it is
        got = run("QuantizeLinear", np.array([-0.0, 1], np.float32), one, np.array(zero, code.dtype), opset=19)
        assert got.view(np.uint8).tolist() == codes
    whole = np.array([1, 3], np.uint8)
    assert run("DequantizeLinear", whole, np.float32(0.5), opset=23).dtype == np.float32
    assert (
        run("DequantizeLinear", whole, np.float32(0.5), opset=23, output_dtype=onnx.TensorProto.FLOAT16).dtype
        == np.float16
    )


def test_what_dequantised_codes_are_computed_in():
    large, tiny = np.array([1000000], np.int32), np.array(0.5, np.float16)
    assert run("DequantizeLinear", large, tiny, opset=23, output_dtype=onnx.TensorProto.FLOAT).tolist() == [500000]
    with pytest.raises(UnsupportedError, match="a dtype that is not a float"):
        run("DequantizeLinear", large, tiny, opset=23, output_dtype=onnx.TensorProto.UINT8)


def test_scales_of_integers_are_divided_by_as_numbers():
    assert run("QuantizeLinear", np.array([-7, 3, 2**24 + 1], np.int32), np.int32(2), opset=19).tolist() == [0, 2, 255]


UNREAD = {
    "broadcast": "operands broadcast where they can",
    "chunk_size": "a way to compute, not what",
    "consumed_inputs": "memory, in the first opset",
    "hidden_size": "weights have it",
    "inputdimensions": "inputs have them",
    "is_test": "before opset 7 Dropout never trains here",
    "kernel_shape": "weights have it",
    "locale": "letters are those of Unicode",
    "momentum": "of statistics that are not moved on",
    "multi_class": "without effect on what is computed",
    "nodes_hitrates": "a hint",
    "nodes_hitrates_as_tensor": "a hint",
    "num_outputs": "the node has them",
    "output_sequence": "the node has the output, or not",
    "precision": "the division is one of at least 32 bits",
    "ratio": "of Dropout that does not train",
    "sorted": "TopK is always in order",
    "stash_type": "sums are of at least 32 bits",
}
"""Attributes that mappings do not read, and why they have no effect: any other that ONNX declares would be passed over without a word"""


def unread() -> set[str]:
    """Attributes that ONNX declares in the opset of a mapping, or in a later one while it holds, and that the mapping does not read."""
    attributes = set()
    for m in mapped():
        domain, _, name = m.operator.rpartition(":")
        later = min((o.since for o in mapped() if o.operator == m.operator and o.since > m.since), default=10**3)
        for opset in (m.since, later - 1):
            schema = find_schema(domain, name, opset)
            if schema is not None and m.operator not in (*CONTROL, *BOOKKEEPING):
                attributes |= set(schema.attributes) - {key for key, _ in m.asked}
    return attributes


def test_no_attribute_is_passed_over_without_a_reason():
    assert unread() == set(UNREAD)
