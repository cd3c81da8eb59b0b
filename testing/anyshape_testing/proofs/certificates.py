"""Judges certificates of exported models by z3: whether what a certificate's conditions say keeps each index in bounds.

In: the text of a certificate, as JSON. Out: a `CertificateJudgement`. Nothing but the file is read. Of each index that is not compared with
its dim it is judged

- that it is at least 0 and below its dim, over all integers, where the conditions of the kernel hold;
- that this is so in 64 bits. Sums, differences and products may overflow on the way, since a result modulo 2^64 is right if it fits; an
  operand of `//`, `%`, `min` or `max` has to fit, or the index has to be in bounds whatever the operand is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Atom, Dim, Size, exact_text, free_symbols, ge, lt, parse_cond, parse_dim, symbol
from anyshape_gen.bounds.terms import Claim, Literal, Truth
from anyshape_testing.proofs.judge import LIMIT, Answer, judge
from anyshape_testing.proofs.translation import LEAST, MOST, OfAnyOperands

FORMAT = 1
TESTED = frozenset({"pad", "end"})
"""Ways of keeping an index in bounds that are a comparison of the index itself."""


@dataclass(frozen=True)
class CertificateJudgement:
    """Answers on bounds over all integers, and on operands in 64 bits. `data`: claims that depend on numbers that only a run tells, which a
    certificate does not explain; `clamped`: operands that may overflow where the index is in bounds whatever they are. `notes` name each
    claim that is not simply true."""

    bounds: Counter[Answer] = field(default_factory=Counter)
    operands: Counter[Answer] = field(default_factory=Counter)
    data: int = 0
    clamped: int = 0
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.bounds[Answer.FALSE] and not self.operands[Answer.FALSE]

    def __add__(self, other: CertificateJudgement) -> CertificateJudgement:
        return CertificateJudgement(
            self.bounds + other.bounds,
            self.operands + other.operands,
            self.data + other.data,
            self.clamped + other.clamped,
            (*self.notes, *other.notes),
        )

    def __str__(self) -> str:
        answers = [f"{what}: {', '.join(f'{some[a]:,} {a}' for a in Answer)}" for what, some in self._counts().items()]
        return f"{'; '.join(answers)}; {self.data:,} of data; {self.clamped:,} operands clamped"

    def _counts(self) -> dict[str, Counter[Answer]]:
        return {"bounds": self.bounds, "operands in 64 bits": self.operands}


def judge_certificate(text: str, limit: int = LIMIT) -> CertificateJudgement:
    """Judges all kernels of a certificate. Raises ValueError for a text that is none."""
    certificate = json.loads(text)
    if certificate.get("anyshape certificate") != FORMAT:
        raise ValueError("the text is no certificate of this format")
    total, known = CertificateJudgement(), dict[Claim, Answer]()
    for kernel in _kernels(certificate):
        for index in kernel.indices():
            total = total + _Judging(limit, known).of(index)
    return total


@dataclass(frozen=True)
class _Judging:
    limit: int
    known: dict[Claim, Answer]

    def of(self, x: _Index) -> CertificateJudgement:
        bounds, operands, data, clamped, notes = Counter[Answer](), Counter[Answer](), 0, 0, list[str]()
        for claim in x.bounds:
            answer = Answer.TRUE if x.is_variable else self.answer(claim)
            if answer is Answer.FALSE and x.is_data:
                data += 1
                notes.append(f"{x.words}: it depends on numbers that only a run tells")
                continue
            bounds[answer] += 1
            if answer is not Answer.TRUE:
                notes.append(f"{x.words}: {answer}")
        for operand, claims in x.operands.items():
            answers = {self.answer(claim) for claim in claims}
            answer = Answer.TRUE if answers == {Answer.TRUE} else max(answers - {Answer.TRUE})
            if answer is not Answer.TRUE and self._is_clamped(x, operand):
                clamped += 1
                notes.append(
                    f"{x.words}: {exact_text(operand)} may not fit 64 bits; the index is in bounds whatever it is"
                )
                continue
            operands[answer] += 1
            if answer is not Answer.TRUE:
                notes.append(f"{x.words}: {exact_text(operand)} fits 64 bits: {answer}")
        return CertificateJudgement(bounds, operands, data, clamped, tuple(notes))

    def answer(self, claim: Claim) -> Answer:
        if claim not in self.known:
            self.known[claim] = judge(claim, self.limit).answer
        return self.known[claim]

    def _is_clamped(self, x: _Index, operand: Size) -> bool:
        if not isinstance(operand, Dim) or not any(operand in atom.args for atom in _atoms(x.index)):
            return False
        answers = [judge(claim, self.limit, OfAnyOperands([operand])).answer for claim in x.bounds]
        return all(a is Answer.TRUE for a in answers)


@dataclass(frozen=True)
class _Index:
    """The claims on one index: that it is in bounds, and for each operand in it that this fits 64 bits."""

    words: str
    index: Size
    bounds: tuple[Claim, ...]
    operands: Mapping[Size, tuple[Claim, ...]]
    is_variable: bool
    """Whether it is the variable of a loop over this very dim, of which nothing else has to be known"""
    is_data: bool


def _atoms(e: Size) -> Iterator[Atom]:
    """The atoms of a size, those of operands among them."""
    for monomial, _ in e.terms if isinstance(e, Dim) else ():
        for atom in monomial:
            yield atom
            for inner in atom.args:
                yield from _atoms(inner)


def _kernels(certificate: Mapping[str, Any]) -> Iterator[_Kernel]:
    for model in certificate["models"]:
        dims = _symbols(model["dims"])
        for program in model["programs"]:
            numbers = _symbols(program["numbers"])
            passed = [*dims.values(), *numbers.values()]
            for kernel in program["kernels"]:
                yield _Kernel(kernel, program["conditions"], {**dims, **numbers}, frozenset(numbers.values()), passed)


def _symbols(declared: Mapping[str, Mapping[str, int]]) -> dict[str, Dim]:
    return {name: symbol(name, bounds.get("low"), bounds.get("high")) for name, bounds in declared.items()}


@dataclass(eq=False)
class _Kernel:
    """The claims of one kernel."""

    kernel: Mapping[str, Any]
    conditions: Sequence[Mapping[str, Any]]
    scope: dict[str, Size]
    numbers: frozenset[Dim]
    passed: Sequence[Dim]

    def __post_init__(self) -> None:
        self.scope = {**self.scope, **{name: symbol(name, 0) for name in self.kernel["variables"]}}
        self.ends = {self._size(name): self._size(end) for name, end in self.kernel["variables"].items()}
        self.tested = {self._size(name): self._size(end) for name, end in self.kernel["tested"].items()}
        of_kernel = [self.conditions[k] for k in self.kernel["conditions"]]
        self.held = [parse_cond(c["holds"], self.scope) for c in of_kernel if "holds" in c]
        self.fitting = [*self._fitting_buffers(), *self._fitting_sizes()]

    def _size(self, text: str) -> Size:
        return parse_dim(text, self.scope)

    def _fitting_buffers(self) -> Iterator[tuple[Literal, ...]]:
        """Demands that the elements of a tensor are no more than its bytes, which fit 63 bits, and so are dims of one that is not empty."""
        for b in self.kernel["buffers"]:
            shape = [self._size(n) for n in b["dims"]]
            empty = [Literal(n, True) for n in shape]
            count: Size = b["itemsize"] or 1
            for n in shape:
                count = count * n
                yield (*empty, Literal(MOST - n * (b["itemsize"] or 1)))
            yield (Literal(MOST - count),)

    def _fitting_sizes(self) -> Iterator[tuple[Literal, ...]]:
        """Demands that sizes which kernels take fit 64 bits, and what callers pass and runs read."""
        sizes = [self._size(text) for text in self.kernel["sizes"]["fit 64 bits"]]
        for n in (*sizes, *self.passed):
            yield (Literal(MOST - n),)
            yield (Literal(n - LEAST),)

    def indices(self) -> Iterator[_Index]:
        for a in self.kernel["accesses"]:
            for axis in a["axes"]:
                if axis["by"] not in TESTED:
                    yield self._index(a, axis)

    def _index(self, a: Mapping[str, Any], axis: Mapping[str, Any]) -> _Index:
        index, dim = self._size(axis["index"]), self._size(axis["below"])
        loops = [self._size(v) for v in a.get("loops", ())]
        known = {
            **{v: self.ends[v] for v in loops},
            **{s: n for s, n in self.tested.items() if s in free_symbols(index)},
        }
        facts = [*self.held, *(c for v, end in known.items() for c in (ge(v, 0), lt(v, end)))]
        facts += [parse_cond(c, self.scope) for c in a.get("where", ())]
        bounds = tuple(_claim(p, facts) for p in (index, dim - index - 1))
        operands = {
            e: tuple(_claim(p, facts, self.fitting) for p in (e - LEAST, MOST - e))
            for e in map(self._size, axis.get("operands", ()))
        }
        symbols = free_symbols(index) | free_symbols(dim)
        symbols |= {s for v in symbols if v in known for s in free_symbols(known[v])}
        words = f"{self.kernel['kernel']}: {a['kind']} of {a['tensor']} at {axis['index']} below {axis['below']}"
        return _Index(
            words, index, bounds, operands, index in known and known[index] is dim, bool(symbols & self.numbers)
        )


def _claim(p: Size, facts: Sequence[Truth], clauses: Sequence[tuple[Literal, ...]] = ()) -> Claim:
    return Claim((Literal(p),), tuple(dict.fromkeys(c for c in facts if c is not True)), tuple(clauses))
