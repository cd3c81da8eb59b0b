"""Models with If, Loop and Scan beside onnxruntime, in both executors; what is wrong or too much is refused with its place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.errors import ModelError, ShapeError, UnsupportedError

INT64 = TensorProto.INT64
KINDS = {"f": TensorProto.FLOAT, "i": INT64, "b": TensorProto.BOOL}


def infos(text: str) -> list[onnx.ValueInfoProto]:
    """`x:f[n,4] c:b[]`, with `?` for any rank and an empty name for a dim without one."""
    values = []
    for word in text.split():
        name, _, rest = word.partition(":")
        kind, _, dims = rest.rstrip("]").partition("[")
        shape = None if dims == "?" else [int(d) if d.isdigit() else d or None for d in dims.split(",")] if dims else []
        values.append(helper.make_tensor_value_info(name, KINDS[kind], shape))
    return values


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    ins = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(op, ins, outputs.split(), **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: str, outputs: str, constants: Mapping[str, Any] | None = None
) -> onnx.GraphProto:
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    return helper.make_graph(list(nodes), "g", infos(inputs), infos(outputs), held)


def model(g: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def agree(m: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]]) -> None:
    """Asserts that results equal those of onnxruntime, which does not know the other dims of what collected nothing."""
    session = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    executables = [anyshape.compile(m), anyshape.compile(m, loop="python")]
    for feed in feeds:
        arrays = {k: np.asarray(v) for k, v in feed.items()}
        expected = session.run(None, arrays)
        for exe in executables:
            for got, want in zip(exe.run(arrays), expected, strict=True):
                assert got.dtype == want.dtype and got.ndim == want.ndim
                if want.size or got.size:
                    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def rows(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def test_if_with_captures_and_shapes_that_differ() -> None:
    then = graph([node("Concat", "x x", "t", axis=0)], "", "t:f[,2]")
    other = graph([node("Mul", "x two", "e")], "", "e:f[,2]", {"two": np.float32(2)})
    m = model(graph([node("If", "c", "y", then_branch=then, else_branch=other)], "x:f[n,2] c:b[]", "y:f[,2]"))
    agree(m, [{"x": rows(3, 2), "c": c} for c in (True, False)])


def test_loop_that_grows_until_a_condition_fails() -> None:
    body = graph(
        [node("Concat", "k x", "k2", axis=0), node("ReduceSum", "k2 axes", "s", keepdims=0), node("Less", "i lim", "go")],
        "i:i[] c_in:b[] k:f[,4]", "go:b[] k2:f[,4] s:f[4]", {"axes": np.array([0])},
    )  # fmt: skip
    m = model(
        graph([node("Loop", "n c k0", "y ys", body=body)], "n:i[] c:b[] k0:f[a,4] x:f[b,4] lim:i[]", "y:f[,4] ys:f[,4]")
    )
    cases = [(5, True, 100, 3), (5, True, 2, 3), (0, True, 9, 3), (4, False, 9, 3), (5, True, 100, 0), (3, True, -5, 1)]
    agree(m, [{"n": n, "c": c, "lim": e, "k0": rows(a, 4), "x": rows(2, 4)} for n, c, e, a in cases])


def test_if_within_loop() -> None:
    then = graph([node("Mul", "a two", "t")], "", "t:f[?]", {"two": np.float32(2)})
    other = graph([node("Add", "a x", "e")], "", "e:f[?]")
    body = graph(
        [
            node("Less", "i three", "early"),
            node("If", "early", "a2", then_branch=then, else_branch=other),
            node("Identity", "c_in", "c_out"),
            node("Identity", "a", "seen"),
        ],
        "i:i[] c_in:b[] a:f[m]", "c_out:b[] a2:f[m] seen:f[m]", {"three": np.int64(3)},
    )  # fmt: skip
    m = model(graph([node("Loop", "n - x", "y ys", body=body)], "n:i[] x:f[m]", "y:f[m] ys:f[k,m]"))
    agree(m, [{"n": n, "x": rows(5)} for n in (0, 1, 6)])


def test_if_within_loop_whose_branches_have_other_ranks() -> None:
    """What follows such an If in the body is there once for each rank."""
    then = graph([node("Unsqueeze", "a zero", "t")], "", "t:f[?]")
    other = graph([node("Identity", "a", "e")], "", "e:f[?]")
    body = graph(
        [
            node("ReduceSum", "a", "s", keepdims=0),
            node("Greater", "s five", "c"),
            node("If", "c", "y", then_branch=then, else_branch=other),
            node("Exp", "y", "z"),
            node("Reshape", "z flat", "next"),
            node("Identity", "c_in", "go"),
        ],
        "i:i[] c_in:b[] a:f[n]", "go:b[] next:f[n]", {"five": np.float32(5), "flat": np.array([-1])},
    )  # fmt: skip
    m = model(graph([node("Loop", "n - x", "y", body=body)], "n:i[] x:f[n]", "y:f[n]", {"zero": np.array([0])}))
    agree(m, [{"n": n, "x": rows(k)} for n, k in ((0, 3), (1, 3), (2, 4), (2, 30))])


def test_branches_of_other_dtypes_are_refused_with_both_types() -> None:
    then = graph([node("Identity", "x", "t")], "", "t:f[2]")
    other = graph([node("Cast", "z", "e", to=TensorProto.INT64)], "", "e:i[3]")
    m = model(graph([node("If", "c", "y", then_branch=then, else_branch=other)], "c:b[] x:f[2] z:f[3]", "y:f[2]"))
    both = r"result 0 is f32\[2\] in the branch then and i64\[3\] in the branch otherwise .* \(If 'y'\)"
    with pytest.raises(UnsupportedError, match=both):
        anyshape.compile(m)


def test_carried_values_that_change_places() -> None:
    body = graph(
        [node("Identity", "c_in", "c_out"), node("Identity", "b", "a2"), node("Identity", "a", "b2")],
        "i:i[] c_in:b[] a:f[?] b:f[?]", "c_out:b[] a2:f[?] b2:f[?]",
    )  # fmt: skip
    m = model(graph([node("Loop", "n - x y", "p q", body=body)], "n:i[] x:f[m] y:f[k]", "p:f[] q:f[]"))
    for info in m.graph.output:
        info.type.tensor_type.ClearField("shape")
    agree(m, [{"n": n, "x": rows(5), "y": rows(2)} for n in (0, 1, 2, 5)])


def test_a_dim_that_shrinks_and_decides() -> None:
    body = graph(
        [
            node("Slice", "a one big", "a2"),
            node("ReduceSum", "a", "s", keepdims=1),
            node("Shape", "a2", "sh"),
            node("Squeeze", "sh", "len"),
            node("Greater", "len two", "go"),
        ],
        "i:i[] c_in:b[] a:f[k]", "go:b[] a2:f[j] s:f[1]",
        {"one": np.array([1]), "big": np.array([2**62]), "two": np.int64(2)},
    )  # fmt: skip
    m = model(graph([node("Loop", "- c x", "p q", body=body)], "c:b[] x:f[m]", "p:f[k] q:f[j,1]"))
    agree(m, [{"c": True, "x": rows(n)} for n in (3, 9, 2)])


def test_loop_within_loop() -> None:
    inner = graph(
        [node("Identity", "d_in", "d_out"), node("Concat", "z v", "z2", axis=0)],
        "j:i[] d_in:b[] z:f[k]",
        "d_out:b[] z2:f[l]",
    )
    outer = graph(
        [
            node("Identity", "c_in", "c_out"),
            node("Add", "i i", "twice"),
            node("Loop", "twice - v", "w", body=inner),
            node("ReduceSum", "w", "s", keepdims=0),
            node("Add", "v s", "v2"),
        ],
        "i:i[] c_in:b[] v:f[m]", "c_out:b[] v2:f[m] s:f[]",
    )  # fmt: skip
    m = model(graph([node("Loop", "n - x", "p q", body=outer)], "n:i[] x:f[m]", "p:f[m] q:f[k]"))
    agree(m, [{"n": n, "x": rows(3)} for n in (0, 1, 4)])


@pytest.mark.parametrize("back", [0, 1])
def test_scan_with_axes_and_directions(back: int) -> None:
    body = graph(
        [node("Add", "st xs", "st2"), node("Mul", "st2 ys", "o"), node("Identity", "st2", "o2")],
        "st:f[h] xs:f[h] ys:f[h]", "st2:f[h] o:f[h] o2:f[h]",
    )  # fmt: skip
    said = {
        "num_scan_inputs": 2, "scan_input_axes": [1, 0], "scan_input_directions": [back, 1 - back],
        "scan_output_axes": [1, 0], "scan_output_directions": [1 - back, back],
    }  # fmt: skip
    m = model(
        graph(
            [node("Scan", "s X Y", "e O P", body=body, **said)], "s:f[h] X:f[h,t] Y:f[t,h]", "e:f[h] O:f[h,t] P:f[t,h]"
        )
    )
    agree(m, [{"s": rows(h), "X": rows(h, t), "Y": rows(t, h)} for h, t in ((3, 4), (1, 1), (2, 7))])


def test_scans_of_unequal_lengths_are_an_error() -> None:
    body = graph([node("Mul", "xs ys", "o")], "xs:f[] ys:f[]", "o:f[]")
    m = model(graph([node("Scan", "X Y", "O", body=body, num_scan_inputs=2)], "X:f[a] Y:f[b]", "O:f[c]"))
    exe = anyshape.compile(m)
    np.testing.assert_allclose(exe(rows(3), rows(3)), rows(3) ** 2)
    for a, b in ((3, 4), (4, 3)):
        with pytest.raises(ShapeError):
            exe(rows(a), rows(b))


def test_a_branch_that_is_never_taken_may_be_wrong() -> None:
    """How exported models guard a squeeze: the condition is about a dim that is known."""
    then = graph([node("Squeeze", "x one", "t")], "", "t:f[?]", {"one": np.array([1])})
    other = graph([node("Identity", "x", "e")], "", "e:f[?]")
    nodes = [
        node("Shape", "x", "sh"), node("Gather", "sh at", "d"), node("Equal", "d at", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]  # fmt: skip
    for dims, kept in (("n,1", False), ("n,4", True)):
        g = graph(nodes, f"x:f[{dims}]", "y:f[]", {"at": np.int64(1)})
        g.output[0].type.tensor_type.ClearField("shape")
        exe = anyshape.compile(model(g))
        a = rows(3, 4 if kept else 1)
        np.testing.assert_array_equal(exe(a), a if kept else a[:, 0])
        assert not exe.report.still_dynamic


CONDITIONED = {
    "If": node("If", "c", "y", name="chosen", then_branch=graph([node("Identity", "x", "t")], "", "t:f[n]"),
               else_branch=graph([node("Neg", "x", "e")], "", "e:f[n]")),
    "Loop": node("Loop", "- c x", "y", name="repeated", body=graph(
        [node("Not", "again", "more"), node("Neg", "a", "b")], "i:i[] again:b[] a:f[n]", "more:b[] b:f[n]")),
}  # fmt: skip


@pytest.mark.parametrize("op", CONDITIONED)
@pytest.mark.parametrize(
    ("declared", "shapes"), [("c:b[k]", [(2,), (0,)]), ("c:b[k,m]", [(1, 2)]), ("c:b?", [(2,), (2, 1)])]
)
def test_a_condition_of_other_than_one_element_is_refused_when_it_is_known(
    op: str, declared: str, shapes: list[tuple[int, ...]]
) -> None:
    m = model(graph([CONDITIONED[op]], f"x:f[n] {declared.replace('?', '[]')}", "y:f[n]"))
    if declared == "c:b?":
        m.graph.input[1].type.tensor_type.ClearField("shape")
    exe = anyshape.compile(m)
    one = np.ones((1,) * len(shapes[0]), bool)
    np.testing.assert_array_equal(exe(rows(3), one), rows(3) if op == "If" else -rows(3))
    for shape in shapes:
        text = f"item ({op} '{CONDITIONED[op].name}': a condition): one element was expected, got {list(shape)}"
        with pytest.raises(ShapeError, match=re.escape(text)):
            exe(rows(3), np.ones(shape, bool))


def test_a_count_of_other_than_one_element_is_refused_when_it_is_known() -> None:
    body = graph(
        [node("Identity", "again", "more"), node("Neg", "a", "b")], "i:i[] again:b[] a:f[n]", "more:b[] b:f[n]"
    )
    exe = anyshape.compile(model(graph([node("Loop", "k - x", "y", body=body)], "x:f[n] k:i[m]", "y:f[n]")))
    np.testing.assert_array_equal(exe(rows(3), np.array([3])), -rows(3))
    with pytest.raises(ShapeError, match=r"item \(Loop 'y': a trip count\): one element was expected, got \[2\]"):
        exe(rows(3), np.array([3, 3]))


def nested(depth: int) -> onnx.ModelProto:
    inner = graph([node("Identity", "x", "y")], "", "y:f[n]")
    for k in range(depth):
        inner = graph([node("If", "c", f"y{k}", then_branch=inner, else_branch=inner)], "", f"y{k}:f[n]")
    top = graph([node("If", "c", "z", then_branch=inner, else_branch=inner)], "x:f[n] c:b[]", "z:f[n]")
    return model(top)


def test_branches_within_branches() -> None:
    exe = anyshape.compile(nested(3))
    np.testing.assert_array_equal(exe(rows(3), np.array(True)), rows(3))


def test_widening_within_widening_is_bounded() -> None:
    """Each loop builds its body once more than the one around it: the model is small, what it takes is not."""
    grow = [node("Identity", "c_in", "c_out"), node("Concat", "a a", "a2", axis=0)]
    body = graph(grow, "i:i[] c_in:b[] a:f[n]", "c_out:b[] a2:f[m]")
    for k in range(13):
        inner = [
            node("Identity", "c_in", "c_out"),
            node("Concat", "a a", "b", axis=0),
            node("Loop", "n - b", f"y{k}", body=body),
        ]
        body = graph(inner, "i:i[] c_in:b[] a:f[n]", f"c_out:b[] y{k}:f[m]")
    m = model(graph([node("Loop", "n - x", "y", body=body)], "n:i[] x:f[n]", "y:f[m]"))
    with pytest.raises(UnsupportedError, match="too many nested loops"):
        anyshape.compile(m)


def wrong(change: Any) -> onnx.ModelProto:
    body = graph(
        [node("Identity", "c_in", "c_out"), node("Add", "a a", "a2")], "i:i[] c_in:b[] a:f[n]", "c_out:b[] a2:f[n]"
    )
    loop = node("Loop", "n - x", "y", body=body)
    m = model(graph([loop], "n:i[] x:f[n]", "y:f[n]"))
    change(m.graph.node[0].attribute[0].g, m.graph.node[0])
    return m


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda g, n: g.input.add(name="b"), "must have 3 inputs, got 4"),
        (lambda g, n: g.output.pop(), "must have 2 outputs, got 1"),
        (lambda g, n: g.node.pop(), "'a2', which nothing produces"),
        (lambda g, n: g.node[1].input.__setitem__(0, "nowhere"), "'nowhere', which nothing produces"),
        (lambda g, n: g.node.add(op_type="Identity", input=["a"], output=["a"]), "already an input"),
        (lambda g, n: n.attribute.pop(), "attribute body is missing"),
        (lambda g, n: setattr(g.input[2].type.tensor_type, "elem_type", INT64), "declared as i64"),
        (lambda g, n: setattr(g.output[1].type.tensor_type, "elem_type", INT64), "declared as i64"),
        (lambda g, n: g.input.add(name="a"), "must have 3"),
    ],
)
def test_damaged_bodies(change: Any, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        anyshape.compile(wrong(change))


def test_what_is_refused_inside_is_reported_once() -> None:
    body = graph([node("StringNormalizer", "x", "t")], "", "t:f[n]")
    other = graph([node("Identity", "x", "e")], "", "e:f[n]")
    m = model(graph([node("If", "c", "y", then_branch=body, else_branch=other)], "x:f[n] c:b[]", "y:f[n]"))
    with pytest.raises(UnsupportedError) as caught:
        anyshape.compile(m)
    assert str(caught.value).count("\n") == 1 and "StringNormalizer" in str(caught.value)


def test_ten_thousand_iterations() -> None:
    body = graph(
        [node("Identity", "c_in", "c_out"), node("Mul", "a half", "h"), node("Add", "h x", "a2")],
        "i:i[] c_in:b[] a:f[n]", "c_out:b[] a2:f[n]", {"half": np.float32(0.5)},
    )  # fmt: skip
    exe = anyshape.compile(model(graph([node("Loop", "n - x", "y", body=body)], "n:i[] x:f[n]", "y:f[n]")))
    exe(np.array(10), rows(4))
    before = exe.memory
    np.testing.assert_allclose(exe(np.array(10_000), rows(4)), 2 * rows(4), rtol=1e-6)
    assert exe.memory == before


def squeezed_if_one(x: str, axis: int, result: str) -> list[onnx.NodeProto]:
    """How scripts are exported that squeeze an axis of unknown size: an If with branches of different ranks."""
    squeeze = [
        node("Constant", "", f"{result}_axis", value_ints=[axis]),
        node("Squeeze", f"{x} {result}_axis", f"{result}_1"),
    ]
    then = graph(squeeze, "", f"{result}_1:f[?]")
    otherwise = graph([node("Identity", x, f"{result}_2")], "", f"{result}_2:f[?]")
    return [
        node("Constant", "", f"{result}_at", value_ints=[axis]),
        node("Constant", "", f"{result}_one", value_ints=[1]),
        node("Shape", x, f"{result}_shape"),
        node("Gather", f"{result}_shape {result}_at", f"{result}_size"),
        node("Equal", f"{result}_size {result}_one", f"{result}_is_one"),
        node("If", f"{result}_is_one", result, then_branch=then, else_branch=otherwise),
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_axes_that_are_squeezed_if_they_are_one_within_a_branch(times: int) -> None:
    """The second `If` learns the rank of its operand when the program runs, together with which of its branches cannot be taken."""
    names = ["x", "once", "twice"][: times + 1]
    squeezed = [n for k, (x, y) in enumerate(itertools.pairwise(names)) for n in squeezed_if_one(x, -k, y)]
    then = graph([*squeezed, node("Exp", names[-1], "yes")], "", "yes:f[?]")
    otherwise = graph([node("Neg", "x", "no")], "", "no:f[?]")
    g = graph([node("If", "c", "y", then_branch=then, else_branch=otherwise)], "x:f[m,n] c:b[]", "y:f[?]")
    shapes = [(1, 4), (3, 4), (3, 1), (1, 1)]
    agree(model(g), [{"x": np.ones(s, np.float32), "c": c} for s in shapes for c in (True, False)])


def cropping(size: str) -> onnx.ModelProto:
    """How TensorFlow's crop_and_resize is exported: each iteration cuts a box out of an image and resizes it; all are stacked."""
    body = graph(
        [
            node("Identity", "c", "again"),
            node("Gather", "boxes i", "box"),
            node("Slice", "box zero two", "low"),
            node("Slice", "box two four", "high"),
            node("Slice", "image low high axes", "piece"),
            node("Shape", "piece", "all"),
            node("Slice", "all zero two", "kept"),
            node("Concat", "kept size", "sizes", axis=0),
            node("Resize", "piece - - sizes", "sampled", mode="linear"),
        ],
        "i:i[] c:b[]",
        "again:b[] sampled:f[?]",
    )
    nodes = [
        node("Shape", "boxes", "dims"),
        node("Gather", "dims first", "count"),
        node("Loop", "count -", "y", body=body),
    ]
    numbers = {"zero": [0], "two": [2], "four": [4], "axes": [2, 3], "first": 0, **({} if size else {"size": [3, 4]})}
    constants = {name: np.array(v, np.int64) for name, v in numbers.items()}
    return model(graph(nodes, f"image:f[b,c,h,w] boxes:i[k,4] {size}", "y:f[?]", constants))


