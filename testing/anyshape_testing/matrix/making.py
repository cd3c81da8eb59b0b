"""Generates an op of the matrix in memory from the text of its spec, to be tested like an op of a package, or to replace one as a mutant.

In: the YAML text of a file with one op. Out: its OpDefs and its Property. No file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import anyshape
from anyshape.errors import SpecError
from anyshape.graph.opdef import OpDef
from anyshape.properties import Property
from anyshape.vm.compiling.options import Kernels
from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.memo import Memo
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES
from anyshape_testing.execution import native
from anyshape_testing.execution.native import Cached
from anyshape_testing.laws import executors, parts, sequences
from anyshape_testing.mutation.making import Workshop, in_place, load

T = TypeVar("T")
SPECS = Path("specs")
"""The folder of the ops that compositions call"""
FILE = "matrix.yaml"


CACHES: Sequence[tuple[Any, str]] = (
    (native, "_compiled"),
    (executors, "_executables"),
    (sequences, "_compiled"),
    (parts, "_kernels"),
)
"""Caches of programs that laws compile, whose keys have names of ops"""


def _memories() -> tuple[Any, ...]:
    """Makes empty CACHES."""
    return Cached(400), Cached(200), Cached(100), {}


@dataclass(frozen=True)
class GeneratedOp:
    """One op: its variants, and its property. `kernels`: how its programs are run. `memories`: CACHES with its programs."""

    name: str
    defs: tuple[OpDef, ...]
    property: Property
    kernels: Kernels = "native"
    memories: tuple[Any, ...] = field(default_factory=_memories)

    def interpreted(self) -> GeneratedOp:
        """Returns the op with programs that are interpreted."""
        return replace(self, kernels="interpret", memories=_memories())

    def of(self, op: OpDef) -> OpDef:
        """Returns this op's variant of the same name; any other op unchanged."""
        return next((d for d in self.defs if d.full_name == op.full_name), op)

    def on(self, f: Callable[..., T]) -> Callable[..., T]:
        """Wraps a function such that it sees this op in place of the one of the same name: in the registry, in its arguments and in
        CACHES."""

        def run(*args: Any, **named: Any) -> T:
            with self.in_place():
                return f(*(self.of(a) if isinstance(a, OpDef) else a for a in args), **named)

        return run

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(in_place(self.defs))
            for (module, name), memory in zip(CACHES, self.memories, strict=True):
                stack.enter_context(patch.object(module, name, memory))
            if self.kernels != "native":
                stack.enter_context(patch.object(anyshape, "compile", partial(anyshape.compile, kernels=self.kernels)))
            yield


@cache
def make(text: str, name: str, among_others: bool = False) -> GeneratedOp:
    """Generates an op. `among_others`: it calls ops of the package. Raises SpecError where the generator refuses the spec."""
    analysis = analyse({FILE: text, **_neighbours()}, False, _memo()) if among_others else analyse({FILE: text}, False)
    workshop = Workshop(analysis)
    spec = workshop.specs[name]
    code = workshop.generate(spec)
    if code is None:
        raise SpecError(f"{name}: the generator refuses it")
    return GeneratedOp(name, load(spec, code), workshop.property_of(name))


@cache
def _memo() -> Memo:
    return Memo.standard()


@cache
def _neighbours() -> Mapping[str, str]:
    return read_specs(SPECS.glob("*.yaml"))


@contextmanager
def under_test(op: GeneratedOp) -> Iterator[None]:
    """Registers the op for laws, and puts it in place of the one of the same name."""
    PROPERTIES[op.name], PACKAGES[op.name] = op.property, "anyshape_ops"
    try:
        with op.in_place():
            yield
    finally:
        del PROPERTIES[op.name], PACKAGES[op.name]


__all__ = ["GeneratedOp", "make", "under_test"]
