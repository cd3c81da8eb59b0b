"""Tries a cell of the matrix: one law on one small op in one class of dtypes must hold of the correct op, and fail for each wrong one.

In: a `Cell`. Out: findings; none where the law does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

from anyshape.errors import SpecError
from anyshape_testing.matrix.forms import ANY, Edit, Form, forms
from anyshape_testing.matrix.making import GeneratedOp, make, under_test
from anyshape_testing.matrix.sides import Side
from anyshape_testing.matrix.table import CALLS, LAWS, USUAL, Law
from anyshape_testing.process.profile import load_profile
from anyshape_testing.running.accounting import WeakLaw

MOVING = "9"
"""The law that is about ops on any dtype, the only ones that are known to move strings"""

GRADIENTS, DOUBLE = "10", "f32 f64"
"""The law that is tried in f64 only, and the class of dtypes with f64"""


@dataclass(frozen=True)
class Cell:
    """A law on a form in a class of dtypes; `form` and `law` are names."""

    form: str
    dtypes: str
    law: str

    @property
    def kind(self) -> str:
        return forms()[self.form].kind

    def __str__(self) -> str:
        return f"law {self.law} of {self.form}, {'strings' if self.dtypes == ANY else self.dtypes}"


@dataclass(frozen=True)
class Finding:
    """A failure of a law in a cell. `edit`: what is wrong in the spec; empty for the correct one."""

    cell: Cell
    edit: str
    why: str

    def __str__(self) -> str:
        return f"{self.cell}, {self.edit or 'the right op'}: {self.why}"


def edits(form: Form, dtypes: str, law: Law) -> list[Edit]:
    """Lists the edits of a form that the law is meant to notice."""
    return [e for e in form.edits if e.group in law.notices and law.name not in e.left_out and dtypes not in e.not_of]


def tries(cell: Cell) -> int:
    """Counts the wrong ops that the law has to notice, on each of its sides."""
    law = LAWS[cell.law]
    return sum(len(law.notices[e.group]) for e in edits(forms()[cell.form], cell.dtypes, law)) + len(law.once)


def cells() -> Iterator[Cell]:
    """Yields all cells, form by form."""
    for form in forms().values():
        for dtypes in (*form.classes, *((ANY,) if form.takes_any else ())):
            laws = [law for law in _laws_of(form, dtypes) if edits(form, dtypes, law)]
            yield from (Cell(form.name, dtypes, law.name) for law in laws if law.name != GRADIENTS or dtypes == DOUBLE)


@cache
def _laws_of(form: Form, dtypes: str) -> list[Law]:
    """Lists the laws that apply to the form's op in this class of dtypes: narrow floats are accumulated by another kernel, for example."""
    with under_test(right(form, dtypes)):
        candidates = [
            law for law in LAWS.values() if (law.name == MOVING) == (dtypes == ANY) and law.name not in form.silent
        ]
        return [law for law in candidates if law.silent(form.op(dtypes)) is None]


def right(form: Form, dtypes: str) -> GeneratedOp:
    return make(form.spec(dtypes), form.op(dtypes), form.composes)


def tried(cell: Cell) -> list[Finding]:
    """Tries a cell: a finding where the law fails for the correct op, and for each wrong op that it does not notice."""
    form, law = forms()[cell.form], LAWS[cell.law]
    op = right(form, cell.dtypes)
    problem = _does_not_hold(law, op)
    findings = [Finding(cell, "", problem)] if problem else []
    missed: dict[Side, int] = dict.fromkeys(law.once, 0)
    required = edits(form, cell.dtypes, law)
    for edit in required:
        label = f"{edit.group}, {edit.name}"
        try:
            wrong = make(form.spec(cell.dtypes, edit), op.name, form.composes)
        except SpecError as e:
            findings.append(Finding(cell, label, f"cannot be generated: {e}"))
            continue
        for number, side in enumerate(law.notices[edit.group]):
            why = _not_noticed(law, wrong, nullcontext()) if side is None else _not_noticed(law, op, side(wrong))
            if why:
                findings.append(Finding(cell, label if number == 0 else f"{label}, side {number + 1}", why))
        for side in missed:
            missed[side] += bool(_not_noticed(law, op, side(wrong)))
    never = sum(n == len(required) for n in missed.values())
    return [*findings, *([Finding(cell, "anything", "is not noticed where it is looked for rarely")] if never else [])]


def _does_not_hold(law: Law, op: GeneratedOp) -> str:
    said: dict[str, Any] = {}
    for calls in (CALLS, USUAL):
        load_profile(calls, shrink=False)
        try:
            with under_test(op):
                law.run(op.name, said.__setitem__)
        except Exception as e:  # any error means that the law does not hold
            return f"does not hold: {_words(e)}"
        if said["accepted"] >= law.least:
            return ""
    return f"speaks of {said['accepted']} calls, and not of {law.least}"


def _not_noticed(law: Law, op: GeneratedOp, side: AbstractContextManager[Any]) -> str:
    """Tries a law on a wrong op, with a few calls and then with more; returns why it is not noticed, or an empty text."""
    with under_test(op), side:
        for calls in (CALLS, USUAL):
            load_profile(calls, shrink=False)
            try:
                law.run(op.name, lambda key, value: None)
            except WeakLaw as e:
                return f"is hardly tried: {_words(e)}"
            except law.errors:
                return ""
            except Exception as e:
                return f"raises no AssertionError: {_words(e)}"
    return "is not noticed"


def _words(e: Exception) -> str:
    return f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"


def silence(form: Form, law: Law) -> str:
    """Says why the law has no cell with the form, by the definition of its op."""
    with under_test(right(form, DOUBLE)):
        return law.silent(form.op(DOUBLE)) or "no edit of it is one that the law could notice"
