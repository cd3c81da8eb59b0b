"""Certificate of an exported model: for each kernel the conditions under which all its accesses are in bounds, and where each is tested.

In: the programs of a model, analysed. Out: a `Certificate`, as data for JSON. Its sizes are texts of `anyshape.dims` over the dims of the
caller; they are computed by running the same instructions on symbols that `NAME_check` and `NAME_run` are made of. What it claims can be
judged by anyone who reads it: that each index is at least 0 and below its dim where the conditions hold, over all integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Any

from anyshape.dims import Cond, Dim, Size, bounds, exact_text, free_symbols, ge, substitute, symbol
from anyshape.graph.value import Node, Value
from anyshape.types import TensorType
from anyshape.vm.export.access_terms import AccessTerms
from anyshape.vm.export.accesses import Axis, By, KernelAccess, accesses
from anyshape.vm.export.entry_knowledge import EntryKnowledge, KnownInstruction
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.register_values import Content, number_of, run_values, truth_of
from anyshape.vm.program.invocation import Invocation
from anyshape.vm.program.table import Op
from anyshape.vm.report.causes import named

FORMAT = 1
INTEGERS = (
    "Sizes and indices are unbounded integers here. Every size that a kernel takes and the bytes of every tensor are computed in checked "
    "64-bit arithmetic, and a call in which one does not fit ends before the kernel runs."
)


class Established(StrEnum):
    """The place at which a condition is established."""

    ENTRY = "entry check"
    """`NAME_check` and `NAME_run` test it before any kernel runs: dims decide it."""
    RULE = "shape rule"
    """The op's rule decided it for all sizes when the model was compiled."""
    RUN = "run-time test"
    """`NAME_run` tests it before the kernel runs: elements or branches decide it."""


@dataclass(frozen=True, slots=True)
class TestedCondition:
    """A condition that the exported code tests. `cond` is None where it is not on sizes that are known once. `word`: the instruction that
    tests it; `always`: whether every call does."""

    cond: Cond | None
    words: str
    _: KW_ONLY
    where: Established
    word: int = -1
    always: bool = True
    op: str = ""
    source: str = ""

    def precedes(self, step: KnownInstruction) -> bool:
        """Whether every call tests it before a step."""
        return self.always and self.word < step.word

    def data(self) -> dict[str, Any]:
        said = {"words": self.words, "established": self.where.value}
        holds = {} if self.cond is None else {"holds": exact_text(self.cond)}
        return {
            **holds,
            **said,
            **({"op": self.op} if self.op else {}),
            **({"source": self.source} if self.source else {}),
        }


@dataclass(frozen=True, slots=True)
class KernelBuffer:
    """A tensor in memory that a kernel reads or writes. `where` is established that its bytes fit 63 bits."""

    name: str
    dtype: str
    itemsize: int
    dims: tuple[Size, ...]
    where: Established

    def data(self) -> dict[str, Any]:
        shape = [exact_text(n) for n in self.dims]
        return {
            "name": self.name,
            "dtype": self.dtype,
            "itemsize": self.itemsize,
            "dims": shape,
            "bytes": self.where.value,
        }


@dataclass(frozen=True, slots=True)
class KernelCertificate:
    """`conditions`: numbers of the conditions that hold when the kernel runs: those on its sizes, and what its ops demand; `decided`: the
    number of demands that were decided when the model was compiled, which have no code."""

    name: str
    nodes: tuple[str, ...]
    _: KW_ONLY
    conditions: tuple[int, ...]
    decided: int
    buffers: tuple[KernelBuffer, ...]
    scalars: tuple[Size, ...]
    scalars_where: Established
    variables: dict[Dim, Size]
    tested: dict[Dim, Size]
    accesses: tuple[KernelAccess, ...]

    def symbols(self) -> Iterator[Dim]:
        sizes = [*self.scalars, *self.variables.values(), *self.tested, *self.tested.values()]
        sizes += [n for b in self.buffers for n in b.dims]
        sizes += [n for a in self.accesses for x in a.axes for n in (x.index, x.dim, *x.operands)]
        for e in (*sizes, *(c for a in self.accesses for c in a.where)):
            yield from free_symbols(e)

    def data(self) -> dict[str, Any]:
        return {
            "kernel": self.name,
            "nodes": list(self.nodes),
            "conditions": list(self.conditions),
            "decided": {"count": self.decided, "established": Established.RULE.value},
            "buffers": [b.data() for b in self.buffers],
            "sizes": {"established": self.scalars_where.value, "fit 64 bits": [exact_text(n) for n in self.scalars]},
            "variables": {exact_text(v): exact_text(n) for v, n in self.variables.items()},
            "tested": {exact_text(v): exact_text(n) for v, n in self.tested.items()},
            "accesses": [_access_data(a) for a in self.accesses],
        }


