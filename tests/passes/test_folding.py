"""What is folded when a model is compiled: cheap calls by the interpreter, others by kernels, and what fails is left to the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.graph.value import Node
from anyshape.passes import folding as limits
from anyshape.passes import optimise
from anyshape.vm.compiling.folding import Folding
from anyshape.vm.compiling.options import make_options
from tests.counting import calls

RNG = np.random.default_rng(3)


class Spy:
    """Kernels, and which ops they were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._by_kernels = Folding(make_options({}))

    def __call__(self, node: Node) -> Sequence[Any] | None:
        self.asked.append(node.op.name)
        return self._by_kernels(node)


def folded(value: Any, spy: Spy) -> Any:
    (result,) = optimise(anyshape.function([], value), spy).results
    return result.constant


def boxes(rois: int) -> Any:
    images, places = RNG.normal(size=(1, 4, 16, 16)), RNG.uniform(0, 14, (rois, 4))
    return ops.align_planes(images.astype("f"), places.astype("f"), np.zeros(rois, np.int64), size=[7, 7], ratio=2)


@pytest.mark.parametrize(
    "make",
    [lambda: boxes(12), lambda: ops.matmul(np.ones((60, 40), "f"), np.ones((40, 30), "f"))],
    ids=["roi", "matmul"],
)
def test_what_takes_the_interpreter_long_is_made_by_kernels(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spy, value = Spy(), make()
    monkeypatch.setattr(limits, "FOLD_OPERATIONS", 10**9)
    (want,) = optimise(anyshape.function([], value)).results
    got = folded(value, spy)
    assert spy.asked and want.constant is not None
    np.testing.assert_allclose(got, want.constant, rtol=1e-4, atol=1e-5)


def test_a_call_without_operands_is_made_by_kernels_once() -> None:
    """What is compiled for it has the same call on no constants at all, which is not folded in turn."""
    spy = Spy()
    assert folded(ops.zeros([300, 400], dtype="f32"), spy).shape == (300, 400)
    assert len(spy.asked) <= 1


def test_what_is_laid_out_otherwise_is_folded_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights take the place of what they were; what takes more memory than its operands is left to the run."""
    monkeypatch.setattr(limits, "FOLD_ELEMENTS", 100)
    weights = RNG.normal(size=(12, 10)).astype(np.float32)
    np.testing.assert_array_equal(folded(ops.transpose(weights, axes=[1, 0]), Spy()), weights.T)
    np.testing.assert_array_equal(folded(ops.cast(weights, to="f16"), Spy()), weights.astype(np.float16))
    assert (
        folded(ops.cast(weights, to="f64"), Spy()) is None
        and folded(ops.concat([weights, weights[:1]], axis=0), Spy()) is not None
    )
    assert folded(ops.broadcast_to(weights, (2, 12, 10)), Spy()) is None
    assert folded(ops.broadcast_to(weights[:4], (2, 4, 10)), Spy()) is not None, "as few as are folded anyway"


def test_floats_of_8_bits_become_f32_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No product widens them as it reads them, as it does bytes and floats of 16 bits, and each call would widen all."""
    monkeypatch.setattr(limits, "FOLD_ELEMENTS", 100)
    weights = RNG.normal(size=(12, 10)).astype(np.float32)
    narrow = weights.astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(folded(ops.cast(narrow, to="f32"), Spy()), narrow.astype(np.float32))
    scaled = ops.dequantize_linear(narrow, np.float32(2))
    np.testing.assert_array_equal(folded(scaled, Spy()), narrow.astype(np.float32) * 2)
    assert folded(ops.cast(narrow, to="f64"), Spy()) is None, "eight times the bytes"
    assert folded(ops.cast(weights.astype(np.float16), to="f32"), Spy()) is None
    assert folded(ops.cast(weights.astype(np.int8), to="f32"), Spy()) is None


def test_kernels_give_what_the_interpreter_does(monkeypatch: pytest.MonkeyPatch) -> None:
    value = ops.cumsum(RNG.integers(0, 9, (6, 5)).astype(np.float32), axis=1)
    quick, slow = Spy(), Spy()
    want = folded(value, quick)
    monkeypatch.setattr(limits, "QUICK_ITERATIONS", 0)
    np.testing.assert_array_equal(folded(value, slow), want)
    assert (quick.asked, slow.asked) == ([], ["cumsum"])


def test_a_long_loop_over_few_elements_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    value = ops.cumsum(np.arange(200), axis=0)
    spy = Spy()
    np.testing.assert_array_equal(folded(value, spy), np.cumsum(np.arange(200)))
    monkeypatch.setattr(limits, "QUICK_OPERATIONS", 1)
    again = Spy()
    np.testing.assert_array_equal(folded(ops.cumsum(np.arange(200), axis=0), again), np.cumsum(np.arange(200)))
    assert again.asked == ["cumsum"]


def test_calls_of_one_kind_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUICK_ITERATIONS", 0)
    spy = Spy()
    total = ops.add(*(ops.max(ops.cumsum(RNG.normal(size=n).astype(np.float32), axis=0)) for n in (5, 9)))
    assert folded(total, spy) is not None
    assert len([k for k in spy._by_kernels._known if k[0].name == "cumsum"]) == 1


def test_a_call_on_the_same_constants_is_made_once() -> None:
    spy, (a, b, c) = Spy(), (anyshape.constant(np.full((60, 60), n, "f")) for n in (1, 2, 2))
    first, again, other = (folded(ops.matmul(a, v), spy) for v in (b, b, c))
    np.testing.assert_array_equal(other, np.full((60, 60), 120))
    assert np.shares_memory(first, again) and not np.shares_memory(first, other)


@pytest.mark.parametrize("n", [1_000, 300_000])
def test_a_large_result_of_numbers_that_are_no_data_is_folded(n: int) -> None:
    """The function that computes it has no inputs: it is the call on constants again."""
    x = anyshape.input("x", "i64[]")
    doubled = ops.mul(ops.arange(np.array(0), np.array(n), np.array(1)), np.array(2))
    exe = anyshape.compile(anyshape.function([x], ops.add(doubled, x)))
    np.testing.assert_array_equal(exe(np.array(1)), 2 * np.arange(n) + 1)


def test_a_call_that_fails_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUICK_ITERATIONS", 0)
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], ops.add(x, ops.gather(np.arange(3, dtype=np.float32), np.array([7]))))
    with pytest.raises(AnyshapeError, match="index 7 is out of range"):
        anyshape.compile(f)(np.zeros(1, np.float32))


