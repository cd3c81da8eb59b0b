"""The backend of torch.compile: one compile for all sizes, parts that torch runs, contents that change, and what Dynamo finds by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from anyshape.frontends.torch.backend import STATISTICS, anyshape_backend
from anyshape.precision import CHUNKED, NARROW, Narrow
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import TargetName
from tests.pytorch.models import cases
from tests.pytorch.test_models import close

CASES = cases()
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _counted() -> Iterator[None]:
    torch._dynamo.reset()
    STATISTICS.compiled = 0
    STATISTICS.eager.clear()
    with torch.no_grad():
        yield


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=anyshape_backend, dynamic=True, **options)


@pytest.mark.parametrize("name", ["bert", "convnext", "unet", "whisper"])
def test_a_model_is_compiled_once_for_all_sizes_above_one(name: str) -> None:
    case = CASES[name]()
    model, f = case.model.eval(), compiled(case.model.eval())
    for sizes in [s for s in case.sizes if min(s) > 1]:
        inputs = case.inputs(*sizes)
        close(f(*inputs), model(*inputs))
    assert STATISTICS.compiled == 1 and not STATISTICS.eager


@pytest.mark.parametrize("name", ["experts", "detector"])
def test_sizes_that_data_decides(name: str) -> None:
    case = CASES[name]()
    model, f = case.model.eval(), compiled(case.model.eval(), fullgraph=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for sizes in [s for s in case.sizes if min(s) > 1]:
            inputs = case.inputs(*sizes)
            close(f(*inputs), model(*inputs))
    assert STATISTICS.compiled >= 1 and not STATISTICS.eager


def test_fifty_shapes_are_one_compile() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    f = compiled(model)
    for n in range(2, 52):
        x = torch.randn(n, n + 3, 4)
        close(f(x), model(x))
    assert STATISTICS.compiled == 1


def test_what_has_no_mapping_runs_in_torch_and_the_rest_is_compiled() -> None:
    def model(x: Tensor) -> Tensor:
        y = torch.linalg.inv_ex(x @ x.mT + torch.eye(x.shape[-1]))[0]
        return torch.relu(y) * x.shape[0]

    f = compiled(model)
    for n in (3, 5):
        x = torch.randn(n, 4, 4)
        close(f(x), model(x))
    assert STATISTICS.compiled == 2
    assert list(STATISTICS.eager) == ["aten.linalg_inv_ex.default"]


def test_what_reads_a_value_that_has_no_dtype_here_runs_in_torch() -> None:
    def inner(x: Tensor) -> Tensor:
        return torch.fft.rfft(x * 2).abs() + 1

    def outer(z: Tensor, x: Tensor) -> Tensor:
        return (z * 2).abs() + x

    f, g = compiled(inner), compiled(outer)
    for n in (3, 5):
        x = torch.randn(n, 4)
        close(f(x), inner(x))
        z = torch.complex(x, x)
        close(g(z, x), outer(z, x))
    assert STATISTICS.compiled == 2  # x * 2, and the last sum; nothing defines a size of the other one, n // 2 + 1
    assert "aten._fft_r2c.default" in STATISTICS.eager


def test_sizes_are_computed_and_returned() -> None:
    def model(x: Tensor, k: int) -> tuple[Tensor, int, Tensor]:
        return x.view(-1, k) * k, x.shape[0] // k, x

    f = compiled(model)
    for n, k in ((6, 2), (12, 3), (20, 4)):
        x = torch.randn(n)
        y, count, same = f(x, k)
        assert count == n // k and same is x
        close(y, x.view(-1, k) * k)


def test_parameters_and_buffers_that_change_are_read_again() -> None:
    model = nn.BatchNorm1d(3).eval()
    f, x = compiled(model), torch.randn(5, 3)
    close(f(x), model(x))
    for _ in range(2):
        model.running_mean.add_(1)
        model.weight.mul_(2)
        close(f(x), model(x))
    assert STATISTICS.compiled == 2  # as constants, then as inputs


def test_a_graph_of_which_a_gradient_is_asked_runs_in_torch() -> None:
    model = nn.Linear(3, 2)
    f = compiled(model)
    with torch.enable_grad():
        f(torch.ones(4, 3)).sum().backward()
    assert model.weight.grad is not None and STATISTICS.compiled == 0


def test_options_are_those_of_compile() -> None:
    f = compiled(torch.relu, options={"kernels": "interpret"})
    close(f(torch.arange(-2.0, 2)), torch.arange(-2.0, 2).relu())
    torch._dynamo.reset()
    with pytest.raises(Exception, match="compile has no option speed"):
        compiled(torch.relu, options={"speed": 1})(torch.ones(2))


@pytest.mark.parametrize(("precision", "target"), [*((p, "host") for p in NARROW), (CHUNKED, "fp16")])
def test_factors_are_rounded_where_a_precision_says_so(precision: Narrow, target: TargetName) -> None:
    """One compile serves all sizes, and nothing but the factors of the product is rounded."""
    model, dtype = nn.Linear(65, 70), torch.bfloat16 if precision == "bf16" else torch.float16
    f = compiled(model, options={"precision": precision, "target": target})
    in_f16 = precision == CHUNKED and target_called(target).halves
    for rows in (9, 2, 40):
        x = torch.randn(rows, 65)
        expected = nn.functional.linear(x.to(dtype).float(), model.weight.to(dtype).float(), model.bias)
        largest = expected.abs().max()
        assert (f(x) - expected).abs().max() <= (2e-3 if in_f16 else 2e-6) * largest
        assert (f(x) - model(x)).abs().max() > 2e-5 * largest, "factors are not rounded"
        assert not in_f16 or (f(x) - expected).abs().max() > 2e-5 * largest, "sums are not of f16"
    assert STATISTICS.compiled == 1 and not STATISTICS.eager


def test_dynamo_finds_the_backend_by_name() -> None:
    said = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert (
        '[project.entry-points.torch_dynamo_backends]\nanyshape = "anyshape.frontends.torch.backend:anyshape_backend"'
        in said
    )
    installed = [e for e in entry_points(group="torch_dynamo_backends") if e.name == "anyshape"]
    if not installed:
        pytest.skip("this environment has another version of the distribution")
    assert installed[0].load() is anyshape_backend
    f = torch.compile(torch.relu, backend="anyshape")
    close(f(torch.arange(-2.0, 2)), torch.arange(-2.0, 2).relu())
    assert STATISTICS.compiled == 1
