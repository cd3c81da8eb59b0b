"""Uses the package `my_ops_torch` of operators of torch, in a process that has torch and the run time of anyshape alone.

A program of its own, which `test_package.py` runs. Out: what it checked, one word a line.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch.export import Dim

for absent in ("anyshape_gen", "anyshape_testing", "yaml", "jinja2"):
    sys.modules[absent] = None  # to import it is an error

import my_ops_torch  # noqa: E402  # test_package.py installs it
from my_ops_torch import swoosh, widen  # noqa: E402  # once modules are hidden

import anyshape  # noqa: E402  # once modules are hidden
from anyshape.frontends.torch import backend  # noqa: E402  # once modules are hidden


class Model(torch.nn.Module):
    """Ops of the package between layers of torch; the number of copies is a size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return widen(self.second(swoosh(self.first(x), scale=0.5)), x.shape[0]).sum(-1)


def operators() -> None:
    assert my_ops_torch.__all__ == ["refused", "swoosh", "widen", "above"]
    assert (
        str(torch.ops.my_ops_torch.swoosh.default._schema) == "my_ops_torch::swoosh(Tensor x, float scale=1.) -> Tensor"
    )
    assert "torch has no tensors of" in my_ops_torch.refused()["longest"]
    for name, words in (("longest", "torch cannot have the op longest"), ("swosh", "did you mean swoosh")):
        try:
            getattr(my_ops_torch, name)
        except AttributeError as e:
            assert words in str(e), e
        else:
            raise AssertionError(f"{name} is no operator")


def registrations() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(swoosh, (x, 2.0))
    torch.library.opcheck(widen, (x, 3))
    assert torch.autograd.gradcheck(lambda v: widen(swoosh(v, 2.0), 3), (x,))
    torch.testing.assert_close(torch.vmap(swoosh)(x), x * x.sigmoid())


def compiling() -> None:
    import torch._dynamo.testing

    model = Model()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, dynamic=True, fullgraph=True, backend=counter)
    for n in range(2, 52):
        x = torch.randn(n, 4)
        expected, result = model(x), compiled(x)
        torch.testing.assert_close(result, expected)
        slopes = [torch.autograd.grad(y.square().sum(), [*model.parameters()]) for y in (expected, result)]
        torch.testing.assert_close(*slopes)
    assert counter.frame_count == 1


def exporting() -> None:
    model = Model().eval()
    program = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n")},))
    assert "my_ops_torch.swoosh.default" in {str(n.target) for n in program.graph.nodes}
    ours = anyshape.compile(program)
    as_backend = torch.compile(model, backend="anyshape", dynamic=True)
    for n in (2, 3, 9):
        x = torch.randn(n, 4)
        with torch.no_grad():
            for run in (program.module(), ours, as_backend):
                torch.testing.assert_close(run(x), model(x))
    assert backend.STATISTICS.compiled == 1 and not backend.STATISTICS.eager


def same_operators() -> None:
    """Compares an op of anyshape, which finds it by the entry point of this package, with the operator."""
    x = anyshape.input("x", "f32[n]")
    run = anyshape.compile(anyshape.function([x], anyshape.ops.swoosh(x)))
    values = np.linspace(-2, 2, 7, dtype=np.float32)
    torch.testing.assert_close(torch.from_numpy(run(values)), swoosh(torch.from_numpy(values)))


if __name__ == "__main__":
    torch.manual_seed(0)
    for step in (operators, registrations, compiling, exporting, same_operators):
        step()
        print(step.__name__)
