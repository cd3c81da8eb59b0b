"""Infers which dtypes an op only moves: it reads elements of them, selects among them and stores them, and computes nothing with them.

In: an op's analysis. Out: dtype variables, and where that depends on a mode, the modes. The runtime can run such an op on elements of any
dtype, strings among them, whatever dtypes its spec lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, product

from anyshape_gen.model.analysis import Dependence, OpAnalysis, ResolvedEquation
from anyshape_gen.model.body_nodes import Branch, Set, Step, Store
from anyshape_gen.model.functions import OF_SIGNATURES
from anyshape_gen.model.nodes import (
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    IfExp,
    Int,
    Item,
    Name,
    Node,
    NoneLit,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.spec import ParamSpec
from anyshape_gen.model.traverse import children, walk_all


@dataclass(frozen=True)
class Moved:
    """Dtype variables whose elements are only moved. `where`: {enumeration: its members for which that holds}, empty if it always holds."""

    dtypes: tuple[str, ...] = ()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def moved_dtypes(a: OpAnalysis, ops: Mapping[str, OpAnalysis] | None = None) -> Moved:
    """Infers the variables whose elements the equations, the view, or the ops that a body calls only move: always, or for some members of
    one or two enumerations. `ops` are those that bodies call, by name."""
    if a.procedure is not None:
        return Moved()
    read = {o.signature.dtype for o in a.spec.inputs}
    listed = [d.var for d in a.spec.dtypes if d.choices and d.var in read]
    only_moves = _equations_only_move if a.spec.compose is None else partial(_body_only_moves, ops or {})

    def moved_in(values: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(v for v in listed if only_moves(a, v, values))

    always = moved_in({})
    if always:
        return Moved(always)
    for chosen in (c for count in (1, 2) for c in combinations(_deciding(a), count)):
        moved = {
            ms: moved_in({p.name: m for p, m in zip(chosen, ms)}) for ms in product(*(p.kind.members for p in chosen))
        }
        first = next((ms for ms, variables in moved.items() if variables), None)
        if first is not None:
            held = {ms for ms, variables in moved.items() if variables == moved[first]}
            last = [m for m in chosen[-1].kind.members if (*first[:-1], m) in held]
            unchosen = (
                [m for m in chosen[0].kind.members if all((m, n) in held for n in last)] if len(chosen) == 2 else last
            )
            return Moved(moved[first], {chosen[0].name: tuple(unchosen), chosen[-1].name: tuple(last)})
    return Moved()


def _deciding(a: OpAnalysis) -> list[ParamSpec]:
    """The enumerations that conditions of equations, or anything in a body, read."""
    conditions = [c for q in a.kernel.equations for c in q.conditions] if a.kernel is not None else []
    body: list[Node] = [a.spec.compose] if a.spec.compose is not None else []
    read = {n.id for n in walk_all([*conditions, *body]) if isinstance(n, Name)}
    return [p for p in a.spec.params if p.kind.members and p.name in read]


def _equations_only_move(a: OpAnalysis, var: str, values: Mapping[str, str]) -> bool:
    """Whether elements of the variable are only moved where enumerations have these values."""
    equations = a.kernel.equations if a.kernel is not None else ()
    return _only_moves(a, var, [q for q in equations if all(_holds(c, values) is not False for c in q.conditions)])


def _holds(cond: Expr, values: Mapping[str, str]) -> bool | None:
    """Whether a condition holds where enumerations have these values; None if they do not decide it."""
    match cond:
        case Compare(Name(id), (("==" | "!=" as sign, Str(value)),)) if id in values:
            return (value == values[id]) == (sign == "==")
        case Unary("not", operand):
            held = _holds(operand, values)
            return None if held is None else not held
        case BoolOp(op, items):
            each = [_holds(c, values) for c in items]
            ends = op == "or"  # the value of one item that decides all
            return ends if ends in each else None if None in each else not ends
    return None


def _only_moves(a: OpAnalysis, var: str, equations: Sequence[ResolvedEquation]) -> bool:
    if a.kernel is None:
        return True
    moving = {o.name for o in (*a.spec.inputs, *a.spec.outputs) if o.signature.dtype == var}
    for equation in equations:
        name = equation.target.tensor
        if _reads([equation.value], moving):
            moving.add(name)  # a scratch tensor, defined before it is read
        if name in moving and (equation.op not in ("=", "set") or not _is_moved(equation.value, moving)):
            return False
        if _reads(_beside(equation), moving):
            return False
    return not _reads([*(b.value for b in a.kernel.unbacked), *(s.cond for s in a.kernel.asserts)], moving)


def _beside(equation: ResolvedEquation) -> Iterable[Node]:
    return (*equation.parts, *equation.conditions, *equation.filters)


def _is_moved(e: Expr, moving: set[str]) -> bool:
    """Whether the value is an element that is read, or 0, or a selection among such values."""
    match e:
        case Int(0):
            return True
        case TensorRead(tensor=name, outside=outside) if name in moving:
            indices = [c for c in children(e) if c is not outside and c is not e.absent]
            return not _reads(indices, moving) and (outside is None or _is_moved(outside, moving))
        case IfExp(cond, then, other):
            return not _reads([cond], moving) and _is_moved(then, moving) and _is_moved(other, moving)
        case Comprehension(element, _, conditions):
            return not _reads(conditions, moving) and _is_moved(element, moving)
    return False


def _reads(nodes: Iterable[Node], moving: set[str]) -> bool:
    return any(isinstance(n, TensorRead) and n.tensor in moving for n in walk_all(nodes))


# --- bodies


def _body_only_moves(ops: Mapping[str, OpAnalysis], a: OpAnalysis, var: str, values: Mapping[str, str]) -> bool:
    """Whether the ops that a body calls only move elements of the variable where enumerations have these values."""
    assert a.spec.compose is not None
    moving = {o.name for o in a.spec.inputs if o.signature.dtype == var}
    if _reads_elements([s.cond for s in a.reading], moving) or any(
        a.dependence.get(x) is Dependence.VALUES for x in moving
    ):
        return False
    carried = _Body(ops, values).steps(a.spec.compose.steps, frozenset(moving))
    return carried is not None and all(o.name in carried for o in a.spec.outputs if o.signature.dtype == var)


def _reads_elements(nodes: Iterable[Node], moving: AbstractSet[str]) -> bool:
    """Whether moved tensors are read for more than their types."""
    return any(
        n.id in moving if isinstance(n, Name) else _reads_elements(children(n), moving)
        for n in nodes
        if not (isinstance(n, Call) and n.func in OF_SIGNATURES)
    )


@dataclass(frozen=True)
class _Body:
    """Follows the tensors of moved elements through a body, where enumerations have these values."""

    ops: Mapping[str, OpAnalysis]
    values: Mapping[str, str]

    def steps(self, steps: Sequence[Step], moving: frozenset[str]) -> frozenset[str] | None:
        """The names of moved tensors after the steps; None where something else is done with one."""
        for step in steps:
            match step:
                case Branch(cond, then, other) if not _reads_elements([cond], moving):
                    held = _holds(cond, self.values)
                    taken = [
                        self.steps(s, moving) for s, way in ((then, True), (other, False)) if held is not (not way)
                    ]
                    if None in taken:
                        return None
                    moving = frozenset.intersection(*(names for names in taken if names is not None))
                case Set(targets=(Store(name, None, None),), op="=", value=value):
                    if self.is_moved(value, moving):
                        moving |= {name}
                    elif _reads_elements([value], moving):
                        return None
                    else:
                        moving -= {name}
                case _:
                    return None
        return moving

    def is_moved(self, e: Item, moving: frozenset[str]) -> bool:
        """Whether an expression is a tensor, or several, of moved elements, or none."""
        match e:
            case Name(id):
                return id in moving
            case NoneLit():
                return True
            case IfExp(cond, then, other):
                return (
                    not _reads_elements([cond], moving) and self.is_moved(then, moving) and self.is_moved(other, moving)
                )
            case VecLit(items):
                return bool(items) and all(self.is_moved(i, moving) for i in items)
            case Call() if e.func in self.ops:
                return self._call_moves(self.ops[e.func], e, moving)
        return False

    def _call_moves(self, called: OpAnalysis, e: Call, moving: frozenset[str]) -> bool:
        """Whether the one result of a call has moved elements only, and what else it reads has none of them."""
        moved, spec = moved_dtypes(called, self.ops), called.spec
        names = [*(o.name for o in spec.inputs), *(p.name for p in spec.params)]
        passed: dict[str, Item] = dict(zip(names, e.args)) | dict(e.keywords)
        elements = {o.name for o in spec.inputs if o.signature.dtype in moved.dtypes}
        return (
            len(spec.outputs) == 1
            and spec.outputs[0].signature.dtype in moved.dtypes
            and all(
                self._is_among(passed.get(p.name, p.default), moved.where[p.name])
                for p in spec.params
                if p.name in moved.where
            )
            and all(
                self.is_moved(v, moving) if name in elements else not _reads_elements([v], moving)
                for name, v in passed.items()
            )
        )

    def _is_among(self, e: object, members: Sequence[str]) -> bool:
        return (e.value if isinstance(e, Str) else self.values.get(e.id) if isinstance(e, Name) else None) in members