def test_interpreted_kernels_fold_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Folding, "__call__", lambda *_: pytest.fail("machine code"))
    x = anyshape.input("x", "f32[]")
    value = ops.cumsum(np.arange(40, dtype=np.float32), axis=0)
    exe = anyshape.compile(anyshape.function([x], ops.add(value, x)), kernels="interpret")
    assert exe(np.float32(1))[-1] == 781


def forest(trees: int, depth: int) -> tuple[bytes, Any]:
    """A TreeEnsembleRegressor of full trees, and what it is."""
    leaves, inner = 2**depth, 2**depth - 1
    count = leaves + inner
    feature, split = RNG.integers(0, 4, (trees, count)), RNG.normal(size=(trees, count)).astype(np.float32)
    weight = RNG.normal(size=(trees, leaves)).astype(np.float32)
    number = np.tile(np.arange(count), trees)
    tree = np.repeat(np.arange(trees), count)
    leaf = number >= inner
    attributes: dict[str, Any] = {
        "nodes_treeids": tree, "nodes_nodeids": number, "nodes_featureids": np.where(leaf, 0, feature.ravel()),
        "nodes_values": np.where(leaf, 0, split.ravel()), "nodes_truenodeids": np.where(leaf, 0, 2 * number + 1),
        "nodes_falsenodeids": np.where(leaf, 0, 2 * number + 2), "target_treeids": tree[leaf], "target_nodeids": number[leaf],
        "target_weights": weight.ravel(), "target_ids": np.zeros(leaf.sum(), int),
    }  # fmt: skip
    modes = ["LEAF" if end else "BRANCH_LEQ" for end in leaf]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_modes=modes,
        **{k: v.tolist() for k, v in attributes.items()},
    )  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, 1, s) for n, s in (("x", ["n", 4]), ("y", None)))
    domains = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=domains, ir_version=8)

    def value(row: Any) -> float:
        total = 0.0
        for t in range(trees):
            at = 0
            while at < inner:
                at = 2 * at + 1 if row[feature[t, at]] <= split[t, at] else 2 * at + 2
            total += weight[t, at - inner]
        return total

    return model.SerializeToString(), value


def test_a_forest_compiles_in_work_that_hardly_grows() -> None:
    """Trees are folded by compiled kernels: linked by the interpreter, an action at a time, ten trees took half a minute."""
    small, large = forest(2, 4), forest(24, 6)
    anyshape.compile(small[0])
    few, many = (calls(lambda m=m: anyshape.compile(m)) for m, _ in (small, large))
    assert many < 2 * few + 200_000
    x = RNG.normal(size=(5, 4)).astype(np.float32)
    want = np.array([[large[1](row)] for row in x])
    np.testing.assert_allclose(anyshape.compile(large[0])(x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("length", "is_folded"), [(200, True), (20_000, False)])
def test_without_kernels_a_long_procedure_is_left_to_the_run(length: int, is_folded: bool) -> None:
    """`anyshape.shapes` folds without kernels: the interpreter prepared an ensemble of twenty trees in half a minute."""
    values = RNG.integers(0, 2, length)
    (result,) = optimise(anyshape.function([], ops.unique(values, sorted=True)[0])).results
    assert (result.constant is not None) is is_folded
