"""How an exported program becomes a function: names and bounds of dims, memory that is shared, structures, state, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import anyshape
from anyshape.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from anyshape.precision import CHUNKED, NARROW, Narrow
from anyshape.vm.compiling.options import TargetName
from tests.pytorch.models import cases


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 5.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def compiled(model: nn.Module, *example: Any, dims: Any = None) -> Any:
    return anyshape.compile(model.eval(), example, dynamic_shapes=dims)


def test_names_and_bounds_of_dims_are_torchs_and_are_checked() -> None:
    f = compiled(Scaled(), torch.ones(3, 4), dims=({0: Dim("rows", max=9)},))
    assert str(f.executable.input_types[0]) == "f32[rows, 4]"
    assert f(torch.ones(9, 4)).shape == (9, 4)
    with pytest.raises(ShapeError, match=r"x: dim 0 \(rows\) must be at most 9, got 10"):
        f(torch.ones(10, 4))
    with pytest.raises(ShapeError, match="must be 4, got 5"):
        f(torch.ones(1, 5))


def test_a_dim_of_one_name_is_one_dim() -> None:
    class Added(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.cat([x, y])

    rows = Dim("rows")
    f = compiled(Added(), torch.ones(3), torch.ones(3), dims=({0: rows}, {0: rows}))
    assert f(torch.ones(5), torch.zeros(5)).tolist() == [1] * 5 + [0] * 5
    with pytest.raises(ShapeError):
        f(torch.ones(5), torch.zeros(4))


def test_a_derived_dim_is_an_expression() -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(-1, 2)

    f = compiled(Halves(), torch.ones(6), dims=({0: 2 * Dim("h")},))
    assert str(f.executable.input_types[0]) == "f32[2*h]"
    assert f(torch.ones(10)).shape == (5, 2)
    with pytest.raises(ShapeError):
        f(torch.ones(9))


def test_a_dim_of_which_torch_made_a_number_is_refused() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * int(x.shape[0] == 3)

    with pytest.raises(
        UnsupportedError, match="axis 0 is open, as rows, and torch traces the module for the size 3 alone"
    ):
        compiled(Fixed(), torch.ones(3), dims=({0: Dim("rows")},))


class Branching(nn.Module):
    """Whose code asks for sizes."""

    def __init__(self, decide: Any) -> None:
        super().__init__()
        self.decide = decide

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if self.decide(x.shape[0]) else x - 1


@pytest.mark.parametrize(
    ("decide", "fits", "not_fit"),
    [
        (lambda n: n > 2, [3, 9], [2, 0]),
        (lambda n: n % 3 == 0, [3, 6, 0], [4]),
        (lambda n: n != 1, [3, 2, 0], [1]),
        (lambda n: n * 2 <= 10 and n != 4, [3, 5, 0], [6, 4]),
    ],
)
def test_what_the_code_of_a_model_decides_by_a_size_is_a_condition_of_each_call(
    decide: Any, fits: list[int], not_fit: list[int]
) -> None:
    f = compiled(Branching(decide), torch.ones(3), dims=({0: Dim("rows")},))
    for n in fits:
        assert f(torch.zeros(n)).tolist() == [1] * n
    for n in not_fit:
        with pytest.raises(ShapeError, match="torch traced the model for"):
            f(torch.zeros(n))


def test_what_torch_decides_of_sizes_of_one_is_none() -> None:
    class Shifted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.full((x.shape[0], x.shape[0]), 1.0).triu(1)[:, 1:].contiguous()

    f = compiled(Shifted(), torch.ones(3), dims=({0: Dim("rows")},))
    for n in (3, 2, 1):
        assert torch.equal(f(torch.ones(n)), Shifted()(torch.ones(n)))


def test_parameters_are_constants_over_the_memory_of_torch() -> None:
    model = Scaled()
    f = compiled(model, torch.ones(3, 4))
    constants = [
        v.constant
        for node in f.executable.function.nodes
        for v in node.inputs
        if v is not None and v.constant is not None
    ]
    assert any(np.shares_memory(c, model.weight.detach().numpy()) for c in constants)


def test_tensors_are_neither_copied_in_nor_out() -> None:
    from anyshape.frontends.torch.dtypes import array_of, tensor_of

    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.bool):
        x = torch.ones(2, 3).to(dtype).t()
        again = tensor_of(array_of(x))
        assert again.dtype is dtype and again.data_ptr() == x.data_ptr() and again.stride() == x.stride()
    with pytest.raises(ArgumentError, match="dense tensor on the CPU"):
        array_of(torch.ones(2, 2).to_sparse(), "input x")
    with pytest.raises(UnsupportedError, match="complex64"):
        array_of(torch.ones(2, dtype=torch.complex64))


def test_strided_arguments_and_a_tensor_with_a_gradient() -> None:
    f = compiled(Scaled(), torch.ones(3, 4))
    x = torch.arange(12.0).reshape(4, 3).t().requires_grad_()
    assert torch.equal(f(x), (x * torch.arange(1.0, 5.0)).detach())


class Nested(nn.Module):
    def forward(self, x: dict[str, list[Tensor]], *, by: float = 2.0) -> dict[str, Any]:
        a, b = x["pair"]
        return {"sum": (a + b) * by, "same": a, "count": a.shape[0] * 2, "none": None}


def test_structures_and_results_that_are_arguments_numbers_or_nothing() -> None:
    pair = {"pair": [torch.ones(2), torch.ones(2)]}
    rows = Dim("rows")
    f = anyshape.compile(
        Nested(), (pair,), example_kwargs={"by": 3.0}, dynamic_shapes={"x": {"pair": [{0: rows}] * 2}, "by": None}
    )
    a = torch.arange(5.0)
    answer = f({"pair": [a, a]}, by=3.0)
    assert (
        torch.equal(answer["sum"], a * 6) and answer["same"] is a and answer["count"] == 10 and answer["none"] is None
    )
    with pytest.raises(ArgumentError, match=r"was 3\.0 in the example"):
        f({"pair": [a, a]}, by=4.0)
    with pytest.raises(ArgumentError) as raised:
        f([a, a], by=3.0)
    assert "as in the example, ({'pair': [*, *]}, by=*), got ([*, *], by=*)" in str(raised.value)
    with pytest.raises(DtypeError, match="must be f32"):
        f({"pair": [a.double(), a.double()]}, by=3.0)


def test_an_integer_that_is_open_is_a_size() -> None:
    class First(nn.Module):
        def forward(self, x: Tensor, k: int) -> Tensor:
            return x[:k] * k

    f = compiled(First(), torch.ones(6), 3, dims={"x": {0: Dim("n")}, "k": Dim.DYNAMIC})
    for k in (3, 1, 5):
        assert f(torch.ones(7), k).tolist() == [k] * k
    with pytest.raises(ArgumentError, match="input k must be"):
        f(torch.ones(7), 2.5)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(x.sum())
        return x + self.count


def test_buffers_that_a_call_changes_change() -> None:
    model, other = Counter(), Counter()
    f = compiled(model, torch.ones(2))
    for k in range(3):
        x = torch.full((2,), float(k))
        assert torch.equal(f(x), other(x))
        assert torch.equal(model.count, other.count)


def test_an_argument_that_a_model_changes_changes() -> None:
    class Cleared(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.clone()
            x.mul_(2)
            return y

    f, x = compiled(Cleared(), torch.ones(3)), torch.arange(3.0)
    assert f(x).tolist() == [0, 1, 2] and x.tolist() == [0, 2, 4]


def test_an_exported_program_is_compiled_as_it_is() -> None:
    program = torch.export.export(Scaled(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("rows")},))
    f = anyshape.compile(program)
    assert f(torch.ones(6, 4)).shape == (6, 4)
    with pytest.raises(ArgumentError, match="pass it alone"):
        anyshape.compile(program, (torch.ones(3, 4),))
    with pytest.raises(ArgumentError, match="needs an example"):
        anyshape.compile(Scaled())
    with pytest.raises(ArgumentError, match="for modules of PyTorch"):
        anyshape.compile("model.onnx", (torch.ones(3, 4),))


def test_everything_that_is_not_supported_is_refused_at_once() -> None:
    class Strange(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.as_strided(x, (2, 2), (1, 1)) + torch.rand(2, 2) + torch.linalg.inv(x)

    with pytest.raises(UnsupportedError) as refused:
        compiled(Strange(), torch.ones(2, 2))
    for words in (
        "as_strided",
        "values have no strides",
        "rand",
        "pass them as an input",
        "linalg_inv_ex",
        "operators with effects",
        "docs/torch.md lists",
    ):
        assert words in str(refused.value)


def test_what_torch_asserts_of_sizes_is_checked() -> None:
    class Few(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n = torch.nonzero(x).shape[0]
            torch._check(n <= 2, lambda: "too many")
            return torch.nonzero(x)

    f = compiled(Few(), torch.tensor([0.0, 1, 0]), dims=({0: Dim("n")},))
    assert f(torch.tensor([1.0, 0, 0, 2])).tolist() == [[0], [3]]
    with pytest.raises(ShapeError):
        f(torch.ones(3))


def test_the_executable_is_saved_and_takes_arrays(tmp_path: Path) -> None:
    f = compiled(Scaled(), torch.ones(3, 4), dims=({0: Dim("rows")},))
    f.executable.save(tmp_path / "scaled.anyshape")
    again = anyshape.load(tmp_path / "scaled.anyshape")
    assert again(np.ones((2, 4), np.float32)).tolist() == [[1, 2, 3, 4]] * 2


@pytest.mark.parametrize(("precision", "target"), [*((p, "host") for p in NARROW), (CHUNKED, "fp16")])
def test_a_module_is_compiled_for_a_precision(precision: Narrow, target: TargetName) -> None:
    """A model of products one after the other is as far from eager as rounding brings it, and no further."""
    case = cases()["bert"]()
    model, inputs = case.model.eval(), case.inputs(*case.sizes[0])
    f = anyshape.compile(model, inputs, dynamic_shapes=case.dynamic_shapes, precision=precision, target=target)
    assert f.executable.report.narrowed and f.executable.options.precision == precision
    for sizes in case.sizes:
        inputs = case.inputs(*sizes)
        with torch.no_grad():
            mine, answer = f(*inputs), model(*inputs)
        leaves = zip(pytree.tree_leaves(mine), pytree.tree_leaves(answer), strict=True)
        error = max(float((got - want).abs().max() / want.abs().max()) for got, want in leaves)
        assert 1e-5 < error < (2e-2 if precision == "bf16" else 5e-3), (sizes, error)


def test_dims_of_a_call_and_options_are_those_of_compile() -> None:
    f = anyshape.compile(
        Scaled(), example=(torch.ones(3, 4),), dynamic_shapes=({0: Dim("rows")},), dims={"rows": (1, 5)}, threads=1
    )
    assert f(torch.ones(5, 4)).shape == (5, 4)
    with pytest.raises(ShapeError, match="at most 5"):
        f(torch.ones(6, 4))
