"""Knowledge of a program before it runs: which registers follow from the dims of its arguments alone, and what always runs.

In: a program. Out: `EntryKnowledge`, from which the functions that run no kernel are made: the arena's bytes, checks, shapes of results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anyshape.vm.export.registers import SCALAR_OPS
from anyshape.vm.program.table import InstructionOperand, Mode, Op, Program

_SOURCES = frozenset({Op.CONST, Op.DIM, Op.THREADS})
GROWING = frozenset({Op.REGION, Op.EXTEND, Op.STACK})
"""Instructions that demand memory of a region."""


@dataclass(frozen=True, slots=True)
class KnownInstruction:
    """An instruction. `always`: no jump leaves it out, and it runs once."""

    word: int
    op: Op
    operands: tuple[InstructionOperand, ...]
    always: bool

    def __getitem__(self, name: str) -> int:
        """The operand of that name, which is no list."""
        operand = self.op.named(self.operands)[name]
        assert isinstance(operand, int)
        return operand

    def registers(self) -> Iterator[int]:
        """The registers that are read."""
        return self._of(lambda mode: mode not in (Mode.WRITTEN, Mode.NUMBER))

    def needed(self) -> Iterator[int]:
        """The registers whose numbers must not be lost."""
        return self._of(lambda mode: mode in (Mode.NEEDED, Mode.LIST))

    def _of(self, has: Callable[[Mode], bool]) -> Iterator[int]:
        for p, o in zip(self.op.parameters, self.operands):
            if has(p.mode):
                yield from o if isinstance(o, tuple) else (o,)


@dataclass(frozen=True, slots=True)
class EntryKnowledge:
    """`known`: registers that dims alone decide."""

    program: Program
    steps: tuple[KnownInstruction, ...]
    known: frozenset[int]

    def scalars(self) -> Iterator[KnownInstruction]:
        """The instructions that give known registers their numbers."""
        for step in self.steps:
            if step.op in _SOURCES | SCALAR_OPS and step["d"] in self.known:
                yield step

    def is_known(self, step: KnownInstruction) -> bool:
        """Tests whether all that an instruction reads is known."""
        return self.known.issuperset(step.registers())

    def regions(self) -> dict[int, list[int]]:
        """Returns for each region the known sizes that it has to have at some time, as registers."""
        return {region: [k for k in sizes if k in self.known] for region, sizes in self.demands().items()}

    def demands(self) -> dict[int, list[int]]:
        """Returns for each region all sizes that are demanded of it, as registers. Regions that are swapped have the same."""
        same = list(range(self.program.regions))
        for step in self.steps:
            if step.op is Op.SWAP:
                a, b = same[step["one"]], same[step["other"]]
                same = [a if s == b else s for s in same]
        sizes: dict[int, list[int]] = {s: [] for s in same}
        for step in self.steps:
            if step.op in GROWING and step["size"] not in sizes[same[step["region"]]]:
                sizes[same[step["region"]]].append(step["size"])
        return {region: sizes[s] for region, s in enumerate(same)}

    def varying(self) -> list[KnownInstruction]:
        """The instructions whose demand of memory only a run tells."""
        return [step for step in self.steps if step.op in GROWING and step["size"] not in self.known]


def analyse(program: Program) -> EntryKnowledge:
    """Finds what the dims of the arguments decide: a register that one instruction writes, of registers that they decide."""
    listed = list(program.instructions())
    spans = [(at, o) for at, op, operands in listed for p, o in zip(op.parameters, operands) if p.of == "word"]
    jumps = [(min(at, to), max(at, to)) for at, to in spans if isinstance(to, int)]
    steps = tuple(
        KnownInstruction(at, op, operands, not any(first < at < last for first, last in jumps))
        for at, op, operands in listed
    )
    writers = Counter(step["d"] for step in steps if step.op.writes)
    known: set[int] = set()
    for step in steps:
        if step.op in _SOURCES | SCALAR_OPS and writers[step["d"]] == 1 and known.issuperset(step.registers()):
            known.add(step["d"])
    return EntryKnowledge(program, steps, frozenset(known))
