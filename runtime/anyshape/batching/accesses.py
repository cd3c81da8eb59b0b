"""Whether the equations of one call keep rows apart, read off the indices of what they access.

In: equations, and what is known of the tensors that they read. Out: the same of the tensors that they define. An element of a result is
of the row that its position along the batch dim says; it may read an operand that has rows at that row, and nothing else may depend on the
position: neither a value nor an index along another axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import TypeGuard

from anyshape.batching.states import FIXED, Computed, Fixed, IndexElements, Joint, RowDim, Rows, RowState
from anyshape.dims import Dim, Size, floordiv, free_symbols, fresh, mod, nonneg, substitute
from anyshape.equations import Equation, Tensor
from anyshape.equations.builder import Compaction, Demand, RecurrenceStep, Run, Sorting, Update
from anyshape.equations.dependencies import reads, symbols, units
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.traversal import walk

States = MutableMapping[Tensor, RowState]


class RowsMeet(Exception):
    """An element depends on more than its row; the text says how."""


class OperandMeets(RowsMeet):
    """What is read depends on more than its row already; the text is the reason of that."""


def follow(equations: Sequence[Equation], states: States, dim: RowDim, where: str) -> None:
    """Adds the states of the tensors that the equations of a call define; `where` says in reasons which call it is. Raises RowsMeet for an
    assert that is not one of each row."""
    for unit in units(equations):
        targets = dict.fromkeys(q.target for q in unit)
        if not any(_is_touched(q, states, dim) for q in unit):
            states.update({q.target: Fixed(_elements(q)) for q in unit})
            continue
        try:
            for q in unit:
                _check_unit(q, states, dim)
        except RowsMeet as e:
            reason = str(e) if isinstance(e, OperandMeets) else f"{where}: {e}"
            if any(isinstance(q.form, Demand) for q in unit):
                raise OperandMeets(reason) from None
            states.update(dict.fromkeys(targets, Joint(reason)))
            elements = _elements(unit[0])
            if elements is not None and not isinstance(e, OperandMeets):
                states[unit[0].target] = Computed(elements, reason)


def _elements(q: Equation) -> IndexElements | None:
    """The integers that an equation defines, each by its position; None where it defines rest, or not all by one expression."""
    variables = tuple(i for i in q.index if isinstance(i, Var))
    plain = q.form is None and len(set(variables)) == len(q.index) and q.target.dtype.is_integer
    return IndexElements(variables, q.value) if plain and q.unbacked is None else None


def _is_touched(q: Equation, states: States, dim: RowDim) -> bool:
    """Whether an equation reads anything that has rows, or mentions a size that varies."""
    own = {q.target} | (q.form.program.own if isinstance(q.form, Run) else set())
    read = (states[t] for t in reads(q) - own if t in states)
    held = states.get(q.target, FIXED)
    return any(not isinstance(s, Fixed) for s in (*read, held)) or any(map(dim.varies, symbols(q)))


def _check_unit(q: Equation, states: States, dim: RowDim) -> None:
    """Checks one equation, and adds the state of its target. Raises RowsMeet."""
    if isinstance(q.form, Run):
        raise RowsMeet("its steps run one after the other over all rows")
    if isinstance(q.form, Demand):
        _check_demand(q.value, states, dim)
        states[q.target] = FIXED
        return
    rows = dim.rows(q.target.shape)
    if rows is None:
        _refuse_joint(states.get(t) for t in reads(q))
        raise RowsMeet(f"{q.target.name} has no row for each row of what it is computed of")
    _refuse_joint([states.get(q.target)])
    position = q.index[rows.axis]
    if not isinstance(position, Var) or position.extent != q.target.shape[rows.axis]:
        raise RowsMeet(
            f"{q.target.name}[{', '.join(map(str, q.index))}] is defined at another place than that of its row"
        )
    if isinstance(q.form, Compaction | Sorting | RecurrenceStep) and q.form.along is position:
        raise RowsMeet("rows are computed one from the other, or change places")
    states[q.target] = rows
    rest = [i for k, i in enumerate(q.index) if k != rows.axis]
    of_form = [q.where] if q.where is not None else []
    variables = [*q.over, *(q.form.over if isinstance(q.form, Update) else ())]
    _OneRow(position, rows.stride, states, dim).check([q.value, *rest, *of_form, *variables])


def _refuse_joint(states: Iterable[RowState | None]) -> None:
    for s in states:
        if isinstance(s, Joint):
            raise OperandMeets(s.reason)


def _check_demand(value: Expr, states: States, dim: RowDim) -> None:
    """Raises RowsMeet for an assert that a joined call may pass though one of the requests alone does not."""
    if isinstance(value, Apply) and value.op == "and":
        for a in value.args:
            _check_demand(a, states, dim)
        return
    over = [v for v in value.vars if dim.varies(v.extent)] if isinstance(value, Reduce) and value.kind == "all" else []
    rows = dim.rows([v.extent for v in over])
    if rows is None:
        if any(isinstance(e, Read) and not isinstance(states[e.tensor], Fixed) for e in walk(value)) or over:
            raise RowsMeet("it checks something of all rows together")
        _NoRow(states, dim).check([value])
        return
    assert isinstance(value, Reduce)
    _OneRow(over[0], rows.stride, states, dim).check([value.body, *([] if value.where is None else [value.where])])


class _NoRow:
    """Checks expressions that are to be the same for all rows."""

    def __init__(self, states: States, dim: RowDim) -> None:
        self.states, self.dim = states, dim

    def check(self, expressions: Iterable[Expr]) -> None:
        """Raises RowsMeet for the first access or computation that depends on more than the row."""
        stack, seen = list(expressions), set[int]()
        while stack:
            e = stack.pop()
            if e.serial in seen:
                continue
            seen.add(e.serial)
            stack += self._parts(e)

    def _parts(self, e: Expr) -> list[Expr]:
        match e:
            case Var():
                self._variable(e)
            case Scalar(size=size) if self.dim.varies(size):
                raise RowsMeet(f"it computes with {size}")
            case Apply(op="entropy"):
                raise RowsMeet("it draws random numbers")
            case Apply(args=args):
                return list(args)
            case Reduce(kind=kind, vars=variables, body=body, where=where):
                if any(self.dim.varies(v.extent) for v in variables):
                    raise RowsMeet(f"it is a {kind} over {', '.join(str(v.extent) for v in variables)}")
                return [body] if where is None else [body, where]
            case Read():
                return self._read(e)
        return []

    def _variable(self, v: Var) -> None:
        if self.dim.varies(v.extent):
            raise RowsMeet(f"it depends on a position along {v.extent}")

    def _read(self, e: Read) -> list[Expr]:
        state, outside = self.states[e.tensor], [] if e.outside is None else [e.outside]
        _refuse_joint([state])
        if isinstance(state, Computed):
            return [state.elements.at(e.index), *outside]
        if isinstance(state, Rows):
            return [*self._beside_row(e, state), *outside]
        return [*e.index, *outside]

    def _beside_row(self, e: Read, rows: Rows) -> list[Expr]:
        raise RowsMeet(f"it reads {e.tensor.name}[{', '.join(map(str, e.index))}], whatever its row")


class _OneRow(_NoRow):
    """Checks expressions of one row: that of a position, which is row * stride + an offset below the stride."""

    def __init__(self, position: Var, stride: Size, states: States, dim: RowDim) -> None:
        super().__init__(states, dim)
        self.row = fresh("row", 0)
        self.sizes = VariableSizes(states)
        self.sizes.of[position] = self.row * stride + self.sizes.below("offset", stride)

    def _beside_row(self, e: Read, rows: Rows) -> list[Expr]:
        """Returns the indices along other axes."""
        place = self.sizes.size(e.index[rows.axis])
        if place is None or not self.sizes.is_below(place - self.row * rows.stride, rows.stride):
            raise RowsMeet(f"it reads another row of {e.tensor.name}[{', '.join(map(str, e.index))}]")
        return [i for k, i in enumerate(e.index) if k != rows.axis]


class VariableSizes:
    """Indices as sizes, in which a symbol stands for each variable."""

    def __init__(self, states: States) -> None:
        self.states = states
        self.of: dict[Var, Size] = {}
        self._extents: dict[Dim, Size] = {}
        """The extent of each symbol that a size bounds."""

    def below(self, name: str, extent: Size) -> Size:
        """Makes a symbol for a number from 0 that is less than the extent."""
        if extent == 1:
            return 0
        symbol = fresh(name, 0, extent - 1 if isinstance(extent, int) and extent > 0 else None)
        self._extents[symbol] = extent
        return symbol

    def is_below(self, offset: Size, extent: Size) -> bool:
        """Whether an offset is proved to be at least 0 and less than the extent: a size that bounds a variable is that and a rest more."""
        bounded = {
            n: s + fresh("rest", 1) for s, n in self._extents.items() if _is_symbol(n) and s in free_symbols(offset)
        }
        return nonneg(offset) and nonneg(substitute(extent - 1 - offset, bounded))

    def size(self, e: Expr) -> Size | None:
        """Spells an index as a size; None where it depends on anything but variables and sizes."""
        match e:
            case Const(value=int(value)):
                return value
            case Scalar(size=size) if isinstance(size, int | Dim):
                return size
            case Var(name=name, extent=extent):
                if e not in self.of:
                    self.of[e] = self.below(name, extent)
                return self.of[e]
            case Read(tensor=tensor, index=index, outside=None):
                state = self.states[tensor]
                known = state.elements if isinstance(state, Fixed | Computed) else None
                return None if known is None else self.size(known.at(index))
            case Apply(op="within", args=(i, _)) | Apply(op="cast", args=(i,)):
                return self.size(i) if e.dtype is not None and e.dtype.is_integer else None
            case Apply(op="wrap", args=(i, _)):
                place = self.size(i)
                return place if place is not None and nonneg(place) else None
            case Apply(op="add" | "sub" | "mul" | "floordiv" | "mod" as op, args=(a, b)):
                x, y = self.size(a), self.size(b)
                return None if x is None or y is None else _ARITHMETIC[op](x, y)
        return None


def _is_symbol(n: Size) -> TypeGuard[Dim]:
    return isinstance(n, Dim) and n.is_symbol


_ARITHMETIC: dict[str, Callable[[Size, Size], Size]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": floordiv,
    "mod": mod,
}