@pytest.mark.parametrize("size", ["", "size:i[2]"])
def test_pieces_that_each_iteration_cuts_out_and_samples_to_one_size(size: str) -> None:
    image = np.arange(84, dtype=np.float32).reshape(1, 2, 6, 7)
    sizes = {"size": np.array([3, 4])} if size else {}
    boxes = np.array([[0, 0, 6, 7], [1, 2, 3, 5], [4, 4, 5, 6]])
    agree(cropping(size), [{"image": image, "boxes": boxes[:k], **sizes} for k in (3, 1)])


def test_pieces_of_sizes_that_differ_are_not_stacked() -> None:
    m = cropping("")
    (loop,) = [n for n in m.graph.node if n.op_type == "Loop"]
    (body,) = [a.g for a in loop.attribute if a.name == "body"]
    body.output[1].name = "piece"
    image = np.arange(84, dtype=np.float32).reshape(1, 2, 6, 7)
    exe = anyshape.compile(m)
    assert exe(image, np.array([[0, 0, 2, 3], [1, 2, 3, 5]])).shape == (2, 1, 2, 2, 3)
    with pytest.raises(ShapeError, match="iteration 1 collects is 3, and was 2 before"):
        exe(image, np.array([[0, 0, 2, 3], [1, 2, 4, 5]]))
