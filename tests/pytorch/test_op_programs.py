"""Operators of torch that are ops, in programs: `torch.compile`, `torch.export`, `vmap`, sizes that data decide, and what they refuse."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch.export import Dim

import anyshape
from anyshape.errors import ArgumentError, ShapeError, UnsupportedError
from anyshape.frontends.torch import backend
from anyshape.torch import operators, ops
from anyshape.torch.__main__ import main
from anyshape.torch.graph import node_of
from anyshape.torch.kernel import MOST_NUMBERS, TorchKernel
from tests.pytorch.op_calls import flat

pytestmark = pytest.mark.filterwarnings("ignore")


def attention(q: Any, k: Any, v: Any) -> Any:
    """Some ops with dims in common, and a size that is computed."""
    scores = ops.softmax(ops.mul(ops.matmul(q, ops.transpose(k)), torch.tensor(k.shape[1] ** -0.5)))
    both = ops.concat([ops.matmul(scores, v), q], axis=1)
    normed, *_ = ops.layer_norm(both)
    first, second = ops.split(normed, axis=1, sizes=[v.shape[1], q.shape[1]])
    return ops.reshape(first, [-1]).sum() + ops.pad(second, pads=[0, q.shape[0], 0, 0]).square().sum()


def drawn(n: int, m: int) -> list[Any]:
    return [torch.randn(n, 4, requires_grad=True), torch.randn(m, 4, requires_grad=True), torch.randn(m, 3)]


def test_a_function_of_several_ops_compiles_once_for_fifty_shapes() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attention, fullgraph=True, dynamic=True, backend=counter)
    for k in range(50):
        args = drawn(5 + k, 7 + 2 * k)
        expected = attention(*args)
        slopes = torch.autograd.grad(expected, args[:2])
        result = compiled(*args)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result, args[:2]), slopes)
    assert counter.frame_count == 1


def test_inductor_takes_the_ops() -> None:
    compiled = torch.compile(lambda x: ops.softmax(ops.add(x, x.exp())) * 2, fullgraph=True, dynamic=True)
    for n in (2, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), torch.softmax(x + x.exp(), -1) * 2)


class Module(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v)


def test_a_module_is_exported_with_open_dims() -> None:
    n, m = Dim("n"), Dim("m")
    program = torch.export.export(Module(), tuple(drawn(5, 6)), dynamic_shapes=({0: n}, {0: m}, {0: m}))
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"anyshape.softmax.default", "anyshape.concat.default", "anyshape.split.default"} <= names
    for args in (drawn(5, 6), drawn(3, 9)):
        torch.testing.assert_close(program.module()(*args), attention(*args))


def test_a_module_of_ops_is_one_program_of_ours() -> None:
    n, m = Dim("n"), Dim("m")
    compiled = anyshape.compile(Module(), tuple(drawn(5, 6)), dynamic_shapes=({0: n}, {0: m}, {0: m}))
    backend.STATISTICS.eager.clear()
    as_backend = torch.compile(attention, backend="anyshape", dynamic=True)
    with torch.no_grad():
        for args in (drawn(5, 6), drawn(3, 9)):
            torch.testing.assert_close(compiled(*args), attention(*args))
            torch.testing.assert_close(as_backend(*args), attention(*args))
        assert not backend.STATISTICS.eager
        torch.testing.assert_close(torch.compile(unmapped, backend="anyshape")(torch.ones(2)), unmapped(torch.ones(2)))
    assert list(backend.STATISTICS.eager) == ["anyshape_test.unmapped.default"]


@torch.library.custom_op("anyshape_test::unmapped", mutates_args=())
def unmapped(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@unmapped.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_data_decide_have_no_value_and_the_bounds_of_the_rule() -> None:
    def rows(x: Any, mask: Any) -> Any:
        places = ops.nonzero(mask)
        if places.shape[1] > mask.shape[0]:  # never, as the rule says
            return x
        return ops.gather(x, places[0], axis=0), ops.compress(x, mask)

    compiled = torch.compile(rows, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (4, 7):
        x, mask = torch.randn(n, 3), torch.arange(n) % 2 == 0
        for a in compiled(x, mask):
            torch.testing.assert_close(a, x[mask])

    def is_whole(mask: Any) -> Any:
        return mask if ops.nonzero(mask).shape[1] >= mask.shape[0] else ~mask

    with pytest.raises(torch._dynamo.exc.UserError, match="data-dependent"):
        torch.compile(is_whole, fullgraph=True, dynamic=True, backend="aot_eager")(mask)


def test_a_wrong_fake_kernel_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3)
    torch.library.opcheck(ops.softmax, (x,))
    monkeypatch.setattr(operators, "results_of", lambda op, args: [args[0].new_empty(3, 2)])
    with pytest.raises(torch.testing._internal.optests.OpCheckError, match="test_faketensor"):
        torch.library.opcheck(ops.softmax, (x,))


def test_a_wrong_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.sinh, (x,))
    monkeypatch.setattr(operators, "gradients_of", lambda op, seeds, needed, arguments: list(seeds))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(ops.cosh, (x,))


def test_what_a_rule_demands_of_sizes_is_checked_while_torch_traces() -> None:
    compiled = torch.compile(lambda x, y: ops.matmul(x, y), fullgraph=True, dynamic=True, backend="aot_eager")
    assert compiled(torch.ones(2, 3), torch.ones(3, 5)).shape == (2, 5)
    with pytest.raises(Exception, match="matmul: k of b: ex"):
        torch._dynamo.reset()
        compiled(torch.ones(2, 4), torch.ones(5, 6))
    assert ops.matmul(torch.ones(2, 3, device="meta"), torch.ones(3, 5, device="meta")).shape == (2, 5)
    with pytest.raises(ShapeError, match="matmul"):
        ops.matmul(torch.ones(2, 3, device="meta"), torch.ones(4, 5, device="meta"))


def test_a_size_on_which_a_rank_depends_becomes_a_number() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, at: ops.gather_nd(x, at), fullgraph=True, dynamic=True, backend=counter)
    x = torch.arange(336.0).reshape(6, 7, 8).requires_grad_()
    for at, rank in (
        ([[1, 2], [0, 1], [1, 0]], 2),
        ([[1, 2], [0, 0], [1, 1], [0, 2], [1, 0]], 2),
        ([[1, 2, 3]] * 5, 1),
    ):
        index = torch.tensor(at)
        result = compiled(x, index)
        assert result.ndim == rank
        torch.testing.assert_close(result, x[tuple(index.T)])
        torch.testing.assert_close(
            torch.autograd.grad(result.sum(), x), torch.autograd.grad(x[tuple(index.T)].sum(), x)
        )
    assert counter.frame_count == 2


def kernel_of(name: str) -> TorchKernel:
    op = ops.VARIANTS[name]
    return TorchKernel(name, op.arguments, lambda values: node_of(op, values).outputs, partial(node_of, op))


def test_after_some_choices_of_integers_they_are_operands() -> None:
    kernel = kernel_of("reshape")
    for n in range(1, 10):
        assert kernel([torch.ones(n, 6), [3, -1], False])[0].shape == (3, 2 * n)
    (family,) = kernel.families.values()
    assert len(family.executables) == 1
    for n in range(1, 10):
        assert torch.equal(kernel([torch.arange(6 * n), [n, 6], False])[0], torch.arange(6 * n).reshape(n, 6))
    *_, other = kernel.families.values()
    assert len(other.executables) == MOST_NUMBERS + 1
    with pytest.raises(ShapeError, match="reshape"):
        kernel([torch.arange(6), [4, 2], False])


def test_an_integer_on_which_ranks_depend_is_no_operand() -> None:
    kernel, x = kernel_of("flatten"), torch.arange(720).reshape(1, 2, 3, 4, 5, 6)
    for axis in range(x.ndim):
        assert torch.equal(kernel([x, axis])[0], x.reshape(x.shape[:axis].numel(), -1))
    (family,) = kernel.families.values()
    assert len(family.executables) == x.ndim > MOST_NUMBERS


def test_a_result_has_memory_of_its_own() -> None:
    x = torch.randn(2, 3)
    for result in (ops.identity(x), ops.reshape(x, [3, 2]), ops.transpose(x), ops.transpose(x.T)):
        assert result.is_contiguous()
        result.zero_()
    assert x.count_nonzero() == 6


def test_an_op_runs_once_for_each_item_of_a_batch() -> None:
    x, w = torch.randn(3, 4, 2, dtype=torch.float64), torch.randn(4, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(ops.matmul, in_dims=(1, 0))(x, w), torch.matmul(x.transpose(0, 1), w))
    values, places = torch.vmap(lambda v: ops.topk(v, k=2), out_dims=1)(x)
    expected = x.topk(2)
    torch.testing.assert_close((values, places), (expected.values.transpose(0, 1), expected.indices.transpose(0, 1)))
    torch.testing.assert_close(torch.vmap(lambda a, b: ops.concat([a, b]), in_dims=(0, None))(x, x[0]).shape, (3, 8, 2))
    x.requires_grad_()
    slope, expected = (
        torch.autograd.grad(torch.vmap(f)(x).square().sum(), x) for f in (ops.softmax, lambda v: v.softmax(-1))
    )
    torch.testing.assert_close(slope, expected)


def test_a_batch_whose_items_have_results_of_several_sizes_is_refused() -> None:
    assert torch.vmap(ops.nonzero)(torch.tensor([[1, 0], [0, 1]])).shape == (2, 1, 1)
    with pytest.raises(UnsupportedError, match="nonzero: vmap over items whose results have different sizes"):
        torch.vmap(ops.nonzero)(torch.tensor([[1, 0], [1, 1]]))
    with pytest.raises(UnsupportedError, match="softmax: vmap over nothing"):
        torch.vmap(ops.softmax)(torch.ones(0, 2))


def test_what_has_no_gradient_says_why() -> None:
    x = torch.randn(3, 2, requires_grad=True)
    with torch.no_grad():
        ops.unique_slices(x, 0)
    unique = next(t for t in flat([ops.unique_slices(x, 0)]) if t.requires_grad)
    with pytest.raises(
        UnsupportedError, match=r"no gradient of unique_slices: a procedure .*\(specs/sorting.yaml:\d+\)"
    ):
        unique.sum().backward()
    (slope,) = torch.autograd.grad(ops.sinh(x).sum(), x, create_graph=True)
    with pytest.raises(
        UnsupportedError, match=r"the gradient of sinh has no gradient .*\(specs/trigonometry.yaml:\d+\)"
    ):
        slope.sum().backward()


def test_torch_refuses_functional_gradients_of_its_operators() -> None:
    assert torch.vmap(ops.sinh)(torch.ones(2)).shape == (2,)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda v: ops.sinh(v).sum())(torch.ones(2))


def test_tensors_that_ops_cannot_read_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="complex64 are not supported"):
        ops.neg(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match=r"neg: x must be a dense tensor on the CPU, got torch\.sparse_coo"):
        ops.neg(torch.ones(2).to_sparse())
    strided = torch.arange(12.0).reshape(3, 4)[:, ::2]
    assert torch.equal(ops.neg(strided), -strided)


def test_the_command_lists_schemas_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["softmax", "string_at"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "anyshape::softmax(Tensor x, int axis=-1) -> Tensor"
    assert second.startswith("refused: string_at: xs is of strings")
    assert main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ops.VARIANTS)
    assert main(["sofmax"]) == 2
    assert "did you mean softmax" in capsys.readouterr().err
