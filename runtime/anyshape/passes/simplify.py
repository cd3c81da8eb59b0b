"""The local rules: fold, dyn-to-static, the specs' rewrites, common subexpressions. Each looks at one node with final operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.dims import Facts
from anyshape.equations import Tensor
from anyshape.equations.expr import Read, Var
from anyshape.equations.traversal import walk
from anyshape.errors import AnyshapeError
from anyshape.graph.alike import alike
from anyshape.graph.infer import build, equations_of, tensors_of
from anyshape.graph.opdef import OpDef, ParamDef
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value, constant
from anyshape.types import TensorType


def fold_contents(node: Node) -> Sequence[Value] | None:
    """Outputs whose elements inference already knows are constants."""
    if node.checks or node.regions or not all(_concrete(v.contents) for v in node.outputs):
        return None
    if node.op.view and not _only_views(node):
        return None
    return [
        constant(np.array(v.contents, v.type.dtype.numpy).reshape(static_shape(v)), computed=True) for v in node.outputs
    ]


def _concrete(contents: Any) -> bool:
    return contents is not None and all(isinstance(e, (int, bool)) for e in contents)


def static_shape(v: Value) -> tuple[int, ...]:
    return tuple(n for n in v.type.shape or () if isinstance(n, int))


def redundant_views(node: Node) -> Sequence[Value] | None:
    """A view that changes nothing, and checks nothing, is what it views: a reshape to the same shape, a shape that was ensured and
    proved. A view would keep producer and consumer in different kernels."""
    if node.bound is None or not _only_views(node):
        return None
    t = node.outputs[0].type
    source = next((v for v in _behind(node) if v.type == t), None)
    return None if source is None else [source]


def _behind(view: Node) -> Iterator[Value]:
    """The values that a view shows: its operand, and if that is a view that checks nothing, the operand of this one, and so on."""
    source = viewed(view)
    while source is not None:
        yield source
        above = source.node
        source = viewed(above) if above is not None and _only_views(above) else None


def _only_views(node: Node) -> bool:
    """Whether a call checks nothing, and has no operand but what it is a view of that a check may stand behind."""
    source = viewed(node)
    beside = (v for v in node.data_inputs if v is not None and v is not source)
    return source is not None and not node.checks and len(node.outputs) == 1 and all(v.is_constant for v in beside)


def viewed(node: Node) -> Value | None:
    """The operand that a view is of."""
    if not node.op.view:
        return None
    source = node.grouped_inputs()[next(iter(node.op.view.values()))]
    return source if isinstance(source, Value) else None


def redundant_copies(node: Node) -> Sequence[Value] | None:
    """A call whose equation puts every element where it was is its operand: a conversion to the dtype that is there, a transposition of
    axes onto themselves."""
    data = [v for v in node.data_inputs if v is not None]
    if len(data) != 1 or len(node.outputs) != 1 or data[0].type != node.outputs[0].type:
        return None
    if node.checks or node.regions or node.bound is None or node.op.kernel is None or data[0].type.rank is None:
        return None
    ins, outs = tensors_of(node)
    equations = equations_of(node, ins, outs).equations
    if len(equations) != 1 or equations[0].form is not None:
        return None
    value, index = equations[0].value, equations[0].index
    same = isinstance(value, Read) and value.outside is None and value.index == index
    return data if same and all(isinstance(i, Var) for i in index) and len(set(index)) == len(index) else None


def sizes_of_operands(node: Node) -> Sequence[Value] | None:
    """A call that reads the sizes of an operand, and none of its elements, reads those of what the operand is computed of, if they are the
    same: then only who needs the elements reads the operand."""
    if node.outputs[0].contents is None or node.checks or node.regions or node.bound is None or node.op.kernel is None:
        return None
    sources = {v: _first_of_sizes(v) for v in node.data_inputs if v is not None}
    if any(v.type.rank is None for v in sources) or all(source is v for v, source in sources.items()):
        return None
    tensors: dict[Value, Tensor] = {}
    ins, outs = tensors_of(node, tensors)
    equations = equations_of(node, ins, outs).equations
    read = {e.tensor for q in equations for e in walk(q.value) if isinstance(e, Read)}
    moved = {v: source for v, source in sources.items() if source is not v and tensors[v] not in read}
    if not moved or len(node.outputs) != 1:
        return None
    data = len(node.data_inputs)
    inputs = [moved.get(v, v) if v is not None and k < data else v for k, v in enumerate(node.inputs)]
    try:
        said = build(node.op, inputs, node.attrs, node.source, count=node.count)
    except AnyshapeError:  # the op does not take the dtype
        return None
    same = not said.checks and said.outputs[0].type == node.outputs[0].type
    return said.outputs if same and said.outputs[0].contents == node.outputs[0].contents else None


def _first_of_sizes(v: Value) -> Value:
    """The first value of the same sizes that a value is computed of, or itself."""
    while (before := _of_same_sizes(v)) is not None:
        v = before
    return v


def _of_same_sizes(v: Value) -> Value | None:
    """An operand of the call that computes a value, of the same sizes, if the call checks nothing."""
    if v.node is None or v.node.checks or v.node.regions:
        return None
    return next((u for u in v.node.data_inputs if u is not None and u.type.shape == v.type.shape), None)


def dyn_to_static(node: Node) -> Sequence[Value] | None:
    """A dyn variant whose operands are all known (or absent) becomes the static one; every other attribute is carried over. So does one of
    which an operand decides the shape alone, if the static one says all of that shape with a single -1."""
    if node.op.variant != "dyn":
        return None
    attrs, open_ = dict(node.attrs), dict[str, Value]()
    for p, v in zip(node.op.operands, node.operand_inputs().values(), strict=True):
        if v is None:
            continue
        known = _attribute(p, v)
        if known is None:
            if not p.is_vector or open_ or p.name not in node.op.shaping:
                return None
            open_[p.name] = v
        else:
            attrs[p.name] = known
    static = all_ops().get(node.op.twin or "")
    if static is None:  # an op that no spec declares, such as a gradient
        return None
    if not open_:
        return build(static, node.data_inputs, attrs, node.source, count=node.count).outputs
    ((name, shape),) = open_.items()
    return _with_one_open(node, static, attrs, name, shape)


def _with_one_open(
    node: Node, static: OpDef, attrs: Mapping[str, Any], name: str, shape: Value
) -> Sequence[Value] | None:
    """The static call with -1 for the one size that is no number, if that is the same result and checks nothing else."""
    if node.bound is None or len(node.outputs) != 1:
        return None
    for sizes in (node.outputs[0].type.shape, shape.contents):
        if sizes is None or sum(not isinstance(n, int) or n == -1 for n in sizes) != 1:
            continue
        known = tuple(n if isinstance(n, int) else -1 for n in sizes)
        try:
            said = build(static, node.data_inputs, {**attrs, name: known}, node.source)
        except AnyshapeError:
            continue
        facts = Facts()
        for check in node.checks:
            facts.learn(check.cond)
        demanded = Facts()
        for check in said.checks:
            demanded.learn(check.cond)
        same = all(facts.decide(c.cond) is True for c in said.checks) and all(
            demanded.decide(c.cond) is True for c in node.checks
        )
        if said.bound is not None and said.outputs[0].type == node.outputs[0].type and same:
            return said.outputs
    return None


def _attribute(p: ParamDef, v: Value) -> Any:
    """The operand's value as an attribute, or None if it is not known."""
    if v.constant is not None:
        listed = v.constant.reshape(-1).tolist()
    elif _concrete(v.contents):
        listed = [bool(e) if p.kind == "bool" else e for e in v.contents or ()]
    else:
        return None
    if p.is_vector:
        return tuple(listed)
    return listed[0] if listed else None


