"""Judges certificates of exported models by z3: whether what a certificate's conditions say keeps each index in bounds.

In: the text of a certificate, as JSON. Out: a `CertificateJudgement`. Nothing but the file is read. Of each index that no test of its own
keeps in bounds it is judged

- that it is at least 0 and below its dim, over all integers, where the program's entry checks and the conditions of the kernel hold;
- that the operands of `//`, `%`, `min`, `max` and of comparisons in it fit 64 bits. Sums, differences and products may overflow on the way,
  since a result modulo 2^64 is right if the result fits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Cond, Dim, Size, eq, exact_text, free_symbols, ge, le, lt, or_, parse_cond, parse_dim, symbol
from anyshape_gen.bounds.terms import Claim, Literal, Truth
from anyshape_testing.proofs.judge import MILLISECONDS, Answer, judge

FORMAT = 1
LEAST, MOST = -(1 << 63), (1 << 63) - 1
TESTED = frozenset({"pad", "end"})
"""Ways of keeping an index in bounds that are a comparison of the index itself."""


@dataclass(frozen=True)
class CertificateJudgement:
    """Answers by what is judged. `rest`: claims that depend on numbers that only a run tells, which a certificate does not explain; `notes`
    name each claim that is not true."""

    bounds: Counter[Answer] = field(default_factory=Counter)
    overflow: Counter[Answer] = field(default_factory=Counter)
    rest: int = 0
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.bounds[Answer.FALSE] and not self.overflow[Answer.FALSE]


def judge_certificate(text: str, milliseconds: int = MILLISECONDS) -> CertificateJudgement:
    """Judges all kernels of a certificate. Raises ValueError for a text that is none."""
    certificate = json.loads(text)
    if certificate.get("anyshape certificate") != FORMAT:
        raise ValueError("the text is no certificate of this format")
    bounds, overflow, rest, notes = Counter[Answer](), Counter[Answer](), 0, list[str]()
    judged: dict[tuple[Claim, bool], Answer] = {}
    for kernel in _kernels(certificate):
        for claim, is_overflow, words in kernel.claims():
            key = (claim, is_overflow)
            if key not in judged:
                judged[key] = judge(claim, milliseconds).answer
            answer = judged[key]
            if answer is Answer.FALSE and kernel.depends_on_data(claim):
                rest += 1
                notes.append(f"{words}: it depends on numbers that only a run tells")
                continue
            (overflow if is_overflow else bounds)[answer] += 1
            if answer is not Answer.TRUE:
                notes.append(f"{words}: {answer}")
    return CertificateJudgement(bounds, overflow, rest, tuple(dict.fromkeys(notes)))


def _kernels(certificate: Mapping[str, Any]) -> Iterator[_Kernel]:
    for model in certificate["models"]:
        dims = _symbols(model["dims"])
        for program in model["programs"]:
            numbers = _symbols(program["numbers"])
            for kernel in program["kernels"]:
                yield _Kernel(kernel, program["conditions"], {**dims, **numbers}, frozenset(numbers.values()))


def _symbols(declared: Mapping[str, Mapping[str, int]]) -> dict[str, Dim]:
    return {name: symbol(name, bounds.get("low"), bounds.get("high")) for name, bounds in declared.items()}


@dataclass(eq=False)
class _Kernel:
    """The claims of one kernel."""

    kernel: Mapping[str, Any]
    conditions: Sequence[Mapping[str, Any]]
    scope: dict[str, Size]
    numbers: frozenset[Dim]

    def __post_init__(self) -> None:
        self.scope = {**self.scope, **{name: symbol(name, 0) for name in self.kernel["variables"]}}
        self.ranges = {name: self._below(name, end) for name, end in self.kernel["variables"].items()}
        self.tested = {self._size(name): self._below(name, end) for name, end in self.kernel["tested"].items()}
        self.variables = {self._size(name) for name in self.kernel["variables"]}
        self.held = [parse_cond(c["holds"], self.scope) for c in self.conditions if self._is_held(c)]
        self.fitting = [*self._fitting_buffers(), *self._fitting_sizes()]

    def _is_held(self, c: Mapping[str, Any]) -> bool:
        demanded = c["established"] == "entry check" or c["number"] in self.kernel["conditions"]
        return "holds" in c and demanded

    def _size(self, text: str) -> Size:
        return parse_dim(text, self.scope)

    def _below(self, name: str, end: str) -> list[Truth]:
        return [ge(self._size(name), 0), lt(self._size(name), self._size(end))]

    def _fitting_buffers(self) -> Iterator[Truth]:
        """Bounds of the dims of tensors whose bytes fit 63 bits: of a tensor that is not empty, no dim is more."""
        for b in self.kernel["buffers"]:
            shape = [self._size(n) for n in b["dims"]]
            for n in shape:
                yield or_(*(eq(other, 0) for other in shape), le(n * max(b["itemsize"], 1), MOST))

    def _fitting_sizes(self) -> Iterator[Truth]:
        for text in self.kernel["sizes"]["fit 64 bits"]:
            yield le(self._size(text), MOST)
            yield ge(self._size(text), LEAST)

    def depends_on_data(self, claim: Claim) -> bool:
        return any(free_symbols(part.p) & self.numbers for part in claim.literals)

    def claims(self) -> Iterator[tuple[Claim, bool, str]]:
        """Claims, whether each is about overflow, and words for it."""
        for a in self.kernel["accesses"]:
            for axis in a["axes"]:
                if axis["by"] not in TESTED:
                    yield from self._axis(a, axis)

    def _axis(self, a: Mapping[str, Any], axis: Mapping[str, Any]) -> Iterator[tuple[Claim, bool, str]]:
        index, dim = self._size(axis["index"]), self._size(axis["below"])
        where = [parse_cond(c, self.scope) for c in a.get("where", ())]
        facts: list[Truth] = [*self.held, *(c for v in a.get("loops", ()) for c in self.ranges[v]), *where]
        for s, tested in self.tested.items():
            if {s} & free_symbols(index):
                facts += tested
        words = f"{self.kernel['kernel']}: {a['kind']} of {a['tensor']} at {axis['index']} below {axis['below']}"
        for literal in (Literal(index), Literal(dim - index - 1)):
            yield _claim(literal, facts), False, words
        for operand in self._operands([index, *where]):
            for literal in (Literal(operand - LEAST), Literal(MOST - operand)):
                yield _claim(literal, [*facts, *self.fitting]), True, f"{words}: {exact_text(operand)} in 64 bits"

    def _operands(self, roots: Sequence[Any]) -> list[Size]:
        """Operands, which the kernel computes, of operations whose result would be another one modulo 2^64."""
        operands: dict[Size, None] = {}
        left = list(roots)
        while left:
            e = left.pop()
            if isinstance(e, Cond):
                left += e.args
                operands.update(dict.fromkeys(p for p in e.args if isinstance(p, Dim)))
            elif isinstance(e, Dim):
                inner = [p for monomial, _ in e.terms for atom in monomial for p in atom.args]
                left += inner
                operands.update(dict.fromkeys(p for p in inner if isinstance(p, Dim)))
        computed = {*self.variables, *self.tested, *self.numbers}
        return [p for p in operands if free_symbols(p) & computed]


def _claim(literal: Literal, facts: Sequence[Truth]) -> Claim:
    return Claim((literal,), tuple(dict.fromkeys(c for c in facts if c is not True)))
