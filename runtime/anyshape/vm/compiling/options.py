"""Options of a compile and of debugging, in one typed place.

In: keyword arguments of `anyshape.compile` and the environment (ANYSHAPE_TARGET, ANYSHAPE_KERNELS, ANYSHAPE_LOOP, ANYSHAPE_DUMP,
ANYSHAPE_VERIFY, ANYSHAPE_THREADS). Out: one frozen `Options` that the rest of the VM reads; beside it only `run/policies.py` looks at the
environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args, get_type_hints

from anyshape.errors import ArgumentError
from anyshape.precision import NARROW, PRECISIONS, Narrow, Precision, Within
from anyshape.public import fits, short, spell
from anyshape.vm.native import MOST_THREADS
from anyshape.vm.run.memory_budget import byte_count
from anyshape.vm.run.policies import policies_left_out

if TYPE_CHECKING:
    from anyshape.vm.run.recorder import Recorder

Stage = Literal["graph", "schedule", "program", "llvm", "asm"]
Kernels = Literal["native", "interpret"]
LoopName = Literal["native", "python"]
ExecutorName = Literal["vm", "graph"]
TargetName = Literal["host", "amx", "fp16", "avx512", "avx512f", "avxvnni", "avx2", "sse"]
STAGES, KERNELS, LOOPS, EXECUTORS, TARGETS = map(get_args, (Stage, Kernels, LoopName, ExecutorName, TargetName))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a compile. `executor`: "graph" refuses a model of which any type is not fully static. `target`: this machine, or less of
    it. `kernels`: machine code, or the slow interpreter of equations. `fuse`: off makes one kernel per node.
    `loop`: the executor of programs, the native loop or Python (which interpreted kernels always use).
    `dump`: stages printed to stderr. `verify`: check the graph's invariants between stages. `repair`: an ONNX model that the
    standard refuses is taken for what it most likely means, and the report says how. `threads`: how many may work on one kernel, at most
    and by default (0) as many as this process may use processors; results do not depend on it. `growth`: the most by which an algorithm
    with fewer products may multiply the bound of rounding errors, 0 for none (docs/lowering.md). `precision`: "bf16" and "f16" round
    what contractions of f32 multiply to that dtype, and nothing else, "f16-chunked" lets them add up in it, too (docs/precision.md), but in
    `exact_nodes`, as `Report.narrowed` names them.
    `max_memory`: the most bytes that a call may need for intermediate values and results. `recorder`: the recorder of kernels, for
    `profile`."""

    executor: str = "vm"
    target: str = "host"
    kernels: str = "native"
    loop: str = "native"
    fuse: bool = True
    dump: frozenset[str] = frozenset()
    verify: bool = False
    repair: bool = False
    threads: int = 0
    growth: float = 16.0
    max_memory: int | None = None
    precision: str = "exact"
    exact_nodes: tuple[str, ...] = ()
    recorder: Recorder | None = None
    dims: Mapping[str, Any] = field(default_factory=dict)

    @property
    def narrow(self) -> Narrow | None:
        """The precision, if it rounds factors."""
        return next((p for p in NARROW if p == self.precision), None)

    def show(self, stage: str, title: str, text: object) -> None:
        """Prints a stage if asked for."""
        if stage in self.dump:
            print(f"=== {stage}: {title}\n{text}", file=sys.stderr)


class CompileOptions(TypedDict, total=False):
    """Keywords of `compile` and of all that passes them on to it, one for each field of `Options` but `dims`; None is as if absent."""

    executor: ExecutorName | None
    target: TargetName | None
    kernels: Kernels | None
    loop: LoopName | None
    fuse: bool | None
    dump: Collection[Stage] | None
    verify: bool | None
    repair: bool | None
    threads: int | None
    growth: float | None
    max_memory: int | str | None
    precision: Precision | Within | None
    exact_nodes: Sequence[str] | None
    recorder: Recorder | None


class ExecutionOptions(TypedDict, total=False):
    """Keywords of `Executable.by`: options that decide how programs run."""

    loop: LoopName | None
    threads: int | None
    max_memory: int | str | None


def from_environment() -> Options:
    """Reads the options of the environment. Raises ArgumentError for a value that no option has, and for a policy that there is not."""
    policies_left_out()
    dump = frozenset(s for s in os.environ.get("ANYSHAPE_DUMP", "").split(",") if s)
    options = Options(
        target=os.environ.get("ANYSHAPE_TARGET", "host"),
        kernels=os.environ.get("ANYSHAPE_KERNELS", "native"),
        loop=os.environ.get("ANYSHAPE_LOOP", "native"),
        dump=dump,
        verify=os.environ.get("ANYSHAPE_VERIFY", "0") not in ("", "0"),
        threads=_number(os.environ.get("ANYSHAPE_THREADS", "0")),
    )
    return checked(options)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentError(f"ANYSHAPE_THREADS must be a number, got {text!r}") from None


def make_options(arguments: Mapping[str, Any]) -> Options:
    """Reads the options of the environment and puts the caller's in their place. Raises ArgumentError for an unknown one."""
    names = [f.name for f in fields(Options)]
    unknown = sorted(set(arguments) - set(names))
    if unknown:
        raise ArgumentError(f"compile has no option {', '.join(unknown)}; there are {', '.join(names)}")
    said = {k: v for k, v in arguments.items() if v is not None}
    if fits(said.get("dump"), set[str] | list[str] | tuple[str, ...]):
        said["dump"] = frozenset(said["dump"])
    if isinstance(text := said.get("max_memory"), str):
        said["max_memory"] = _bytes(text)
    if fits(said.get("exact_nodes"), list[str]):
        said["exact_nodes"] = tuple(said["exact_nodes"])
    return checked(replace(from_environment(), **said))


def _bytes(text: str) -> int:
    number = byte_count(text)
    if number is None:
        raise ArgumentError(f"max_memory must be a number of bytes, as 64MB or 512KiB, got {short(text)}")
    return number


@cache
def _hints() -> dict[str, Any]:
    from anyshape.vm.run.recorder import Recorder

    return get_type_hints(Options, localns={"Recorder": Recorder})


def checked(options: Options) -> Options:
    for f in fields(Options):
        if not fits(value := getattr(options, f.name), _hints()[f.name]):
            raise ArgumentError(f"{f.name} must be {spell(_hints()[f.name])}, got {short(value)}")
    named = {"kernels": KERNELS, "loop": LOOPS, "executor": EXECUTORS, "target": TARGETS, "precision": PRECISIONS}
    for name, allowed in named.items():
        if getattr(options, name) not in allowed:
            raise ArgumentError(f"{name} must be one of {', '.join(allowed)}, got {getattr(options, name)!r}")
    if not 0 <= options.threads <= MOST_THREADS:
        demand = f"a number from 1 to {MOST_THREADS}, or 0 for all processors"
        raise ArgumentError(f"threads must be {demand}, got {options.threads!r}")
    if options.max_memory is not None and options.max_memory <= 0:
        raise ArgumentError(f"max_memory must be at least 1 byte, got {options.max_memory!r}")
    if not options.growth >= 0:
        raise ArgumentError(f"growth must be at least 0, got {options.growth!r}")
    strange = sorted(options.dump - set(STAGES))
    if strange:
        raise ArgumentError(f"cannot dump {', '.join(strange)}; stages are {', '.join(STAGES)}")
    return options