def spec_rewrites(node: Node) -> Sequence[Value] | None:
    """The rewrites that the op's spec states, but those that would run a call which a check of what they replace refuses: a condition may
    hold by that check alone."""
    for rule in node.op.rewrites:
        replaced = rule.apply(node)
        if replaced is not None and _still_checks(node, replaced, rule.depth):
            return list(replaced)
    return None


def _still_checks(node: Node, replaced: Sequence[Value], depth: int) -> bool:
    """Whether what the node checks, and what the calls check that its pattern has within it, is checked by what the new values are made
    of. Checks about entry dims are none of theirs any more: they are made at the entry."""
    matched = [node]
    level = [node]
    for _ in range(depth - 1):
        level = [v.node for n in level for v in n.inputs if v is not None and v.node is not None]
        matched += level
    if not any(n.checks for n in matched):
        return True
    kept, needed = Facts(), set[Node]()
    pending = [v.node for v in replaced]
    while pending:
        n = pending.pop()
        if n is None or n in needed or (n.serial <= node.serial and n not in matched):
            continue
        needed.add(n)
        for check in n.checks:
            kept.learn(check.cond)
        pending += [v.node for v in n.inputs if v is not None]
    return all(kept.decide(check.cond) is True for n in matched if n not in needed for check in n.checks)


class CommonSubexpressions:
    """A call equal to an earlier one is that one. Operands are equal if all their elements are known and equal, be they numbers or dims:
    each layer of an exported model computes the same sizes anew. Large constants are equal if their arrays are. Views of one value with
    one type are equal, however their shape is spelled: `reshape(x, [-1])`, `reshape(x, [size(x)])` and `flatten` to a vector."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Any, ...], Node] = {}
        self.views: dict[tuple[Value, TensorType], Node] = {}
        self.constants: dict[tuple[Any, ...], int] = {}

    def inside(self) -> CommonSubexpressions:
        return CommonSubexpressions()

    def __call__(self, node: Node) -> Sequence[Value] | None:
        if node.op.is_random:
            return None
        key = (node.op, node.regions, tuple(self._key(v) for v in node.inputs), alike(node.attrs))
        first = self.seen.setdefault(key, node)
        first = self._same_view(node) if first is node else first
        return None if first is node else first.outputs

    def _same_view(self, node: Node) -> Node:
        """An earlier view of the same value that has the same type and checks all that this one does; the node itself if there is none."""
        *_, source = [None, *_behind(node)]
        t = node.outputs[0].type if node.outputs else None
        if source is None or t is None or t.shape is None or node.bound is None or len(node.outputs) != 1:
            return node
        first = self.views.setdefault((source, t), node)
        demanded = Facts()
        for check in first.checks:
            demanded.learn(check.cond)
        return first if all(demanded.decide(check.cond) is True for check in node.checks) else node

    def _key(self, v: Value | None) -> Any:
        if v is None:
            return v
        if v.contents is not None:
            return (v.type, v.contents)
        if v.constant is None:
            return v
        a = v.constant
        return (v.type, a.tobytes()) if a.size <= 64 else (id(a),)
