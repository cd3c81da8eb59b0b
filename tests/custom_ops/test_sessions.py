"""Custom ops in sessions of onnxruntime: which kernel runs, shapes that are inferred, errors, memory and threads."""

from __future__ import annotations

import platform
import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.cli.show import variant
from anyshape.custom_ops import OpCall, library_of
from anyshape.errors import UnsupportedError
from anyshape.vm.export import export_target
from anyshape_testing.laws.custom_ops import missing, session

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
Array = NDArray[Any]
F32, BOOL, I64, F64 = 1, 9, 7, 11
RNG = np.random.default_rng(7)


def call(op: str, params: dict[str, Any] | None = None, **types: str) -> OpCall:
    return OpCall(variant(op), {n.replace("__", "."): t for n, t in types.items()}, params or {})


CALLS = (
    call("softmax", x="f32[a, b]"),
    call("softmax", {"axis": 0}, x="f32[a, b]"),
    call("softmax", x="f64[a, b]"),
    call("softmax", x="f32[a, 2, 3]"),
    call("add", a="f32[n, m]", b="f32[k]"),
    call("nonzero", x="f32[n, m]"),
    call("clip", x="f32[n]"),
    call("clip", x="f32[n]", low="f32[]"),
    call("clip", x="f32[n]", high="f32[]"),
    call("concat", xs__0="f32[n, m]", xs__1="f32[k, m]"),
    call("concat", xs__0="f32[n, m]", xs__1="f32[k, m]", xs__2="f32[j, m]"),
    call("topk", {"k": 2}, x="f32[n, m]"),
    call("gather", x="f32[n, m]", index="i64[k]"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library_of(CALLS, "some_ops", export_target(None)).write(tmp_path_factory.mktemp("ops"))[-1]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs, outputs, domain="anyshape", **attributes)


def model(nodes: Sequence[Any], inputs: dict[str, tuple[int, Any]], outputs: dict[str, int]) -> bytes:
    from onnx import helper

    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("anyshape", 1)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return content


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    result: Array = e / e.sum(axis, keepdims=True)
    return result


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def one(path: Path, content: bytes, **arrays: Array) -> list[Array]:
    results: list[Array] = session(path, content).run(None, arrays)
    return results


def test_the_attribute_chooses_the_kernel(path: Path) -> None:
    x = floats(3, 5)
    for attributes, axis in (({}, -1), ({"axis": -1}, -1), ({"axis": 0}, 0)):
        content = model([node("softmax", ["x"], **attributes)], {"x": (F32, ["a", "b"])}, {"y": F32})
        np.testing.assert_allclose(one(path, content, x=x)[0], softmax(x, axis), rtol=1e-5, atol=1e-7)


def test_the_element_type_chooses_the_kernel(path: Path) -> None:
    x = RNG.standard_normal((3, 5))
    (y,) = one(path, model([node("softmax", ["x"])], {"x": (F64, ["a", "b"])}, {"y": F64}), x=x)
    np.testing.assert_allclose(y, softmax(x), rtol=1e-12)


def test_the_rank_chooses_the_kernel_in_each_call(path: Path) -> None:
    loaded = session(path, model([node("softmax", ["x"])], {"x": (F32, None)}, {"y": F32}))
    for shape in ((3, 5), (4, 2, 3), (0, 7), (1, 1)):
        x = floats(*shape)
        np.testing.assert_allclose(loaded.run(None, {"x": x})[0], softmax(x) if x.size else x, rtol=1e-5, atol=1e-7)
    for shape in ((2, 2, 2, 2), (4, 2, 4), ()):  # another rank, another size of a fixed dim
        with pytest.raises(
            Exception, match=f"softmax: some_ops has no kernel for x of rank {len(shape)}.*--ranks or --input"
        ):
            loaded.run(None, {"x": floats(*shape)})


def test_attributes_without_a_kernel_are_refused_when_a_model_is_loaded(path: Path) -> None:
    for attributes in ({"axis": 1}, {"axis": "x"}, {"axis": [0]}):
        content = model([node("softmax", ["x"], **attributes)], {"x": (F32, ["a", "b"])}, {"y": F32})
        with pytest.raises(Exception, match="no kernel for the attributes of this node; it has: axis = -1; axis = 0"):
            session(path, content)


def test_sizes_that_data_decide(path: Path) -> None:
    loaded = session(path, model([node("nonzero", ["x"])], {"x": (F32, ["n", "m"])}, {"y": I64}))
    for x in (floats(40, 50), np.zeros((3, 4), np.float32), np.eye(7, dtype=np.float32), floats(0, 4)):
        assert np.array_equal(loaded.run(None, {"x": x})[0], np.array(np.nonzero(x)))


def test_inputs_may_be_absent(path: Path) -> None:
    x, low, high = floats(9), np.float32(-0.5), np.float32(0.25)
    for operands, expected in (
        (["x"], x),
        (["x", "low"], np.maximum(x, low)),
        (["x", "", "high"], np.minimum(x, high)),
    ):
        types = {"x": (F32, ["n"]), "low": (F32, []), "high": (F32, [])}
        content = model([node("clip", operands)], {n: types[n] for n in operands if n}, {"y": F32})
        arrays = {"x": x, "low": np.asarray(low), "high": np.asarray(high)}
        assert np.array_equal(one(path, content, **{n: arrays[n] for n in operands if n})[0], expected)
    both = model([node("clip", ["x", "low", "high"])], types, {"y": F32})
    with pytest.raises(Exception, match="no kernel for x of rank 1, low of rank 0, high of rank 0"):
        one(path, both, **arrays)


def test_rows_of_tensors(path: Path) -> None:
    rows = {f"x{k}": floats(k + 1, 4) for k in range(3)}
    for count in (2, 3):
        names = [*rows][:count]
        content = model([node("concat", names)], {n: (F32, [None, 4]) for n in names}, {"y": F32})
        assert np.array_equal(
            one(path, content, **{n: rows[n] for n in names})[0], np.concatenate([rows[n] for n in names])
        )


def test_outputs_that_a_node_does_not_have(path: Path) -> None:
    x = floats(5, 6)
    for outputs, types in ((["y"], {"y": F32}), (["y", "i"], {"y": F32, "i": I64}), (["", "i"], {"i": I64})):
        content = model([node("topk", ["x"], outputs, k=2)], {"x": (F32, ["n", "m"])}, types)
        results = dict(zip(types, one(path, content, x=x)))
        order = np.argsort(-x, axis=-1)[:, :2]
        if "y" in results:
            assert np.array_equal(results["y"], np.take_along_axis(x, order, -1))
        if "i" in results:
            assert np.array_equal(results["i"], order)


@pytest.mark.parametrize(("a", "b", "expected"), [
    (["n", "m"], ["m"], ["n", "m"]), (["n", 5], ["m"], ["n", 5]), (["n", "m"], [1], ["n", "m"]), ([2, 3], [3], [2, 3]),
    ([4, 1], ["m"], [4, "m"]), (["n", None], [3], ["n", 3]), (["n", 0], [1], ["n", 0]),
])  # fmt: skip
def test_shapes_are_inferred_when_a_model_is_loaded(
    a: list[Any], b: list[Any], expected: list[Any], path: Path
) -> None:
    content = model([node("add", ["a", "b"])], {"a": (F32, a), "b": (F32, b)}, {"y": F32})
    assert session(path, content).get_outputs()[0].shape == expected


def test_dims_of_which_nothing_is_known_have_names_of_their_own(path: Path) -> None:
    nodes = [node("add", ["a", "b"], ["y"]), node("nonzero", ["y"], ["i"]), node("add", ["a", "c"], ["z"])]
    inputs = {"a": (F32, ["n", "m"]), "b": (F32, ["k"]), "c": (F32, ["j"])}
    y, i, z = (o.shape for o in session(path, model(nodes, inputs, {"y": F32, "i": I64, "z": F32})).get_outputs())
    assert (y[0], i[0], z[0]) == ("n", 2, "n")
    assert len({y[1], i[1], z[1], "n", "m", "k", "j"}) == 7


def test_errors_are_in_the_words_of_python(path: Path) -> None:
    content = model([node("gather", ["x", "i"])], {"x": (F32, ["n", "m"]), "i": (I64, ["k"])}, {"y": F32})
    loaded = session(path, content)
    with pytest.raises(
        Exception, match=r"INVALID_ARGUMENT.*gather: index 9 is out of range for axis 0 of x with size 4"
    ):
        loaded.run(None, {"x": floats(4, 2), "i": np.array([0, 9])})
    assert loaded.run(None, {"x": floats(4, 2), "i": np.array([3])})[0].shape == (1, 2)
    content = model([node("add", ["a", "b"])], {"a": (F32, ["n", "m"]), "b": (F32, ["k"])}, {"y": F32})
    with pytest.raises(Exception, match=r"add: \[3, 5\] and \[4\] do not broadcast: 5 against 4"):
        one(path, content, a=floats(3, 5), b=floats(4))


def test_threads_share_a_session_and_a_kernel_shares_threads(path: Path) -> None:
    content = model([node("softmax", ["x"], axis=0)], {"x": (F32, ["a", "b"])}, {"y": F32})
    x = floats(700, 300)
    alone = session(path, content, intra_op_num_threads=1)
    (expected,) = alone.run(None, {"x": x})
    several = session(path, content, intra_op_num_threads=4)
    with ThreadPoolExecutor(6) as pool:
        results = pool.map(lambda k: (alone, several)[k % 2].run(None, {"x": x})[0], range(24))
    assert all(np.array_equal(r, expected) for r in results)


def test_calls_keep_no_memory(path: Path) -> None:
    """Results, arenas and refusals of some hundred calls would be gigabytes."""
    nodes = [node("nonzero", ["x"], ["i"]), node("topk", ["x"], ["y"], k=2)]
    loaded = session(path, model(nodes, {"x": (F32, ["n", "m"])}, {"i": I64, "y": F32}))
    x, narrow = floats(400, 500), floats(400_000, 1)

    def some(times: int) -> int:
        for _ in range(times):
            loaded.run(None, {"x": x})
            with pytest.raises(Exception, match="topk"):
                loaded.run(None, {"x": narrow})
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = some(10)
    assert some(60) - before < 64 << 10


def test_two_libraries_in_a_session_need_domains_of_their_own(path: Path, tmp_path: Path) -> None:
    import onnxruntime

    calls = [call("exp", x="f32[n]")]
    same, other = (
        library_of(calls, name, export_target(None), domain)
        for name, domain in (("same", "anyshape"), ("other", "mine"))
    )
    content = model([node("softmax", ["x"])], {"x": (F32, ["a", "b"])}, {"y": F32})
    for second, works in ((same, False), (other, True)):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.register_custom_ops_library(str(path))
        options.register_custom_ops_library(str(second.write(tmp_path)[-1]))
        if works:
            onnxruntime.InferenceSession(content, options)
        else:
            with pytest.raises(Exception, match="Domain already set in registry"):
                onnxruntime.InferenceSession(content, options)


def test_what_onnxruntime_cannot_tell_apart_is_refused() -> None:
    calls = [call("cast", {"to": t}, x="f32[n]") for t in ("i64", "f64")]
    with pytest.raises(
        UnsupportedError, match=r"cast: for equal inputs .* choose between results of i64 and f64; .*--domain"
    ):
        library_of(calls, "casts", export_target(None))
    with pytest.raises(UnsupportedError, match="no shared libraries"):
        library_of(calls[:1], "casts", export_target("wasm32"))
    with pytest.raises(UnsupportedError, match="activations is a list of texts, which a kernel cannot compare"):
        types = {"x": "f32[s, b, i]", "w": "f32[1, h, i]", "r": "f32[1, h, h]"}
        library_of([call("rnn", {"activations": ["Relu"]}, **types)], "rnns", export_target(None))


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="this machine has no level of x86-64")
def test_a_library_of_several_levels(tmp_path: Path) -> None:
    """The level that this machine has, with the results of the library for one."""
    several = library_of(CALLS[:2], "levels", export_target("x86-64-v2,x86-64-v3,x86-64-v4")).write(tmp_path)[-1]
    x = floats(3, 5)
    for attributes, axis in (({}, -1), ({"axis": 0}, 0)):
        content = model([node("softmax", ["x"], **attributes)], {"x": (F32, ["a", "b"])}, {"y": F32})
        np.testing.assert_allclose(one(several, content, x=x)[0], softmax(x, axis), rtol=1e-5, atol=1e-7)
