"""Uses the compiled kernels of the package `my_ops_torch` in a process where llvmlite cannot be imported.

A program of its own, which `test_package.py` runs; the wheel has kernels for f32 and f64 of ranks 1 and 2. Out: what it checked, one word a
line.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch

for absent in ("llvmlite", "anyshape_gen", "anyshape_testing", "yaml", "jinja2"):
    sys.modules[absent] = None  # to import it is an error

from my_ops_torch import above, swoosh, widen  # noqa: E402  # test_package.py installs it

from anyshape.errors import AnyshapeError, ArgumentError, ShapeError, UnsupportedError  # noqa: E402

SIZES = ((1,), (0,), (5,), (3, 4), (0, 4), (70, 900))


def expected(x: Any, scale: float = 1.0) -> Any:
    return x * x.sigmoid() * scale


def values() -> None:
    """Every size of the kinds that there are kernels for, those of views of other memory too."""
    for dtype in (torch.float32, torch.float64):
        for shape in SIZES:
            x = torch.randn(shape, dtype=dtype)
            torch.testing.assert_close(swoosh(x), expected(x))
            torch.testing.assert_close(swoosh(x, scale=0.5), expected(x, 0.5))
            for k in (0, 1, 3):
                torch.testing.assert_close(widen(x, k), x[..., None].expand(*x.shape, k))
    x = torch.randn(6, 5).T[1:, ::2]
    torch.testing.assert_close(swoosh(x), expected(x))
    misaligned = torch.frombuffer(bytearray(41), dtype=torch.float32, offset=1, count=10)
    torch.testing.assert_close(swoosh(misaligned), expected(misaligned.clone()))


def sizes_of_data() -> None:
    for n in (0, 1, 9, 1000):
        x = torch.randn(n)
        torch.testing.assert_close(above(x), (x > 0).nonzero()[:, 0])


def gradients() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: widen(swoosh(v, 0.5), 3), (x,))
    torch.library.opcheck(swoosh, (x,))


def programs() -> None:
    compiled = torch.compile(lambda x: swoosh(x * 2).sum(-1), fullgraph=True, dynamic=True, backend="eager")
    for n in (2, 7, 30):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), expected(x * 2).sum(-1))


def threads() -> None:
    """Kernels that share their parts over threads, called by several at once, and in a process that was forked."""
    torch.set_num_threads(4)
    x = torch.randn(1000, 900)
    results: list[Any] = [None] * 3

    def call(k: int) -> None:
        results[k] = [swoosh(x) for _ in range(5)]

    calls = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for t in calls:
        t.start()
    for t in calls:
        t.join()
    torch.set_num_threads(1)
    for result in (r for listed in results for r in listed):
        torch.testing.assert_close(result, expected(x))


def refusals() -> None:
    """What a kernel refuses, and calls without a kernel, of which the message says what there is and what to do."""
    calls: list[tuple[Any, type[Exception], list[str]]] = [
        (lambda: widen(torch.ones(2), -1), ShapeError, ["widen", "cannot repeat -1 times"]),
        (lambda: swoosh(torch.ones(2, 2, 2)), UnsupportedError, ["swoosh", "x: f32 of rank 3, scale: 1.0", "f64 of rank 2", "--ranks"]),
        (lambda: swoosh(torch.ones(2), 0.25), UnsupportedError, ["scale: 0.25", "--param", "install llvmlite"]),
        (lambda: swoosh(torch.ones(2).half()), UnsupportedError, ["x: f16 of rank 1", "--dtypes"]),
        (lambda: swoosh(torch.ones(2, dtype=torch.complex64)), UnsupportedError, ["complex64"]),
        (lambda: swoosh(torch.ones(2).to_sparse()), ArgumentError, ["dense"]),
        (lambda: swoosh(torch.ones(1).expand(1 << 55)), AnyshapeError, ["no memory for", "an argument of swoosh"]),
    ]  # fmt: skip
    for call, error, words in calls:
        try:
            call()
        except error as e:
            assert all(w in str(e) for w in words), (words, e)
        else:
            raise AssertionError(words)


if __name__ == "__main__":
    torch.manual_seed(0)
    for step in (values, sizes_of_data, gradients, programs, threads, refusals):
        step()
        print(step.__name__, flush=True)
