"""Broken models and arguments end in a result or an AnyshapeError: a sample of random ones, and those that others die of."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.errors import AnyshapeError, OverflowedError, ShapeError, UnsupportedError
from tests.frontends import hostile_cases, hostile_files
from tests.frontends.models import FLOAT, call, function, model, node, tensor

COUNT = 60
"""`make test-long` tries 5,000 of each, by these programs themselves"""
ONCE_WRONG = (55, 1000, 101860, 104667, 701559)
FOUND_IN_FILES = (
    *(901, 1280, 1953, 11917),
    *(16777681, 16778180, 16778505, 16779063, 16779140, 16779633, 16779880, 16779894, 16781046, 16781901, 16782497),
)
"""Seeds that once ended in something else"""
I64 = TensorProto.INT64


def branch(op: str) -> onnx.GraphProto:
    return helper.make_graph([node(op, "x", "r")], op, [], [onnx.ValueInfoProto(name="r")])


def body() -> onnx.GraphProto:
    """Doubles what is carried, and goes on as the condition says."""
    nodes = [node("Identity", "going", "on"), node("Add", "v v", "twice")]
    inputs = [tensor("i", [], I64), tensor("going", [], TensorProto.BOOL), onnx.ValueInfoProto(name="v")]
    return helper.make_graph(nodes, "body", inputs, [onnx.ValueInfoProto(name=n) for n in ("on", "twice")])


BRANCHES = {"then_branch": branch("Identity"), "else_branch": branch("Neg")}
SINGLE = {
    "If's condition": (node("If", "c", "y", **BRANCHES), "c", np.array(True)),
    "Loop's condition": (node("Loop", "m c x", "y", body=body()), "c", np.array(True)),
    "Loop's count": (node("Loop", "m c x", "y", body=body()), "m", np.array(1)),
    "SequenceAt's position": (node("SequenceAt", "s m", "y"), "m", np.array(1)),
}


@pytest.mark.parametrize("shape", [[], ["k"], ["k", 1], [1, 1], None, [1]], ids=str)
@pytest.mark.parametrize("what", SINGLE)
def test_what_decides_has_one_element(what: str, shape: list[int | str] | None) -> None:
    """A condition is refused by its type, or else when it runs; a tensor of one element is one, whatever its rank."""
    n, name, one = SINGLE[what]
    types = {"c": (TensorProto.BOOL, np.array(True)), "m": (I64, np.array(1))}
    inputs = [tensor(k, shape if k == name else [], kind) for k, (kind, _) in types.items()]
    first = [
        node("SequenceConstruct", "x x", "s"),
        node("Identity", "m", "unread"),
        node("Identity", "c", "unread_too"),
    ]
    exe = anyshape.compile(model([*first, n], [tensor("x", [2]), *inputs], "y unread unread_too"))
    x = np.ones(2, np.float32)
    feed = {"x": x, **{k: value for k, (_, value) in types.items()}}
    for rank in {len(shape)} if shape is not None else {0, 1, 2}:
        right = np.reshape(one, (1,) * rank)
        assert exe.run({**feed, name: right})[0].shape == (2,)
        if rank and shape not in ([1], [1, 1]):
            for wrong in (np.repeat(right, 2, 0), np.repeat(right, 0, 0)):
                with pytest.raises(ShapeError, match=f"{n.op_type} 'y'"):
                    exe.run({**feed, name: wrong})


def test_what_decides_has_one_element_by_its_type() -> None:
    for n, name, _ in SINGLE.values():
        inputs = [tensor("m", [], I64), tensor("c", [], TensorProto.BOOL)]
        inputs = [tensor(name, [2], i.type.tensor_type.elem_type) if i.name == name else i for i in inputs]
        with pytest.raises(ShapeError, match="must be a scalar"):
            anyshape.compile(model([node("SequenceConstruct", "x x", "s"), n], [tensor("x", [2]), *inputs], "y"))


def test_random_faults():
    wrong = {seed: why for seed, why in hostile_cases.run([*ONCE_WRONG, *range(COUNT)]) if why}
    assert not wrong, f"python -m tests.frontends.hostile_cases --count 1 --first SEED: {wrong}"


def test_random_faults_of_files():
    wrong = {
        seed: why
        for seed, why in hostile_files.run(
            [
                *FOUND_IN_FILES,
                *range(2 * COUNT),
                *(base + k for base in (hostile_files.WIDER, hostile_files.LATEST) for k in range(COUNT)),
            ]
        )
        if why
    }
    assert not wrong, f"python -m tests.frontends.hostile_files --count 1 --first SEED: {wrong}"


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_the_least_integer_by_minus_one_and_by_zero(op):
    f = anyshape.compile(model([node(op, "a b", "y")], [tensor("a", ["n"], I64), tensor("b", ["n"], I64)], "y"))
    least = np.iinfo(np.int64).min
    got = f(np.array([least, 7, 5]), np.array([-1, -1, 5]))
    assert got.tolist() == ([least, -7, 1] if op == "Div" else [0, 0, 0])
    f(np.array([1, least]), np.array([0, 0]))  # any integers, and no death


def test_nan_is_the_greatest_in_order():
    x = np.array([[3.0, np.nan, -np.inf, 5.0, np.nan, np.inf]], np.float32)
    f = anyshape.compile(
        model([node("TopK", "x k", "v i", axis=-1)], [tensor("x", ["n", "m"]), tensor("k", [1], I64)], "v i")
    )
    values, places = f(x, np.array([6]))
    assert places.tolist() == [[1, 4, 5, 3, 0, 2]] and np.isnan(values[0, :2]).all()
    for k in (7, -1, 2**62):
        with pytest.raises(AnyshapeError, match="TopK"):
            f(x, np.array([k]))


@pytest.mark.parametrize(
    "argument",
    [
        np.ones((2, 3), np.float64), np.ones((2, 3), np.complex64), np.ones((2, 3), object), np.ones(3, np.float32),
        np.ones((2, 3, 1), np.float32), np.ones((2, 4), np.float32), np.array("text"), np.ones((0, 3), np.float64),
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)  # fmt: skip
def test_arguments_of_another_dtype_or_shape_are_refused(argument):
    f = anyshape.compile(model([node("Relu", "x", "y")], [tensor("x", ["n", 3])], "y"))
    with pytest.raises(AnyshapeError, match="input x"):
        f(argument)


def test_arguments_in_any_order_and_place_give_the_same():
    f = anyshape.compile(model([node("Relu", "x", "y")], [tensor("x", ["n", 3])], "y"))
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    odd = np.zeros(x.nbytes + 1, np.uint8)
    odd[1:] = np.frombuffer(x.tobytes(), np.uint8)
    for same in (
        x.astype(">f4"),
        odd[1:].view(np.float32).reshape(2, 3),
        np.asfortranarray(x),
        np.repeat(x, 2, 1)[:, ::2],
    ):
        np.testing.assert_array_equal(f(same), np.maximum(x, 0))


@pytest.mark.parametrize("index", [3, -4, 2**62, -(2**63)])
def test_indices_out_of_range_name_the_node(index):
    f = anyshape.compile(
        model([node("Gather", "x i", "y", "pick")], [tensor("x", ["n"]), tensor("i", ["m"], I64)], "y")
    )
    with pytest.raises(AnyshapeError, match="pick"):
        f(np.ones(3, np.float32), np.array([0, index]))


@pytest.mark.parametrize("shape", [[2**62, 4], [2**31, 2**31, 4], [-5], [2**63 - 1]])
def test_absurd_sizes_are_refused(shape):
    f = anyshape.compile(model([node("ConstantOfShape", "s", "y")], [tensor("s", [len(shape)], I64)], "y"))
    with pytest.raises(AnyshapeError):
        f(np.array(shape))


def _repeated(*again: onnx.NodeProto, collects: bool = False) -> onnx.NodeProto:
    """A Loop of k turns, as long as `go` says, over a value that doubles; with `collects`, of which every turn is kept."""
    carried = [("go", TensorProto.BOOL), ("twice", FLOAT), *([("kept", FLOAT)] if collects else [])]
    nodes = [*again, node("Add", "s s", "twice"), *([node("Identity", "s", "kept")] if collects else [])]
    takes = [tensor("i", [], I64), tensor("more", [], TensorProto.BOOL), tensor("s", None)]
    body = helper.make_graph(
        nodes, "body", takes, [helper.make_tensor_value_info(n, kind, None) for n, kind in carried]
    )
    return node("Loop", "k - x", "y all" if collects else "y", body=body)


FIVE = [node("Constant", "", "five", value=helper.make_tensor("", I64, [], [5])), node("Less", "i five", "go")]


@pytest.mark.parametrize("iterations, expected", [(2**63 - 1, 64.0), (3, 8.0), (-(2**63), 1.0)])
def test_loops_of_any_number_of_iterations_end_when_they_say(iterations, expected):
    f = anyshape.compile(model([_repeated(*FIVE)], [tensor("x", ["n"]), tensor("k", [], I64)], "y"))
    assert f(np.ones(2, np.float32), np.array(iterations)).tolist() == [expected, expected]


def test_iterations_that_no_memory_holds_are_refused():
    loop = _repeated(node("Identity", "more", "go"), collects=True)
    with pytest.raises(OverflowedError, match="64 bits"):
        anyshape.compile(model([loop], [tensor("x", ["n"])], "y all", {"k": np.array(2**63 - 1)}))


def _nested(depth: int) -> onnx.ModelProto:
    """Nests If in If, of which the innermost gives x and the others -x."""
    node_ = node("Identity", "x", "r0")
    for k in range(1, depth + 1):
        sides = [(node_, f"r{k - 1}"), (node("Neg", "x", f"e{k}"), f"e{k}")]
        then, other = (
            helper.make_graph([n], "side", [], [helper.make_tensor_value_info(r, FLOAT, None)]) for n, r in sides
        )
        node_ = node("If", "c", f"r{k}", then_branch=then, else_branch=other)
    return model([node_], [tensor("x", ["n"]), tensor("c", [], TensorProto.BOOL)], f"r{depth}")


def test_deep_nesting_runs_or_is_refused():
    for deep in (12, 31):  # a file has no more: protobuf reads messages 100 deep
        f = anyshape.compile(_nested(deep))
        for c in (True, False):
            assert f(np.ones(1, np.float32), np.array(c)).tolist() == [1.0 if c else -1.0]


@pytest.mark.parametrize("parts", [2, 3])
def test_graphs_within_graphs_by_way_of_functions_run_or_are_refused(parts):
    """Each function has 30 graphs within one another, and the next one is called in the innermost."""
    m = _nested(30)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for k in range(parts):
        outermost = innermost = _nested(30).graph.node[0]
        while innermost.op_type == "If":
            innermost = next(a.g for a in innermost.attribute if a.name == "then_branch").node[0]
        if k < parts - 1:
            innermost.op_type, innermost.domain = f"F{k + 1}", "own"
            innermost.input.append("c")
        m.functions.append(helper.make_function("own", f"F{k}", ["x", "c"], ["r30"], [outermost], opsets))
    del m.graph.node[:]
    m.graph.node.append(helper.make_node("F0", ["x", "c"], ["r30"], domain="own"))
    m.opset_import.append(opsets[1])
    if parts == 3:
        with pytest.raises(UnsupportedError, match="graphs are nested more than 64 deep"):
            anyshape.compile(m)
        return
    f = anyshape.compile(m)
    for c in (True, False):
        assert f(np.ones(1, np.float32), np.array(c)).tolist() == [1.0 if c else -1.0]


def test_functions_that_grow_exponentially_are_refused():
    tower = [function(f"F{k}", "x", [call(f"F{k + 1}", "x", "a"), call(f"F{k + 1}", "a", "y")]) for k in range(60)]
    bomb = [*tower, function("F60", "x", [node("Relu", "x", "y")])]
    with pytest.raises(UnsupportedError, match="functions add more than 100000 nodes"):
        anyshape.compile(model([call("F0", "x", "y")], [tensor("x", ["n"])], "y", domains=["acme"], functions=bomb))


def test_more_dims_than_an_array_has_are_refused():
    with pytest.raises(AnyshapeError, match="a tensor of 65 dims; there are at most 64"):
        anyshape.compile(model([node("Relu", "x", "y")], [tensor("x", ["n"] * 65)], "y"))
    f = anyshape.compile(model([node("ConstantOfShape", "s", "y")], [tensor("s", [70], I64)], "y"))
    with pytest.raises(AnyshapeError, match="70 dims"):
        f(np.ones(70, np.int64))


def test_a_list_of_more_pieces_than_there_are_is_not_made_to_be_counted():
    f = anyshape.compile(
        model([node("SplitToSequence", "x", "l"), node("SequenceLength", "l", "y")], [tensor("x", [2**40])], "y")
    )
    with pytest.raises(AnyshapeError, match="input x"):
        f(np.ones(3, np.float32))


def test_a_value_of_several_elements_is_no_scalar():
    held = helper.make_tensor("v", FLOAT, [2], [1.0, 2.0])
    proto = model([node("ConstantOfShape", "s", "y", value=held)], [tensor("s", [1], I64)], "y")
    with pytest.raises(AnyshapeError, match=r"one element, got one of shape \[2\] .*ConstantOfShape"):
        anyshape.compile(proto)


def test_constants_are_not_folded_by_way_of_what_no_memory_holds():
    """A window of 2^31 places over a constant: the interpreter would make an array of them."""
    pool = node("MaxPool", "w", "p", kernel_shape=[2**31], auto_pad="SAME_LOWER")
    proto = model([pool, node("Add", "p x", "y")], [tensor("x", ["n"])], "y", {"w": np.ones((1, 1, 2), np.float32)})
    anyshape.compile(proto)


@pytest.mark.parametrize("loop", ["native", "python"])
def test_nan_in_sorts_and_extremes(loop):
    x = anyshape.input("x", "f32[n]")
    results = [anyshape.ops.sort(x), anyshape.ops.argsort(x), anyshape.ops.argmax(x), anyshape.ops.max(x)]
    f = anyshape.compile(anyshape.function([x], results), loop=loop)
    values, places, first, most = f(np.array([3, np.nan, 1, np.nan, -np.inf], np.float32))
    assert values[:3].tolist() == [-np.inf, 1, 3] and np.isnan(values[3:]).all() and np.isnan(most)
    assert places.tolist() == [4, 2, 0, 1, 3] and first == 1


@pytest.mark.parametrize(
    ("op", "said"),
    [("SequenceAt", "e at"), ("ConcatFromSequence", "e"), ("SequenceErase", "e at"), ("SequenceLength", "e")],
)
def test_an_empty_sequence_has_no_elements(op, said):
    attributes = {"axis": 0} if op == "ConcatFromSequence" else {}
    nodes = [node("SequenceEmpty", "", "e", dtype=FLOAT), node(op, said, "y", **attributes)]
    proto = model(nodes, [tensor("at", [], I64)], "y")
    if op == "SequenceLength":
        assert anyshape.compile(proto)(np.array(0)) == 0
        return
    with pytest.raises(AnyshapeError, match="e"):
        anyshape.compile(proto)(np.array(0))
