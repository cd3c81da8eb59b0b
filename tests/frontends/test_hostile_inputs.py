"""Arrays of any layout, files with parts that nobody knows, numbers at their ends: a result, or an AnyshapeError that says what."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.errors import AnyshapeError, ArgumentError, ModelError, ShapeError
from tests.frontends.models import FLOAT, model, node, tensor

I64 = TensorProto.INT64
F32 = np.float32
X = np.arange(-3, 3, dtype=F32).reshape(2, 3)


def relu(shape: Any = ("n", 3)) -> Any:
    return anyshape.compile(model([node("Relu", "x", "y")], [tensor("x", shape)], "y"))


def read_only() -> np.ndarray:
    x = X.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    "array",
    [X[::-1, ::-1], np.repeat(X, 2, 0)[::-2], np.broadcast_to(F32(-2), (4, 3)), np.broadcast_to(X[:1], (5, 3)), read_only(), X.T.copy().T,
     np.ma.array(X, mask=X > 0), np.lib.stride_tricks.sliding_window_view(X.ravel(), 3)],
    ids=["negative", "negative-steps", "zero", "zero-rows", "read-only", "columns", "masked", "overlapping"],
)  # fmt: skip
def test_any_layout_gives_the_same(array):
    got = relu()(array)
    np.testing.assert_array_equal(got, np.maximum(np.asarray(array), 0))
    assert got.flags.writeable and not np.shares_memory(got, array)


def test_scalars_are_of_rank_0():
    for x in (F32(-1), np.array(-1, F32), -1.0):
        assert relu([])(x) == 0
    with pytest.raises(ShapeError, match=r"rank 2; got rank 0, shape \(\)"):
        relu()(np.array(1, F32))


@pytest.mark.parametrize("rows", [2**36, 2**40, 2**59])
def test_what_no_memory_holds_dense_is_refused(rows):
    """A broadcast array takes four bytes as it is, and more than memory has once it is dense."""
    with pytest.raises(ArgumentError, match=r"input x of shape .* no memory"):
        relu()(np.broadcast_to(F32(1), (rows, 3)))
    with pytest.raises(ArgumentError, match=r"input x of shape .* no memory"):
        relu()(np.broadcast_to(np.array(1, ">f4"), (rows, 3)))


def test_rows_without_elements_take_no_time():
    add = anyshape.compile(model([node("Add", "x b", "y")], [tensor("x", ["n", "m"]), tensor("b", ["m"])], "y"))
    assert add(np.zeros((2**40, 0), F32), np.zeros(0, F32)).shape == (2**40, 0)
    top = anyshape.compile(model([node("TopK", "x k", "v i")], [tensor("x", ["n", "m"])], "v i", {"k": np.array([0])}))
    assert [a.shape for a in top(np.zeros((2**40, 0), F32))] == [(2**40, 0)] * 2


@pytest.mark.parametrize(
    "argument",
    [None, "text", [[1.0], [2.0, 3.0]], {}, object(), b"\0" * 24, [[None] * 3], [["1", "2", "3"]]],
    ids=["None", "text", "ragged", "dict", "object", "bytes", "Nones", "texts"],
)
def test_what_is_no_array_of_numbers_is_refused(argument):
    with pytest.raises(AnyshapeError, match="input x"):
        relu()(argument)


def whole() -> onnx.ModelProto:
    return model([node("Relu", "xxxx", "yyyy", "nnnn")], [tensor("xxxx", ["dddd"])], "yyyy")


@pytest.mark.parametrize("name", [b"xxxx", b"yyyy", b"nnnn", b"dddd", b"Relu"])
@pytest.mark.parametrize("bad", [b"\xff\xfe\x80\xc0", b"\xed\xa0\x80x", b"\xf8\x88\x80\x80", b"\xc0\x80\xc0\x80"])
def test_names_that_are_no_text(name, bad):
    with pytest.raises(ModelError, match="not UTF-8 text; the file is damaged"):
        anyshape.compile(whole().SerializeToString().replace(name, bad))


FIELD = bytes([0xFA, 0xFF, 0x03])
"""The key of field 8191, of so many bytes"""
OPEN, CLOSE = bytes([0xFB, 0xFF, 0x03]), bytes([0xFC, 0xFF, 0x03])


@pytest.mark.parametrize(
    "more", [FIELD + b"\3abc", FIELD + b"\0", OPEN * 50 + CLOSE * 50, (FIELD + b"\1x") * 5000], ids=len
)
def test_fields_that_nobody_knows_are_passed_over(more):
    data = whole().SerializeToString()
    for bytes_ in (data + more, more + data):
        assert anyshape.compile(bytes_)(np.array([-1, 2], F32)).tolist() == [0, 2]


@pytest.mark.parametrize("more", [FIELD + b"\x7fabc", OPEN * 100_000, OPEN + FIELD + b"\0", CLOSE, FIELD], ids=len)
def test_fields_without_an_end_are_damage(more):
    with pytest.raises(ModelError, match="do not parse"):
        anyshape.compile(whole().SerializeToString() + more)


def test_an_input_that_is_an_initializer_too_is_a_constant():
    def proto(*declared: onnx.ValueInfoProto) -> onnx.ModelProto:
        return model([node("Add", "x w", "y")], [tensor("x", ["n"]), *declared], "y", {"w": np.array([1, 2], F32)})

    for declared in (tensor("w", [2]), tensor("w", ["n"]), tensor("w", None), tensor("w", ["k"])):
        f = anyshape.compile(proto(declared))
        assert f.input_names == ("x",) and f(np.array([1, 2], F32)).tolist() == [2, 4]
    twice = proto()
    twice.graph.initializer.append(numpy_helper.from_array(np.array([1, 3], F32), "w"))
    with pytest.raises(ModelError, match="two different initializers have the name 'w'"):
        anyshape.compile(twice)


@pytest.mark.parametrize(
    ("declared", "spelled"),
    [
        (tensor("w", [3]), r"f32\[3\]"),
        (tensor("w", [1]), r"f32\[1\]"),
        (tensor("w", []), r"f32\[\]"),
        (tensor("w", ["a", 2]), r"f32\[a, 2\]"),
        (tensor("w", [2], TensorProto.INT64), r"i64\[2\]"),
        (tensor("w", [2], TensorProto.COMPLEX64), r"complex64\[2\]"),
        (tensor("w", [2], 99), r"element type 99\[2\]"),
        (helper.make_tensor_sequence_value_info("w", FLOAT, [2]), "a sequence"),
    ],
)
def test_an_initializer_that_is_not_what_its_input_declares(declared, spelled):
    proto = model([node("Add", "x w", "y")], [tensor("x", ["n"]), declared], "y", {"w": np.array([1, 2], F32)})
    for act in (anyshape.compile, anyshape.simplify):
        with pytest.raises(ModelError, match=rf"input 'w' is declared as {spelled}, but its initializer is f32\[2\]"):
            act(proto)


def sparse(values, places, dims, name="w", index=np.int64) -> onnx.SparseTensorProto:
    sparse_proto = onnx.SparseTensorProto(dims=dims)
    sparse_proto.values.CopyFrom(numpy_helper.from_array(np.array(values), name))
    sparse_proto.indices.CopyFrom(numpy_helper.from_array(np.array(places, index)))
    return sparse_proto


@pytest.mark.parametrize(
    ("values", "places", "dims"),
    [
        (np.array([5, 7], F32), [0, 2], [3]),
        (np.array([5, 7], F32), [1, 3], [2, 2]),
        (np.array([5, 7], F32), [[0, 1], [1, 1]], [2, 2]),
        (np.array([5], F32), [0], []),
        (np.array([], F32), [], [2, 1]),
        (np.array([], F32), np.empty((0, 2), np.int64), [2, 0]),
        (np.array([-3], np.int8), [[1]], [4]),
        (np.array(["ab"]), [1], [3]),
    ],
)
def test_sparse_tensors_are_dense_ones(values, places, dims):
    dense = np.zeros(dims, values.dtype)
    for value, at in zip(values, places):
        dense[np.unravel_index(at, dims) if np.ndim(at) == 0 else tuple(at)] = value
    as_initializer = model([node("Identity", "w", "y")], [], "y")
    as_initializer.graph.sparse_initializer.append(sparse(values, places, dims))
    as_constant = model([node("Constant", "", "y", sparse_value=sparse(values, places, dims))], [], "y")
    for proto in (as_initializer, as_constant):
        got = anyshape.compile(proto)()
        assert got.shape == dense.shape and got.dtype.kind == dense.dtype.kind and got.tolist() == dense.tolist()


@pytest.mark.parametrize("kind", [FLOAT, TensorProto.STRING])
def test_a_tensor_in_place_of_a_sequence(kind):
    proto = model([node("ConcatFromSequence", "x", "y", axis=0)], [tensor("x", ["n"], kind)], "y")
    with pytest.raises(AnyshapeError, match="must be a list of tensors"):
        anyshape.compile(proto)


def test_lists_that_are_left_out():
    said = {
        "max_gram_length": 1,
        "min_gram_length": 1,
        "max_skip_count": 0,
        "mode": "TF",
        "ngram_counts": [0],
        "ngram_indexes": [0],
    }
    grams = model([node("TfIdfVectorizer", "x", "y", **said)], [tensor("x", ["n"], TensorProto.INT64)], "y")
    with pytest.raises(ModelError, match=r"TfIdfVectorizer.*expected a list of numbers.*pool_int64s"):
        anyshape.compile(grams)


@pytest.mark.parametrize("index", [np.int8, np.int16, np.int32])
def test_indices_of_sparse_tensors_may_be_narrow(index):
    proto = model(
        [node("Constant", "", "y", sparse_value=sparse([5.0, 7.0], [[0, 0], [1, 99]], [2, 100], index=index))], [], "y"
    )
    got = anyshape.compile(proto)()
    assert got[0, 0] == 5 and got[1, 99] == 7 and got.sum() == 12


@pytest.mark.parametrize(
    ("values", "places", "dims", "said"),
    [
        ([5.0], [3], [3], "index 3 of value 0 is outside of shape [3]"),
        ([5.0], [-1], [3], "index -1 of value 0 is outside of shape [3]"),
        ([5.0, 7.0], [[0, 1], [1, 2]], [2, 2], "index [1, 2] of value 1 is outside of shape [2, 2]"),
        ([5.0, 7.0], [1, 1], [3], "distinct, but two are 1"),
        ([5.0, 7.0, 8.0], [2, 1, 2], [3], "distinct, but two are 2"),
        ([5.0, 7.0], [[0, 1], [0, 1]], [2, 2], "distinct, but two are [0, 1]"),
        ([5.0], [0, 1], [3], "have shape [1] or [1, 1], got [2]"),
        ([5.0], [[0, 1]], [3], "have shape [1] or [1, 1], got [1, 2]"),
        ([[5.0]], [0], [3], "must be a vector, got shape [1, 1]"),
        ([5.0], [0], [-3], "sizes cannot be negative"),
        ([5.0], [0], [2**62, 4], "which do not fit in memory"),
        ([5.0], [[1, 1]], [2**62, 4], "which do not fit in memory"),
        ([5.0], [7], [2**50], "which do not fit in memory"),
        ([5.0], [0], [1] * 65, "a sparse tensor of 65 dims"),
    ],
)
def test_damaged_sparse_tensors(values, places, dims, said):
    as_initializer = model([node("Identity", "w", "y")], [], "y")
    as_initializer.graph.sparse_initializer.append(sparse(values, places, dims))
    as_constant = model([node("Constant", "", "y", sparse_value=sparse(values, places, dims))], [], "y")
    for proto in (as_initializer, as_constant):
        with pytest.raises(ModelError) as error:
            anyshape.compile(proto)
        assert said in str(error.value)


def test_sparse_tensors_of_other_parts_than_there_must_be():
    proto = model([node("Identity", "w", "y")], [], "y")
    proto.graph.sparse_initializer.append(sparse([5.0], [0], [3]))
    sparse_proto = proto.graph.sparse_initializer[0]
    sparse_proto.indices.data_type = FLOAT
    with pytest.raises(ModelError, match="'w': the indices of a sparse tensor must be int64, got f32"):
        anyshape.compile(proto)
    sparse_proto.ClearField("indices")
    with pytest.raises(ModelError, match="indices of a sparse tensor must be int64"):
        anyshape.compile(proto)
    sparse_proto.values.raw_data += b"1234"
    with pytest.raises(ModelError, match="'w', its values: 1 elements"):
        anyshape.compile(proto)
    sparse_proto.CopyFrom(sparse([5.0], [0], [3], ""))
    with pytest.raises(ModelError, match="reads 'w', which nothing produces"):
        anyshape.compile(proto)
    sparse_proto.values.name = "w"
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(3, F32), "w"))
    with pytest.raises(ModelError, match="two different initializers have the name 'w'"):
        anyshape.compile(proto)


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere", "reads 'nowhere', which nothing produces"), ("e", "reads 'e', which nothing produces"),
     ("y", "cycle"), ("t", "cycle")],
)  # fmt: skip
def test_what_a_graph_in_a_node_sees_must_be_there(name, said):
    def side(result: str, reads: str) -> onnx.GraphProto:
        return helper.make_graph([node("Add", f"x {reads}", result)], result, [], [onnx.ValueInfoProto(name=result)])

    choice = node("If", "c", "y", then_branch=side("t", name), else_branch=side("e", "x"))
    proto = model([choice], [tensor("x", ["n"]), tensor("c", [], TensorProto.BOOL)], "y")
    with pytest.raises(ModelError, match=said):
        anyshape.compile(proto)


WINDOWS = [
    ("MaxPool", {"kernel_shape": [2**31], "auto_pad": "SAME_LOWER"}, [3, 3, 3]),
    ("MaxPool", {"kernel_shape": [2**31], "pads": [2**31, 2**31], "strides": [2**30]}, [-np.inf, 3, 3]),
    ("AveragePool", {"kernel_shape": [2**31], "auto_pad": "SAME_UPPER"}, [2, 2, 2]),
    ("LpPool", {"kernel_shape": [2**31], "auto_pad": "SAME_UPPER", "p": 1}, [6, 6, 6]),
    ("LRN", {"size": 2**62, "alpha": 0.0}, [1, 3, 2]),
]


@pytest.mark.parametrize(("op", "attributes", "expected"), WINDOWS)
def test_windows_of_any_size_end(op, attributes, expected):
    f = anyshape.compile(model([node(op, "x", "y", **attributes)], [tensor("x", ["a", "b", "n"])], "y"))
    np.testing.assert_allclose(f(np.array([[[1, 3, 2]]], F32)), [[expected]], rtol=1e-6)


def test_where_the_largest_of_any_window_stands():
    pool = node("MaxPool", "x", "y i", kernel_shape=[2**31], auto_pad="SAME_LOWER")
    values, places = anyshape.compile(model([pool], [tensor("x", ["a", "b", "n"])], "y i"))(
        np.array([[[1, 3, 2]]], F32)
    )
    assert values.tolist() == [[[3, 3, 3]]] and places.tolist() == [[[1, 1, 1]]]


@pytest.mark.parametrize("skipped", [2, 2**40, 2**63 - 2, 2**63 - 1])
def test_more_items_are_skipped_than_there_are(skipped):
    grams = {
        "min_gram_length": 2,
        "max_gram_length": 2,
        "ngram_counts": [0, 0],
        "ngram_indexes": [0],
        "pool_int64s": [1, 2],
    }
    counted = node("TfIdfVectorizer", "x", "y", mode="TF", max_skip_count=skipped, **grams)
    f = anyshape.compile(model([counted], [tensor("x", ["n"], I64)], "y"))
    assert f(np.array([1, 3, 1, 2])).tolist() == [2]


def test_more_iterations_are_kept_than_memory_holds():
    body = helper.make_graph(
        [node("Identity", "c", "d"), node("Identity", "a", "e"), node("Identity", "a", "o")],
        "body",
        [tensor("i", [], I64), tensor("c", [], TensorProto.BOOL), tensor("a", None)],
        [onnx.ValueInfoProto(name=n) for n in ("d", "e", "o")],
    )
    for value, kind in zip(body.output, (TensorProto.BOOL, FLOAT, FLOAT), strict=True):
        value.type.tensor_type.elem_type = kind
    loop = node("Loop", "k - x", "y all", body=body)
    f = anyshape.compile(model([loop], [tensor("x", ["n"]), tensor("k", [], I64)], "y all"))
    assert f(np.ones(2, F32), np.array(3))[1].shape == (3, 2)
    with pytest.raises(AnyshapeError, match="cannot allocate"):
        f(np.ones(2, F32), np.array(2**40))


@pytest.mark.parametrize("scale", [0.0, -0.0, np.nan, np.inf, -1.0, 1e-45])
def test_any_scale_of_quantised_numbers_ends(scale):
    numbers = np.array([-np.inf, -1, 0, 1, np.nan, np.inf], F32)
    declared = [tensor("x", ["n"]), tensor("s", []), tensor("z", [], TensorProto.UINT8)]
    f = anyshape.compile(
        model([node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")], declared, "q y")
    )
    q, y = f(numbers, np.array(scale, F32), np.array(3, np.uint8))
    assert q.dtype == np.uint8 and q[2] == (3 if scale and scale == scale else q[2])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, (q.astype(F32) - 3) * F32(scale))


def test_numbers_that_say_nothing_of_their_scale():
    f = anyshape.compile(model([node("DynamicQuantizeLinear", "x", "y s z")], [tensor("x", ["n"])], "y s z"))
    for numbers in ([], [0, 0], [np.nan], [np.inf, 1], [-np.inf, np.inf], [3e38, -3e38]):
        y, _, z = f(np.array(numbers, F32))
        assert y.shape == (len(numbers),) and y.dtype == z.dtype == np.uint8


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_shifts_by_as_many_places_as_there_are_or_more(kind):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    bits, most = np.iinfo(kind).bits, np.iinfo(kind).max
    for direction, last in (("LEFT", 1 << (bits - 1)), ("RIGHT", most >> (bits - 1))):
        f = anyshape.compile(
            model([node("BitShift", "a b", "y", direction=direction)], [tensor(n, ["n"], code) for n in "ab"], "y")
        )
        got = f(np.array([most, 1, most, most, 7], kind), np.array([bits - 1, bits, bits + 1, most, 0], kind))
        assert got.tolist() == [last, 0, 0, 0, 7]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_casts_of_what_an_integer_cannot_be(kind):
    """NaN is 0, what is too large the largest, what is too small the least."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    f = anyshape.compile(model([node("Cast", "x", "y", to=to)], [tensor("x", ["n"])], "y"))
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    expected = [0, most, least, most, least, max(-1, least), 0]
    assert f(np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, -1.5, -0.0], F32)).tolist() == expected


