"""Profiles of calls: every kernel timed by itself, with what it computes and moves at this call's sizes.

In: a model and inputs. Out: a `Profile`. The model is compiled twice: once as users run it, for the time of the whole call, and once with a
`Recorder`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from numpy.typing import NDArray

from anyshape.errors import ArgumentError
from anyshape.files import is_saved
from anyshape.public import edge
from anyshape.vm.compiling.options import CompileOptions
from anyshape.vm.executable.executable import compile
from anyshape.vm.run.recorder import Recorder, Sample

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a call. `call`: seconds of the whole call, as users run it; `samples`: of its kernels, in the order in which they ran."""

    call: float
    samples: tuple[Sample, ...]

    @property
    def kernels(self) -> float:
        """Seconds in kernels."""
        return sum(s.seconds for s in self.samples)


MOST_CALLS = 1_000_000


@edge
def profile(
    model: Any,
    inputs: Mapping[str, Array],
    repeat: int = 10,
    dims: Mapping[str, Any] | None = None,
    **options: Unpack[CompileOptions],
) -> Profile:
    """Times each kernel, and the call; of `repeat` calls the least time counts. `model`, `dims` and `options` are those of `compile`, but
    that a saved model is refused. Raises what compiling the model or calling it raises."""
    if not 1 <= repeat <= MOST_CALLS:
        raise ArgumentError(f"profile: repeat must be a number of calls, from 1 to {MOST_CALLS}, got {repeat}")
    if isinstance(model, str | os.PathLike) and is_saved(model):
        raise ArgumentError(f"{os.fspath(model)} is a saved model; profile the ONNX model from which it was compiled")
    recorder = Recorder()
    recording = options.copy()
    recording["recorder"] = recorder
    recorded, plain = compile(model, dims, **recording), compile(model, dims, **options)
    plain.run(inputs)
    recorded.run(inputs)
    recorder.taken()
    runs, calls = [], []
    for _ in range(repeat):
        recorded.run(inputs)
        runs.append(recorder.taken())
        start = time.perf_counter()
        plain.run(inputs)
        calls.append(time.perf_counter() - start)
    least = (replace(same[0], seconds=min(s.seconds for s in same)) for same in zip(*runs, strict=True))
    return Profile(min(calls), tuple(least))