def _access_data(a: KernelAccess) -> dict[str, Any]:
    return {
        "tensor": a.tensor,
        "kind": "store" if a.is_store else "read",
        **({"equation": a.equation} if a.equation else {}),
        **({"loops": [exact_text(v) for v in a.loops]} if a.loops else {}),
        **({"where": [exact_text(c) for c in a.where]} if a.where else {}),
        "axes": [_axis_data(x) for x in a.axes],
    }


def _axis_data(x: Axis) -> dict[str, Any]:
    operands = {"operands": [exact_text(p) for p in x.operands]} if x.operands else {}
    return {"index": exact_text(x.index), "below": exact_text(x.dim), "by": x.by.value, **operands}


@dataclass(frozen=True, slots=True)
class ProgramCertificate:
    """`data_sizes`: the numbers that only a run tells."""

    title: str
    data_sizes: tuple[Dim, ...]
    conditions: tuple[TestedCondition, ...]
    kernels: tuple[KernelCertificate, ...]

    def data(self) -> dict[str, Any]:
        return {
            "program": self.title,
            "numbers": {exact_text(s): _bounds_data(s) for s in self.data_sizes},
            "conditions": [{"number": k, **c.data()} for k, c in enumerate(self.conditions)],
            "kernels": [k.data() for k in self.kernels],
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    interface: Interface
    target: str
    programs: tuple[ProgramCertificate, ...]

    def data(self) -> dict[str, Any]:
        return {
            "name": self.interface.name,
            "target": self.target,
            "integers": INTEGERS,
            "dims": {d.c_name: _bounds_data(symbol(d.c_name, 0)) for d in self.interface.dims},
            "programs": [p.data() for p in self.programs],
        }


def _bounds_data(s: Dim) -> dict[str, int]:
    low, high = bounds(s)
    return {**({} if low is None else {"low": low}), **({} if high is None else {"high": high})}


def certify(interface: Interface, target: str, knowledge: Sequence[EntryKnowledge]) -> Certificate:
    """Writes the certificate of the programs of a model: that for sizes of at least 1, and the one for all sizes where there is another."""
    titles = ("sizes of at least 1", "all sizes") if len(knowledge) > 1 else ("all sizes",)
    programs = [_Certification(interface, k).program(title) for title, k in zip(titles, knowledge, strict=True)]
    return Certificate(interface, target, tuple(programs))


@dataclass(eq=False)
class _Certification:
    """The certificate of one program."""

    interface: Interface
    known: EntryKnowledge
    data_sizes: list[Dim] = field(default_factory=list)
    values: dict[int, Content] = field(init=False)

    def __post_init__(self) -> None:
        self.values = run_values(self.known, self.interface, self._data)

    def _data(self, low: int | None, high: int | None) -> Dim:
        self.data_sizes.append(symbol(f"d{len(self.data_sizes)}", low, high))
        return self.data_sizes[-1]

    def program(self, title: str) -> ProgramCertificate:
        conditions = [*self._of_inputs(), *self._of_checks()]
        sizes = {s: n for i in self.known.program.notes.values() for s, n in self._sizes(i).items()}
        kernels = [
            self._kernel(step, conditions, sizes) for step in self.known.steps if step.op in (Op.INVOKE, Op.SHARE)
        ]
        used = {s for c in conditions if c.cond is not None for s in free_symbols(c.cond)}
        used |= {s for k in kernels for s in k.symbols()}
        return ProgramCertificate(
            title, tuple(s for s in self.data_sizes if s in used), tuple(conditions), tuple(kernels)
        )

    # --- conditions

    def _of_inputs(self) -> Iterator[TestedCondition]:
        """Yields conditions that no axis of an input is negative."""
        named = {d.symbol: symbol(d.c_name, 0) for d in self.interface.dims}
        for t in self.interface.inputs:
            for axis, n in enumerate(t.shape):
                holds = ge(substitute(n, named), 0) if isinstance(n, Dim) else True
                if isinstance(holds, Cond):
                    yield TestedCondition(holds, f"input {t.name}: dim {axis} is at least 0", where=Established.ENTRY)

    def _of_checks(self) -> Iterator[TestedCondition]:
        for step in self.known.steps:
            if step.op not in (Op.CHECK, Op.GUARD):
                continue
            held = truth_of(self.values[step["cond"]]) if step["cond"] in self.values else None
            if held is True:
                continue
            words, op, source = "else another program runs", "", ""
            if step.op is Op.CHECK:
                record = self.known.program.checks[step["check"]]
                words, op, source = record.equation, record.op, record.source
            yield TestedCondition(
                held if isinstance(held, Cond) else None,
                words,
                where=self._where(step, [step["cond"]]),
                word=step.word,
                always=step.always,
                op=op,
                source=source,
            )

    def _where(self, step: KnownInstruction, registers: Sequence[int]) -> Established:
        is_early = step.always and self.known.known.issuperset(registers)
        return Established.ENTRY if is_early else Established.RUN

    # --- kernels

    def _sizes(self, i: Invocation) -> dict[Dim, Size]:
        return {s: number_of(self.values[k]) for s, k in i.registers.items() if k in self.values}

    def _kernel(
        self, step: KnownInstruction, conditions: Sequence[TestedCondition], sizes: dict[Dim, Size]
    ) -> KernelCertificate:
        note = self.known.program.notes[step.word]
        terms = AccessTerms({**sizes, **self._sizes(note)}, self._data)
        listed = tuple(accesses(note.step.equations, terms))
        demanded = [self._demanded(n, conditions, terms) for n in note.step.nodes]
        scalars = step.operands[-2]
        assert isinstance(scalars, tuple)
        kernel = KernelCertificate(
            self.known.program.kernels[step["kernel"]].name,
            tuple(map(named, note.step.nodes)),
            conditions=(),
            decided=sum(k is None for some in demanded for k in some),
            buffers=tuple(self._buffer(step, note, v, terms) for v in (*note.step.inputs, *note.outputs)),
            scalars=tuple(dict.fromkeys(number_of(self.values[k]) for k in scalars if k in self.values)),
            scalars_where=self._where(step, scalars),
            variables=terms.variables,
            tested=terms.tested,
            accesses=listed,
        )
        before = _on_symbols(conditions, step, set(kernel.symbols()))
        before |= {k for some in demanded for k in some if k is not None and conditions[k].word < step.word}
        return replace(kernel, conditions=tuple(sorted(before)))

    def _demanded(self, node: Node, conditions: Sequence[TestedCondition], terms: AccessTerms) -> list[int | None]:
        """The numbers of the conditions that an op demands; None for one that the sizes of the program decide."""
        numbers: list[int | None] = []
        for check in node.checks:
            cond = terms.condition(check.cond)
            same = [k for k, c in enumerate(conditions) if c.cond is cond]
            alike = [k for k, c in enumerate(conditions) if (c.op, c.source) == (check.op, check.where)]
            numbers += [None] if cond is True else same[:1] or alike
        return numbers

    def _buffer(self, step: KnownInstruction, note: Invocation, v: Value, terms: AccessTerms) -> KernelBuffer:
        tensor = note.step.tensors[v]
        assert isinstance(v.type, TensorType)
        shape = tuple(terms.size(n) for n in tensor.shape)
        known = {symbol(d.c_name, 0) for d in self.interface.dims}
        is_early = step.always and all(free_symbols(n) <= known for n in shape)
        where = Established.ENTRY if is_early else Established.RUN
        return KernelBuffer(tensor.name, str(tensor.dtype), tensor.dtype.itemsize, shape, where)


def _on_symbols(conditions: Sequence[TestedCondition], step: KnownInstruction, symbols: set[Dim]) -> set[int]:
    """The numbers of the conditions tested before a step that are on these symbols, or on ones that such conditions relate to them."""
    left = {k: free_symbols(c.cond) for k, c in enumerate(conditions) if c.cond is not None and c.precedes(step)}
    related: set[int] = set()
    while reached := {k for k, some in left.items() if some & symbols}:
        related |= reached
        symbols = symbols.union(*(left.pop(k) for k in reached))
    return related


def totals(certificate: Certificate) -> dict[By, int]:
    """How many indices are kept in bounds by what."""
    counts = dict.fromkeys(By, 0)
    for p in certificate.programs:
        for k in p.kernels:
            for a in k.accesses:
                for axis in a.axes:
                    counts[axis.by] += 1
    return counts
