"""Terms of elements that a kernel reads, where they are indices or decide whether an element is read.

In: a resolved read. Out: its value. The value of a scratch tensor is that of its equation; `argsort` gives positions, a filtered
vector gives one of its items before filtering; any other element is data: an unknown integer, if the tensor holds integers.
"""

from __future__ import annotations

from typing import Any

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape_gen.bounds.context import Context, implies, within
from anyshape_gen.bounds.evaluate import integer, listed, term, vector
from anyshape_gen.bounds.signature import OpNames
from anyshape_gen.bounds.state import Env
from anyshape_gen.bounds.terms import Run, is_int
from anyshape_gen.model.analysis import ResolvedEquation
from anyshape_gen.model.nodes import (
    Call,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Name,
    Offset,
    Over,
    Part,
    Placed,
    Reduction,
    Slice,
    Star,
    TensorRead,
    VecLit,
)

INTEGERS = frozenset(("i8", "i16", "i32", "i64", "u8", "u16", "u32"))
NESTED = 6
"""the greatest depth of tensors whose equations are inlined into each other"""


class Elements:
    """Terms of the elements of the tensors of an op's kernel."""

    def __init__(self, names: OpNames) -> None:
        self.names, self.spec, self.state, self.context = names, names.spec, names.state, names.state.context
        kernel = names.analysis.kernel
        self.scratch = {s.name: s for s in kernel.scratch} if kernel is not None else {}
        self.equations: dict[str, list[ResolvedEquation]] = {}
        for q in kernel.equations if kernel is not None else ():
            self.equations.setdefault(q.target.tensor, []).append(q)
        self.nested = 0
        self.state.read = self.element

    def element(self, node: TensorRead, env: Env) -> Any:
        """Returns the value of a read."""
        index = [self._part_value(part, env) for part in node.parts]
        value = self._of_equation(node, index) if node.outside is None else None
        if value is not None:
            return value
        key = ("element", node.tensor, node.element, *index)
        if not self._holds_integers(node.tensor):
            return self.context.opaque_value(*key)
        value = self.context.unknown(*key, data=True)
        self._carry(value, index)
        return value

    def _carry(self, value: Dim, index: list[Any]) -> None:
        symbols = [a for v in index if isinstance(v, Dim) for a in sorted(v.symbols, key=lambda a: a.uid)]
        self.context.own(value, True, symbols)

    def _part_value(self, part: Part, env: Env) -> Any:
        """Returns a value that identifies a part of an index."""
        match part:
            case Exact(items=(Star(value=value),)):
                return term(self.state, value, env)
            case Exact(items=items) | Flat(items=items) if len(items) == 1:
                return term(self.state, items[0], env)
            case Exact(items=items) | Fit(items=items):
                return listed(self.state, items, env)
            case Flat(items=items):
                return listed(self.state, items, env)
            case Placed(rest=rest, picked=picked):
                return (listed(self.state, rest, env), listed(self.state, picked, env))
            case Offset(element=element, within=inner):
                return (term(self.state, element, env), term(self.state, inner, env))
        return self.context.position()

    def _holds_integers(self, tensor: str) -> bool:
        """Whether every dtype of a tensor is an integer that fits in i64."""
        operand = self.spec.input(tensor) or self.spec.output(tensor)
        if operand is None:
            dtype = self.scratch[tensor].dtype if tensor in self.scratch else None
            return dtype in INTEGERS
        dtype = operand.signature.dtype
        rule = next((r for r in self.spec.dtypes if r.var == dtype), None)
        choices = rule.choices if rule is not None else (dtype,)
        return bool(choices) and all(c in INTEGERS for c in choices)

    # --- inlined equations

    def _of_equation(self, node: TensorRead, index: list[Any]) -> Any:
        equations = self.equations.get(node.tensor, [])
        if node.tensor not in self.scratch or len(equations) != 1 or self.nested >= NESTED:
            return None
        (q,) = equations
        if q.op != "=" or q.conditions or q.recurrence is not None or q.target.element is not None:
            return None
        self.nested += 1
        try:
            match q.value:
                case Call(func="argsort", args=(Comprehension(generators=(g,)),)):
                    return self._position(node, q, index, integer(self.state, g.domain, {}))
                case Comprehension():
                    return self._one_of(node, q, q.value, index)
            inner = self._bound_by_index(q, index)
            return None if inner is None else term(self.state, q.value, inner)
        finally:
            self.nested -= 1

    def _bound_by_index(self, q: ResolvedEquation, index: list[Any]) -> dict[str, Any] | None:
        """Solves for the variables of a left side, from the index of a read."""
        env: dict[str, Any] = {}
        if len(q.parts) != len(index):
            return None
        for part, value in zip(q.parts, index):
            match part:
                case Exact(items=(Name(id=name),)) if is_int(value):
                    env[name] = value
                case Exact(items=(Star(value=Name(id=name)),)) if isinstance(value, Run):
                    env[name] = value
                case _:
                    return None
        return env

    def _position(self, node: TensorRead, q: ResolvedEquation, index: list[Any], extent: Size) -> Any:
        value = self.context.unknown("order", node.tensor, *index, low=0)
        room = self._room(q)
        fills = room is not None and dims.le(integer(self.state, room, {}), extent) is True
        self.context.own(value, dims.lt(value, extent if fills else dims.maximum(extent, 1)))
        self._carry(value, index)
        return value

    def _room(self, q: ResolvedEquation) -> Expr | None:
        """Returns the size of the axis that a vector is put along, if that is the last one."""
        shape, items = self.scratch[q.target.tensor].shape, q.target.items or ()
        whole = isinstance(shape, VecLit) and bool(shape.items) and bool(items) and isinstance(items[-1], Slice)
        last = shape.items[-1] if whole and isinstance(shape, VecLit) else None
        return None if isinstance(last, (Slice, Star)) else last

    def _is_as_long(self, q: ResolvedEquation, filtered: Comprehension) -> bool:
        """Whether a tensor is as long as a vector that is filtered: its size counts the items by the same condition."""
        kernel, room = self.names.analysis.kernel, self._room(q)
        counts = [b.value for b in kernel.unbacked if Name(b.name) == room] if kernel is not None else []
        for count in counts:
            match count:
                case Reduction(kind="count", element=condition, generators=generators, conditions=more):
                    if generators == filtered.generators and (condition, *more) == filtered.conditions:
                        return True
        return False

    def _one_of(self, node: TensorRead, q: ResolvedEquation, filtered: Comprehension, index: list[Any]) -> Any:
        """Returns an item of a filtered vector: its element at positions that are not known. Where there are fewer than the tensor has
        room for, the others are zero: None."""
        if not self._is_as_long(q, filtered):
            return None
        env: dict[str, Any] = {}
        symbols: list[Dim] = []
        for g in filtered.generators:
            (target,) = g.targets[:1]
            if g.over is Over.EXTENTS:
                env[target.name] = variable_run(self.context, target.name, vector(self.state, g.domain, env))
            elif g.over is Over.EXTENT:
                v = self.context.unknown("iteration", node.tensor, target.name, *index, low=0)
                self.context.own(v, dims.lt(v, integer(self.state, g.domain, env)))
                env[target.name] = v
                symbols.append(v)
            else:
                return None
        value = term(self.state, filtered.element, env)
        if isinstance(value, Dim):
            for v in symbols:
                for atom in sorted(value.symbols, key=lambda a: a.uid):
                    self.context.own(atom.dim, True, [v.terms[0][0][0]]) if atom is not v.terms[0][0][0] else None
        return value if is_int(value) else None


# --- variables


def variable(context: Context, name: str, extent: Size) -> Dim:
    v = context.fresh(name, 0)
    context.own(v, dims.lt(v, extent))
    return v


def variable_run(context: Context, name: str, extents: Run) -> Run:
    """Makes a run of variables, each at least 0 and below its extent."""
    label = context.fresh(name).name

    def item(p: Size) -> Size:
        p = context.canonical(p)
        symbol = context.placed(dims.symbol(f"{label}[{p}]", 0), p)
        extent = extents.at(p)
        if is_int(extent):
            context.own(symbol, implies([within(p, extents.length)], dims.lt(symbol, extent)))
            if isinstance(p, Dim):
                context.own(symbol, True, sorted(p.symbols, key=lambda a: a.uid))
        return symbol

    return Run(extents.length, item, label, variable=True, nonnegative=True)
