"""One symbol for a size that data decide, however many calls count it: `x[mask]` and `y[mask]` have one length.

In: a call, the equations of its sizes, the tensors of its operands. Out: the symbol of each size that was counted before, of the same
values. Values are the same if they are one, or if what makes them is the same op of the same operands; a count of all elements of a tensor
is that of any view of it. Calls that compute a size in another way share it if they are equal. Nothing here is kept alive: a symbol is
known as long as a type mentions it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from anyshape.dims import Dim, Facts, bounds
from anyshape.dtypes import literal_key
from anyshape.equations import Equation, Reduce, Tensor
from anyshape.equations.expr import Apply, Const, Expr, Read, Scalar, Var
from anyshape.equations.traversal import children, walk
from anyshape.graph.alike import alike
from anyshape.graph.value import SMALL, Node, Value
from anyshape.rules import Rule

_SIZES: WeakValueDictionary[tuple[Any, ...], Dim] = WeakValueDictionary()
"""The symbol of a count, by its key and bounds: what is learned of operands makes a symbol with tighter ones"""


class Identity:
    """What values have in common that are the same."""

    __slots__ = ("__weakref__",)


_IDENTITIES: WeakKeyDictionary[Value, Identity] = WeakKeyDictionary()
_SAME: WeakValueDictionary[tuple[Any, ...], Identity] = WeakValueDictionary()
"""The identity of a call's result, by op and the identities of operands"""


def known_sizes(
    node: Node, rule: Rule, equations: Sequence[Equation], tensors: Mapping[Value, Tensor]
) -> dict[str, Dim]:
    """The symbols of sizes that were counted before, by name. The rule has new ones, which the equations mention; those that are
    counted for the first time are remembered."""
    if node.op.is_random:
        return {}
    values = {tensors[v]: v for v in node.inputs if v is not None and v in tensors}
    known: dict[str, Dim] = {}
    for name, size in rule.data_dependent.items():
        counted = next((q for q in equations if q.unbacked is size), None)
        key = _count(counted.value, values, rule.facts) if counted is not None and counted.form is None else None
        if key is None:
            key = (node.op, name, alike(node.attrs), tuple(None if v is None else identity(v) for v in node.inputs))
        first = _SIZES.setdefault((key, *bounds(size)), size)
        if first is not size:
            known[name] = first
    return known


def _count(e: Expr, values: Mapping[Tensor, Value], facts: Facts) -> tuple[Any, ...] | None:
    """The key of a count over all elements of tensors that have values; None if it counts anything else."""
    reads = [r for r in walk(e) if isinstance(r, Read)]
    if not isinstance(e, Reduce) or e.where is not None or not reads or sum(isinstance(n, Reduce) for n in walk(e)) > 1:
        return None
    extents = [v.extent for v in e.vars]
    if any(r.tensor not in values or r.index != e.vars for r in reads):
        return None
    if any([*map(facts.canonical, r.tensor.shape)] != extents for r in reads):
        return None
    read = {r.tensor: values[r.tensor] for r in reads}
    if len(read) == 1 and not _reads_places(e.body):
        read = {t: _viewed(v) for t, v in read.items()}
    same = {t: identity(v) for t, v in read.items()}
    return (e.kind, _spelled(e.body, e.vars, same))


def _reads_places(e: Expr) -> bool:
    """Whether a count is of positions too, and not of elements alone."""
    return isinstance(e, Var) or (not isinstance(e, Read) and any(map(_reads_places, children(e))))


def _spelled(e: Expr, variables: tuple[Var, ...], same: Mapping[Tensor, Identity]) -> Any:
    """An expression, with places for variables and identities for tensors. That a bool is not 0 is the bool."""
    if isinstance(e, Read):
        return ("read", same[e.tensor])
    if isinstance(e, Var):
        return ("variable", variables.index(e))
    if isinstance(e, Const):
        return (literal_key(e.value), e.dtype)
    if isinstance(e, Scalar):
        return (e.size, e.dtype)
    assert isinstance(e, Apply)
    first, *rest = e.args or (e,)
    if e.op == "ne" and first.dtype is not None and first.dtype.is_bool and all(_is_zero(a) for a in rest):
        return _spelled(first, variables, same)
    return (e.op, e.dtype, *(_spelled(a, variables, same) for a in e.args))


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _viewed(v: Value) -> Value:
    """The value that v is a view of, which has the same elements."""
    while v.node is not None and v.node.op.view:
        (source,) = v.node.op.view.values()
        below = v.node.grouped_inputs()[source]
        if not isinstance(below, Value):
            break
        v = below
    return v


def identity(v: Value) -> Identity:
    """What is another object for values that may differ. Without recursion, so that depth does not matter."""
    pending = [v]
    while pending:
        top = pending[-1]
        if top in _IDENTITIES:
            pending.pop()
            continue
        inputs = () if top.node is None or _is_alone(top.node) else top.node.inputs
        open_ = [x for x in inputs if x is not None and x not in _IDENTITIES]
        if open_:
            pending += open_
            continue
        pending.pop()
        _IDENTITIES[top] = _identified(top)
    return _IDENTITIES[v]


def stands_for(param: Value, v: Value) -> None:
    """Notes that a region's parameter is a value of its surroundings, or another parameter of the same iteration."""
    _IDENTITIES[param] = identity(v)


def _is_alone(node: Node) -> bool:
    """Whether no other call is known to give the same."""
    return bool(node.op.is_random or node.regions or node.op.structure is not None)


def _identified(v: Value) -> Identity:
    key: Any
    if v.constant is not None and v.constant.size <= SMALL:
        key = (v.type, v.constant.tobytes())
    elif v.node is not None and not _is_alone(v.node):
        node = v.node
        inputs = tuple(None if x is None else _IDENTITIES[x] for x in node.inputs)
        key = (node.op, v.index, alike(node.attrs), inputs)
    else:
        return Identity()
    return _SAME.setdefault(key, Identity())
