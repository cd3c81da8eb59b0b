"""What equations need of the padded tails of operands, so that results up to their own ends stay the same.

In: the equations of a call at its true sizes, and the dims that padding makes larger. Out: the constant that must stand in the padded tail
of an operand, by operand and axis. Raises UnsupportedError where no constant does it.

What is proved: at every index within the true sizes, each tensor has the same element with and without padding. Indices that mention no
padded dim are the same in both. What differs is a variable that runs further, a read past the true end that is still within the padded one
(`Read.outside`), and the size where it is a number of the equation. The first is harmless on the left side; in a reduction, the elements
in the padded tail must add nothing to it. The second needs the value of reads outside. The third is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, NoReturn

import numpy as np

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dtypes import DType, highest, lowest
from anyshape.equations import Tensor
from anyshape.equations.builder import Demand, Equation, RecurrenceStep
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.indexing import is_variable
from anyshape.equations.numeric import compute
from anyshape.equations.traversal import substitute, walk
from anyshape.errors import UnsupportedError

Number = int | float | bool
Fills = dict[tuple[Tensor, int], Number]
"""The constant in the padded tail of an operand along an axis."""


def fills_of(equations: Iterable[Equation], operands: Collection[Tensor], padded: Set[Dim]) -> Fills:
    """The constants that must stand in the padded tails of operands of a call. `padded`: the dims that become larger."""
    stated = list(equations)
    analysis = _PaddingAnalysis(stated, operands, padded)
    for q in stated:
        analysis.equation(q)
    return analysis.fills


class _PaddingAnalysis:
    def __init__(self, equations: Iterable[Equation], operands: Collection[Tensor], padded: Set[Dim]) -> None:
        self._operands, self._padded = operands, padded
        self._definitions = {q.target: q for q in equations if q.form is None}
        self.fills: Fills = {}

    def equation(self, q: Equation) -> None:
        """Notes what an equation needs. An equation without a padded dim is the same with padding."""
        if not any(map(self._grows, _sizes_of(q))):
            return
        match q.form:
            case None:
                pass
            case RecurrenceStep(along=along, backward=backward):
                if backward and self._grows(along.extent):
                    _refuse(f"it runs from the end of {along.extent} positions")
            case Demand():
                _refuse("it checks elements")
            case _:
                _refuse(f"the places of elements of {q.target.name} depend on other elements")
        for e in (q.value, *q.index):
            for node in walk(e):
                self._node(node)

    def _grows(self, n: Size | Cond) -> bool:
        return isinstance(n, (Dim, Cond)) and not self._padded.isdisjoint(dims.free_symbols(n))

    def _node(self, e: Expr) -> None:
        match e:
            case Scalar(size=size) if self._grows(size):
                _refuse(f"its elements depend on {size}")
            case Read():
                self._read(e)
            case Reduce():
                for v in e.vars:
                    if self._grows(v.extent):
                        self._reduction(e, v)

    def _read(self, r: Read) -> None:
        if r.outside is not None:
            for axis, (i, n) in enumerate(zip(r.index, r.tensor.shape, strict=True)):
                if self._grows(n) and not (isinstance(i, Var) and i.extent == n):
                    if not isinstance(r.outside, Const) or not self._may_be(r.tensor, axis, r.outside.value):
                        _refuse(f"{r.tensor.name} is read behind its end")
                    self.fills[r.tensor, axis] = r.outside.value
        for i, n in zip(r.index, r.tensor.shape, strict=True):
            if r.outside is None and self._grows(n) and any(isinstance(e, Read) for e in walk(i)):
                _refuse(f"an element is at {i} of {n}, which is checked")
            self._position(i, n)

    def _position(self, i: Expr, n: Size) -> None:
        """An index that is read off a padded operand: in the padded tail it is 0, which has to be within the axis."""
        reads = [r for r in walk(i) if isinstance(r, Read) and any(map(self._grows, r.tensor.shape))]
        if not reads:
            return
        position = self._known(i, dict.fromkeys(reads, 0))
        if not isinstance(position, int) or position < 0 or dims.gt(n, position) is not True:
            _refuse(f"the position {i} in the padded tail is unknown")
        for r in reads:
            self._fill(r, 0, self._axes(r))

    def _axes(self, r: Read) -> list[int]:
        return [axis for axis, n in enumerate(r.tensor.shape) if self._grows(n)]

    def _reduction(self, e: Reduce, v: Var) -> None:
        """Finds the constant that makes what a reduction takes in the padded tail of `v` its identity."""
        behind: dict[Read, list[int]] = {}
        for node in (*walk(e.body), *(walk(e.where) if e.where is not None else ())):
            if isinstance(node, Read):
                pairs = zip(node.index, node.tensor.shape, strict=True)
                axes = [k for k, (i, n) in enumerate(pairs) if is_variable(i, v) and n == v.extent]
                if axes and node.tensor in self._operands:
                    behind[node] = axes
        for choose in (lambda t: 0, lowest, highest, lambda t: 1):
            known = {r: choose(r.tensor.dtype) for r in behind}
            possible = all(self._may_be(r.tensor, a, known[r]) for r, axes in behind.items() for a in axes)
            if possible and self._adds_nothing(e, known):
                for r, axes in behind.items():
                    self._fill(r, known[r], axes)
                return
        _refuse(f"no constant in the padded tail leaves its {e.kind} over {v.extent} as it is")

    def _fill(self, r: Read, value: Number, axes: Iterable[int]) -> None:
        for axis in axes:
            if r.tensor not in self._operands or not self._may_be(r.tensor, axis, value):
                _refuse(f"{r.tensor.name} cannot be {value} behind its end")
            self.fills[r.tensor, axis] = value

    def _may_be(self, t: Tensor, axis: int, value: Number) -> bool:
        return t in self._operands and self.fills.get((t, axis), value) == value

    def _adds_nothing(self, e: Reduce, known: Mapping[Read, Number]) -> bool:
        if e.where is not None and self._known(e.where, known) is False:
            return True
        identity = _identity(e)
        value = self._known(e.body, known)
        return identity is not None and value is not None and bool(value == identity)

    def _known(self, e: Expr, known: Mapping[Any, Number]) -> Number | None:
        """The value of an expression with numbers for some reads; None if it depends on others."""
        if e in known:
            return known[e]
        if isinstance(e, Const):
            return e.value
        if not isinstance(e, Apply):
            return None
        args = [self._known(a, known) for a in e.args]
        match e.op, args:
            case ("within", [position, _]):
                return position
            case ("wrap", [position, _]) if position is not None and position >= 0:
                return position
            case ("select", [None, a, b]):
                return a if a == b else None
            case ("select", [condition, a, b]):
                return a if condition else b
            case ("and", _) if any(a is not None and not a for a in args):
                return False
            case ("or", _) if any(args):
                return True
            case ("sub", [a, None]) if a == -np.inf and self._is_peak(e.args[1], e.args[0]):
                return -np.inf
        if any(a is None for a in args) or not args:
            return None
        with np.errstate(all="ignore"):
            out = compute(e.op, e.dtype, [np.asarray(a, _dtype(x)) for a, x in zip(args, e.args, strict=True)])
        value: Number = out.item()
        return value

    def _is_peak(self, m: Expr, x: Expr) -> bool:
        """Whether m is the maximum over the row that x is an element of. Then -inf - m is -inf, as far as anybody sees: m is -inf only
        if all of the row is, and x - m is NaN there within the true sizes, too."""
        m, x = _uncast(m), _uncast(x)
        q = self._definitions.get(m.tensor) if isinstance(m, Read) else None
        if q is None or not isinstance(m, Read) or not isinstance(x, Read) or not isinstance(q.value, Reduce):
            return False
        row, places = _uncast(q.value.body), {v: i for v, i in zip(q.index, m.index, strict=True) if isinstance(v, Var)}
        return (
            q.value.kind == "max" and q.value.where is None and isinstance(row, Read)
            and row.tensor is x.tensor and len(places) == len(q.index)
            and all(substitute(i, places) is j or i in q.value.vars for i, j in zip(row.index, x.index, strict=True))
        )  # fmt: skip


def _sizes_of(q: Equation) -> Iterator[Size | Cond]:
    yield from q.target.shape
    for e in q.expressions:
        for node in walk(e):
            match node:
                case Scalar(size=size):
                    yield size
                case Var(extent=extent):
                    yield extent
                case Read(tensor=tensor):
                    yield from tensor.shape
                case Reduce(vars=variables):
                    yield from (v.extent for v in variables)


def _identity(e: Reduce) -> Number | None:
    """What leaves a reduction as it is. The position of an extreme stays where no later one is greater."""
    dtype = e.body.dtype
    match e.kind:
        case "sum":
            return 0
        case "prod" | "all":
            return 1
        case "any" | "count":
            return 0
        case "max" | "argmax" if dtype is not None:
            return lowest(dtype)
        case "min" | "argmin" if dtype is not None:
            return highest(dtype)
    return None


def _uncast(e: Expr) -> Expr:
    """The expression that a float is widened from."""
    while isinstance(e, Apply) and e.op == "cast" and e.args[0].dtype is not None and e.args[0].dtype.is_float:
        e = e.args[0]
    return e


def _dtype(e: Expr) -> Any:
    dtype: DType | None = e.dtype
    return None if dtype is None else dtype.computed


def _refuse(why: str) -> NoReturn:
    raise UnsupportedError(why)
