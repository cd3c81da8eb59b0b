"""Iterations of a reduction that add nothing: where a padded read is outside its tensor, or a condition on positions does not
hold, which may compare them with what is read, as with the ends of a part of a vector.

In: a reduction of the graph. Out: affine forms; where one is below zero, the iteration contributes the neutral element. So a window of any
extent need not be walked over what lies outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from anyshape.dims import Size
from anyshape.dtypes import I64
from anyshape.equations.numeric import compute
from anyshape.lower.ir.dag import Affine, Constant, DagNode, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.ir.padded import conjuncts, index_of

LEAST = 256
"""Iterations that are run without a test of which are needed: the test would cost more."""

Guards = frozenset[Affine]
_NONE: Guards = frozenset()


def empty_loop_guards(r: Reduction) -> Guards:
    """Affine forms of which one below zero says that the reduction's body is its neutral element."""
    outside = _Outside().of(r.body)
    return outside[1] if outside is not None and outside[0] == neutral(r.kind, r.body.dtype) else _NONE


def is_long(variables: Iterable[LoopVar]) -> bool:
    """Whether loops over all of the variables have more iterations than are run without a test, or a number that is not known."""
    extents = [v.extent for v in variables]
    return bool(extents) and not (
        all(isinstance(n, int) for n in extents) and math.prod(n for n in extents if isinstance(n, int)) <= LEAST
    )


def is_cut(reductions: Iterable[Reduction], variables: Sequence[LoopVar]) -> bool:
    """Whether the range of loops over a long window is cut: nothing is kept for its places then."""
    fixed = all(isinstance(v.extent, int) for v in variables)
    return fixed and is_long(variables) and any(empty_loop_guards(r) for r in reductions)


def with_ranges_of_their_own(r: Reduction) -> frozenset[LoopVar]:
    """Variables for whose values the iterations that are needed differ by what is read: the parts of a vector, by their ends."""
    if not is_long(r.variables):
        return frozenset()
    own = frozenset(r.variables)
    ranges = [form for form in empty_loop_guards(r) if form.lets and any(v in own for v, _ in form.terms)]
    return frozenset(v for form in ranges for n, _ in form.lets for v in n.domain) - own


class _Outside:
    """What is known of each node: a value, and the forms of which one below zero makes it the value of the node; None for nothing."""

    def __init__(self) -> None:
        self.known: dict[DagNode, tuple[float, Guards] | None] = {}

    def of(self, n: DagNode) -> tuple[float, Guards] | None:
        if n not in self.known:
            self.known[n] = self._of(n)
        return self.known[n]

    def _of(self, n: DagNode) -> tuple[float, Guards] | None:
        match n:
            case Operation("select", (condition, chosen, Constant(value))):
                inner = self.of(chosen)
                forms = conditions_of(condition) | (inner[1] if inner is not None and inner[0] == value else _NONE)
                return (value, forms) if forms else None
            case Operation(name) if name not in ("select", "philox", "entropy"):
                return self._op(n)
        return None

    def _op(self, n: Operation) -> tuple[float, Guards] | None:
        varying = [self.of(a) for a in n.args if not isinstance(a, Constant)]
        known = [v for v in varying if v is not None]
        forms = frozenset.intersection(*(forms for _, forms in known)) if known else _NONE
        if not forms or len(known) < len(varying):
            return None
        values = iter(value for value, _ in known)
        args = [np.array(a.value if isinstance(a, Constant) else next(values), a.dtype.computed) for a in n.args]
        with np.errstate(all="ignore"):
            return compute(n.name, n.dtype, args).item(), forms


def _form(n: DagNode) -> Affine | None:
    """A position in affine form; an i64 that is read, or computed of what is, as one term."""
    form = index_of(n)
    read = form is None and n.dtype == I64 and any(isinstance(m, Load) for m in walk([n]))
    return Affine((), 0, ((n, 1),)) if read else form


def conditions_of(n: DagNode) -> Guards:
    """Comparisons of positions in a condition, as forms: each holds where its form is not negative."""
    forms = set()
    for c in conjuncts(n):
        match c:
            case Operation("ge" | "gt" | "le" | "lt" as name, args):
                first, second = map(_form, args)
                if first is None or second is None or len(first.lets) + len(second.lets) > 1:
                    continue
                large, small = (first, second) if name in ("ge", "gt") else (second, first)
                strict: Size = -1 if name in ("gt", "lt") else 0
                forms.add(large + small.scaled(-1) + Affine((), strict))
    return frozenset(forms)
