"""Results of narrow floats that are computed from themselves, or read again: held in the dtype that sums are kept in, rounded at the end.

In: the equations of one call, as its kernel states them. Out: the same, in which no equation reads what was rounded on the way. Expressions
and tensors of an op's own are in accum(T) from the start (`expr`, `builder`); what is left is a result that other equations read
(`mean[()] = total[()] / n`), that updates add to (`y[at[i]] += x[i]`) or that the steps of a procedure do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anyshape.dtypes import accum
from anyshape.equations.expr import Read, Tensor
from anyshape.equations.program import Put, StepProgram, every, rounded_once, with_tensors
from anyshape.equations.traversal import reading, walk

if TYPE_CHECKING:
    from anyshape.equations.builder import Equation, Equations

ARITHMETIC = ("add", "sub", "mul")
"""Updates that compute; the others put elements, or choose one of two."""


def accumulate(eqs: Equations) -> None:
    """Puts a tensor of accum(T) in the place of every narrow result that equations read or add to; the result is its elements, rounded."""
    if not any(accum(q.target.dtype) is not q.target.dtype for q in eqs.equations):
        return
    used = {t for q in eqs.equations for t in _used(q)}
    narrow = {q.target: None for q in eqs.equations if q.target in used and accum(q.target.dtype) is not q.target.dtype}
    if not narrow:
        return
    wide = {t: eqs.scratch(f"{t.name}_wide", t.dtype, t.shape) for t in narrow}
    programs: dict[StepProgram, StepProgram] = {}
    eqs.equations = [_held(q, wide, programs) for q in eqs.equations]
    results = {t for o in eqs.outputs.values() for t in ([o] if isinstance(o, Tensor) else o)}
    for t in narrow:
        if t in results:
            index = eqs.indices("i", t.shape)
            eqs.define(t[index], wide[t][index])


def _used(q: Equation) -> Iterable[Tensor]:
    """The tensors whose elements an equation computes with: those that it reads or, in an update, adds to."""
    from anyshape.equations.builder import Run, Update

    yield from (e.tensor for part in q.expressions for e in walk(part) if isinstance(e, Read))
    if isinstance(q.form, Update) and q.form.op in ARITHMETIC:
        yield q.target
    if isinstance(q.form, Run):
        yield from (a.target for a in every(q.form.program.actions) if isinstance(a, Put) and a.op in ARITHMETIC)


def _held(q: Equation, wide: Mapping[Tensor, Tensor], programs: dict[StepProgram, StepProgram]) -> Equation:
    return reading_others(q, wide, programs, wide.get(q.target))


def reading_others(
    q: Equation,
    tensors: Mapping[Tensor, Tensor],
    programs: dict[StepProgram, StepProgram],
    target: Tensor | None = None,
) -> Equation:
    """The equation that reads other tensors in place of some; if there is a `target`, it defines that. `programs` are those that were
    restated before: equations share them."""
    from anyshape.equations.builder import Compaction, Run, Sorting, Update

    form, target = q.form, target or q.target
    if isinstance(form, Run):
        if form.program not in programs:
            programs[form.program] = with_tensors(form.program, tensors)
        form = Run(programs[form.program])
    if isinstance(form, (Compaction, Update)) and form.where is not None:
        form = replace(form, where=reading(form.where, tensors))
    value = reading(q.value, tensors)
    value = value if isinstance(form, Sorting) else rounded_once(value, target.dtype)  # a key is of its own dtype
    return replace(q, target=target, index=tuple(reading(i, tensors) for i in q.index), value=value, form=form)
