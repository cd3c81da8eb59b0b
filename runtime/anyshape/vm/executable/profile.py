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
from anyshape.policies import PolicyArgument, size_policy
from anyshape.public import edge
from anyshape.vm.compiling.options import CompileOptions
from anyshape.vm.executable.entry import compile
from anyshape.vm.executable.executable import Executable
from anyshape.vm.report.size_variants import SizeVariant
from anyshape.vm.run.recorder import Recorder, Sample

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a call. `call`: seconds of the whole call, as users run it; `samples`: of its kernels, in the order in which they ran;
    `policy`, if there is one: its name, and the code that it had run the call with what that gained."""

    call: float
    samples: tuple[Sample, ...]
    policy: str = ""

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
    policy: PolicyArgument = None,
    **options: Unpack[CompileOptions],
) -> Profile:
    """Times each kernel, and the call; of `repeat` calls the least time counts. `model`, `dims`, `policy` and `options` are those of
    `compile`, but that a saved model is refused; with a policy, calls come first until its code for these sizes is there. Raises what
    compiling the model or calling it raises."""
    if not 1 <= repeat <= MOST_CALLS:
        raise ArgumentError(f"profile: repeat must be a number of calls, from 1 to {MOST_CALLS}, got {repeat}")
    if isinstance(model, str | os.PathLike) and is_saved(model):
        raise ArgumentError(f"{os.fspath(model)} is a saved model; profile the ONNX model from which it was compiled")
    recorder = Recorder()
    recording = options.copy()
    recording["recorder"] = recorder
    plain = compile(model, dims, policy=policy, **options)
    used = _warmed(plain, inputs, size_policy(policy).hot)
    recorded = compile(plain.function.specialize(**used.bounds if used is not None else {}), **recording)
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
    code = f"variant for {used}" if used is not None else "the program for all sizes"
    return Profile(min(calls), tuple(least), f"{plain.report.policy}: {code}" if plain.report.policy else "")


def _warmed(exe: Executable, inputs: Mapping[str, Array], hot: int) -> SizeVariant | None:
    """The variant that runs calls of these inputs, once it is compiled; None for the program for all sizes."""
    variants = exe.report.variants
    for _ in range(max(hot, 1) if exe.report.policy else 1):
        exe.run(inputs)
    exe.wait()
    if variants:
        exe.run(inputs)
    return next((v for v in variants if v.own), None)