@pytest.mark.parametrize(
    ("attributes", "said"),
    [({"K": 32, "N": 3, "bits": 4}, r"K, N, bits given, .*block_size.* not"), ({"N": 3, "block_size": 16}, "block_size given, K"),
     ({"K": 32, "N": 3, "block_size": 0}, "K, N, block_size given"), ({"K": "x", "N": 3, "block_size": 16}, "K, N, block_size given")],
)  # fmt: skip
def test_attributes_that_give_no_value_are_named(attributes, said):
    declared = [tensor("x", ["n", 32]), tensor("q", [3, 2, 8], TensorProto.UINT8), tensor("s", [6])]
    product = node("MatMulNBits", "x q s", "y", domain="com.microsoft", **attributes)
    with pytest.raises(ModelError, match=said):
        anyshape.compile(model([product], declared, "y", domains=["com.microsoft"]))


SCALES = {
    "an operand of Resize": lambda scale: (node("Resize", "x - s", "y"), 18, np.float32([1, scale])),
    "a constant of Resize": lambda scale: (node("Resize", "x - c", "y"), 18, np.float32([1, scale])),
    "Resize of old": lambda scale: (node("Resize", "x s", "y"), 10, np.float32([1, scale])),
    "an operand of Upsample": lambda scale: (node("Upsample", "x s", "y"), 9, np.float32([1, scale])),
    "an attribute of Upsample": lambda scale: (node("Upsample", "x", "y", scales=[1.0, scale]), 7, None),
}


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, 0.0, -1.0])
@pytest.mark.parametrize("where", SCALES)
def test_scales_that_no_size_follows_from(where, scale):
    """A scale is refused by name, when the model is compiled or when it runs; 2 is a scale in all of these places."""
    x = np.ones((2, 3), np.float32)
    for value, is_refused in ((scale, True), (2.0, False)):
        n, opset, scales = SCALES[where](value)
        inputs = [tensor("x", ["n", 3]), *([tensor("s", [2])] if "s" in n.input else [])]
        proto = model([n], inputs, "y", {"c": scales} if "c" in n.input else None, opset)
        feed = {"x": x, **({"s": scales} if "s" in n.input else {})}
        if not is_refused:
            assert anyshape.compile(proto).run(feed)[0].shape == (2, 6)
            continue
        with pytest.raises(ShapeError, match=rf"{n.op_type} 'y'.*scales must be greater than 0 and finite"):
            anyshape.compile(proto).run(feed)
