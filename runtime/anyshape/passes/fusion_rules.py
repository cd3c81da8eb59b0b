"""The rules by which nodes come to share a kernel, in the order in which they are tried.

`python -m anyshape.passes.fusion_rules` prints them.

In: an edge, a value with the node that reads it. Out: the groups that a rule makes one, or None. What holds for every rule is asked by
`fuse.py`. Rules look at equations and shapes, never at an op's name; what the lowering can do with equations, `kernel_model` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from anyshape.equations.expr import Read, Var
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.contractions import QuantisationConstants
from anyshape.kernel_model.forms import (
    KernelKind,
    classify,
    is_cheap,
    keeps_axes,
    looks_up,
    permutes,
    puts_rows,
    reads_along,
    reads_as_columns,
    reads_by_data,
    scales,
    sees_windows,
    widens,
)
from anyshape.kernel_model.left_operand import MOST_BESIDE
from anyshape.kernel_model.rows import by_rows, has_own_rows, multiplies_rows
from anyshape.passes.group_equations import GroupEquations
from anyshape.passes.group_graph import FusionGroup, GroupGraph
from anyshape.passes.simplify import viewed

Groups = Sequence[FusionGroup]


@dataclass(slots=True, eq=False, kw_only=True)
class Edge:
    """A value that a node reads, the group that computes it, and the group of the node. For contractions side by side: what both read, and
    the groups of both."""

    graph: GroupGraph
    stated: GroupEquations
    value: Value
    node: Node
    producer: FusionGroup
    consumer: FusionGroup

    @property
    def is_private(self) -> bool:
        """Whether nothing else reads the value."""
        return self.graph.is_read_by(self.value, self.producer, self.consumer)

    @property
    def has_same_domain(self) -> bool:
        return self.producer.shape == self.consumer.shape


class RuleStage(Enum):
    OPERAND = "for each operand"
    VIEW = "for each view"
    END = "at the end"


@dataclass(frozen=True, kw_only=True)
class FusionRule:
    """`joins`: the groups that become one, producers first; None where the rule does not apply. It is asked for producers and consumers
    of these kinds."""

    name: str
    description: str
    when: RuleStage
    producers: frozenset[KernelKind]
    consumers: frozenset[KernelKind]
    joins: Callable[[Edge], Groups | None]


def _pair(name: str, description: str, kinds: tuple[str, str], fits: Callable[[Edge], bool]) -> FusionRule:
    """A rule that makes producer and consumer one. `kinds`: those that either may be of."""

    def joins(e: Edge) -> Groups | None:
        several = any(e.graph.outputs_read(n) > 1 for n in (e.value.node, e.node) if n is not None)
        return (e.producer, e.consumer) if not several and fits(e) else None

    producers, consumers = map(_kinds, kinds)
    return FusionRule(
        name=name,
        description=description,
        when=RuleStage.OPERAND,
        producers=producers,
        consumers=consumers,
        joins=joins,
    )


def _kinds(names: str) -> frozenset[KernelKind]:
    return frozenset(map(KernelKind, names.split()))


# --- chains of contractions ---


def _rows_between(e: Edge) -> Groups | None:
    """The first contraction, its rows, and the contraction of these rows."""
    rows, second = e.producer, e.consumer
    if second.contractions > 1 or not e.is_private:
        return None
    if not multiplies_rows(e.stated.equations[e.node], e.stated.tensors[e.value]):
        return None
    scores = _scores(e, rows)
    return None if scores is None or scores.node is None else (e.graph.group_of[scores.node], rows, second)


def _scores(e: Edge, rows: FusionGroup) -> Value | None:
    """The result of a contraction of which the group computes its own, row by row, if nothing else reads it."""
    inputs = (v for n in rows.nodes for v in n.data_inputs if v is not None)
    for v in dict.fromkeys(v for v in inputs if v.node is not None and v.node not in rows.nodes):
        assert v.node is not None
        first = e.graph.group_of[v.node]
        same = first.kind is KernelKind.CONTRACTION and first.shape == v.type.shape == e.value.type.shape
        if same and first.contractions == 1 and not first.apart and e.graph.is_read_by(v, rows):
            stated = [e.stated.equations[n] for n in first.nodes if not n.op.view]
            products = [equations for equations in stated if classify(equations) is KernelKind.CONTRACTION]
            if has_own_rows(products) and by_rows(rows.equations, e.stated.tensors[v]):
                return v
    return None


# --- pairs ---


def _moves_along_axes(e: Edge) -> bool:
    """Whether the node moves the sums along their own axes. Axes in another order may be as long by chance: what is stored there is no
    product, or one without windows."""
    (q, *further) = e.stated.equations[e.node]
    return not further and e.has_same_domain and e.is_private and keeps_axes(q, e.stated.tensors[e.value])


def _stores_by_rows(e: Edge) -> bool:
    """Whether the node only puts the value's rows elsewhere: every axis once, the last one staying last."""
    (q, *further) = e.stated.equations[e.node]
    if further or not e.is_private or not puts_rows(q, e.stated.tensors[e.value]):
        return False
    # where its elements are found by no index of the value, it would have to be in memory first
    definition = e.stated.equations[e.value.node][-1] if e.value.node in e.stated.equations else q
    return all(isinstance(i, Var) for i in definition.index)


def _puts_axes_back(e: Edge) -> bool:
    """Whether rows read an operand through one change of its axes, and the node puts that axis last along which the operand lies: the
    channels of images that have them last, which are reduced as if they were first."""
    t, rows = e.stated.tensors[e.value], e.value.node
    moves = [n for n in e.producer.nodes if n is not rows and not n.op.view]
    (q, *further) = e.stated.equations[e.node]
    if further or len(moves) != 1 or not e.is_private or not permutes(q, t):
        return False
    (move, *more), operand = e.stated.equations[moves[0]], moves[0].inputs[0]
    stated = [r for r in e.stated.equations[rows] if r.target is t] if rows is not None else []
    if more or operand is None or len(stated) != 1 or not permutes(move, e.stated.tensors[operand]):
        return False
    assert isinstance(q.value, Read)
    assert isinstance(move.value, Read)
    last, along = q.value.index.index(q.index[-1]), move.index.index(move.value.index[-1])
    return reads_along(stated[0], move.target, along, last)


def _is_one_move(e: Edge) -> bool:
    """Permutations and slices fold into strides, moves of an epilogue's operand too; pieces of a concat do not, nor what data picks
    elements of, which are then side by side as the contraction reads them; and gathers do not come here."""
    if reads_by_data(e.stated.equations[e.node], e.stated.tensors[e.value]):
        return False
    return e.is_private and _is_of_single_equations(e.producer)


def _is_of_single_equations(group: FusionGroup) -> bool:
    """Whether each node of a group is one equation: none is a concat, whose pieces are several."""
    return len(group.equations) == sum(not n.op.view for n in group.nodes)


def _is_widened_as_read(e: Edge) -> bool:
    """Whether the contraction reads the numbers as they are before they are widened, as its columns; those of its rows it would pack, and
    then could read nothing else in place."""
    return (
        widens(e.producer.equations, _known(e, e.producer.nodes))
        and _is_one_move(e)
        and reads_as_columns(e.stated.equations[e.node], e.stated.tensors[e.value])
    )


def _is_widened_by_products(e: Edge) -> bool:
    """Whether the node widens numbers that have to be in memory, for contractions alone: these read them there as they are."""
    if e.producer.kind is KernelKind.MOVE and _is_of_single_equations(e.producer):
        return False
    return widens(e.stated.equations[e.node], _known(e, [e.node])) and _is_read_by_contractions_alone(
        e, lambda reader, v: reads_as_columns(e.stated.equations[reader], e.stated.tensors[v])
    )


def _known(e: Edge, nodes: Sequence[Node]) -> QuantisationConstants:
    """The constants that nodes read and a product may take out of its columns."""
    read = (v for n in nodes for v in n.data_inputs if v is not None)
    return QuantisationConstants.among({e.stated.tensors[v]: v.constant for v in read if v.constant is not None})


def _is_read_once_a_row(e: Edge) -> bool:
    """Whether nothing is computed twice for a row: it only moves, or its domain is that of the rows. Where windows read each element at
    every tap, it has to be cheap."""
    again = sees_windows(e.stated.equations[e.node], e.stated.tensors[e.value])
    if again and e.producer.kind is not KernelKind.MOVE and not is_cheap(e.producer.equations):
        return False
    shapes = [v.type.shape for v in e.node.inputs if v is not None and v.type.shape is not None]
    widest = max(shapes, key=len) if shapes else None
    return e.is_private and (e.producer.kind is KernelKind.MOVE or e.value.type.shape == widest)


def _may_be_computed_again(e: Edge) -> bool:
    if _is_widened_by_products(e):
        return False
    same = e.value.type.shape == e.node.outputs[0].type.shape
    again = e.producer.kind is KernelKind.MOVE or same or _may_be_repeated(e, e.producer)
    return e.is_private and (again or _moves_rows(e))


def _may_be_repeated(e: Edge, computed: FusionGroup) -> bool:
    """Whether a map may be computed in each of the places where the node puts its elements."""
    if widens(computed.equations, _known(e, computed.nodes)):
        return True
    moves = computed.kind is KernelKind.MOVE
    return is_cheap(computed.equations) and (
        moves or e.consumer.kind is not KernelKind.MOVE or not _is_read_by_contractions_alone(e, lambda reader, v: True)
    )


def _is_read_by_contractions_alone(e: Edge, fits: Callable[[Node, Value], bool]) -> bool:
    """Whether contractions that fit alone read what the node computes, moved and scaled or not: they read it where it lies before, and what
    is computed in each of several places would have to be in memory there. What they widen is computed in none."""
    left, seen = [e.node], {e.node}
    while left:
        outputs = left.pop().outputs
        if any(v in e.graph.results for v in outputs):
            return False
        for read, reader in ((v, r) for v in outputs for r in e.graph.readers.get(v, ()) if r not in seen):
            seen.add(reader)
            stated = e.stated.equations.get(reader, ())
            kind = None if reader.op.view else classify(stated)
            if kind is None or (kind is KernelKind.MOVE and stated) or _only_scales(e, reader):
                left.append(reader)
            elif kind is not KernelKind.CONTRACTION or not fits(reader, read):
                return False
    return True


def _only_scales(e: Edge, node: Node) -> bool:
    """Whether a node only multiplies by what a product may take out of its columns."""
    stated = e.stated.equations.get(node, [])
    return bool(stated) and scales(stated, _known(e, [node]))


def _moves_rows(e: Edge) -> bool:
    """Whether the node reads each element of the value once, by rows as they lie."""
    (q, *further) = e.stated.equations[e.node]
    return not further and puts_rows(q, e.stated.tensors[e.value])


# --- others ---


def _across_views(e: Edge) -> Groups | None:
    """The map before the views, the views, and the map behind them."""
    views: list[Node] = []
    seen: Value | None = e.value
    while seen is not None and seen.node is not None and seen.node.op.view:
        views.append(seen.node)
        seen = viewed(seen.node)
    if not views or seen is None or seen.node is None:
        return None
    producer, between = e.graph.group_of[seen.node], [e.graph.group_of[n] for n in reversed(views)]
    if producer.kind not in (KernelKind.MOVE, KernelKind.MAP) or any(len(g.nodes) > 1 for g in between):
        return None
    if e.graph.outputs_read(seen.node) > 1 or e.graph.outputs_read(e.node) > 1 or any(n.checks for n in views):
        return None
    inside = {*producer.nodes, *views, *e.consumer.nodes}
    if any(e.graph.is_read_outside(v, inside) for v in (seen, *(v for n in views for v in n.outputs))):
        return None
    same = seen.type.count() == e.node.outputs[0].type.count()
    again = same or (_may_be_repeated(e, producer) and not looks_up(producer.equations))
    return (producer, *between, e.consumer) if again else None


def _move_behind_views(e: Edge) -> Groups | None:
    """The groups, if the first one only moves elements, or widens them too and the contraction has them as its columns."""
    groups = _across_views(e)
    if groups is None or groups[0].kind is KernelKind.MOVE:
        return groups
    columns = reads_as_columns(e.stated.equations[e.node], e.stated.tensors[e.value])
    return groups if columns and widens(groups[0].equations, _known(e, groups[0].nodes)) else None


def _side_by_side(e: Edge) -> Groups | None:
    few = e.producer.contractions < MOST_BESIDE
    return (e.producer, e.consumer) if few and e.graph.are_apart(e.producer, e.consumer) else None


RULES = (
    FusionRule(
        name="rows between contractions",
        description="a contraction, rows of its result, and a contraction of these rows, if nobody else reads what is between",
        when=RuleStage.OPERAND,
        producers=_kinds("row"),
        consumers=_kinds("contraction"),
        joins=_rows_between,
    ),
    _pair(
        "epilogue of a contraction",
        "a map of a contraction's domain takes the sums from registers",
        ("contraction", "map"),
        lambda e: e.has_same_domain,
    ),
    _pair(
        "move behind a contraction",
        "a move of as many elements along the axes of the sums takes them from registers, if nobody else reads them",
        ("contraction", "move"),
        _moves_along_axes,
    ),
    _pair(
        "rows stored elsewhere",
        "a move that puts whole rows of a contraction elsewhere is where they are stored, if nobody else reads them",
        ("contraction", "map move"),
        _stores_by_rows,
    ),
    _pair(
        "epilogue of rows",
        "a map of the domain of a reduction's result follows it row by row",
        ("row", "map"),
        lambda e: e.has_same_domain,
    ),
    _pair(
        "move behind rows",
        "a move that puts axes back in the order in which the operand of a reduction lies is where that is stored",
        ("row", "move"),
        _puts_axes_back,
    ),
    _pair(
        "maps of one domain",
        "maps of one domain are one loop, whoever else reads what is between",
        ("map", "map"),
        lambda e: e.has_same_domain and not _is_widened_by_products(e),
    ),
    _pair(
        "move before a contraction",
        "moves that a contraction alone reads, not at places that data picks, are in its strides",
        ("move", "contraction"),
        _is_one_move,
    ),
    _pair(
        "widening before a contraction",
        "numbers of fewer bits that a contraction alone reads, as its columns, are widened as it reads them, moved or scaled or not",
        ("map", "contraction"),
        _is_widened_as_read,
    ),
    _pair(
        "prologue of rows",
        "a move, or a map of the rows' own domain, that a reduction alone reads is computed as it is read; under a window if it is cheap",
        ("move map", "row"),
        _is_read_once_a_row,
    ),
    _pair(
        "computed where it is read",
        "a move, a map of the reader's shape or whose rows it moves, or a cheap one, that a map or move alone reads is computed there",
        ("move map", "map move"),
        _may_be_computed_again,
    ),
    FusionRule(
        name="maps across views",
        description="maps with nothing but views between them, which nobody else reads, are one over the refinement of both shapes",
        when=RuleStage.VIEW,
        producers=_kinds("move"),
        consumers=_kinds("move map"),
        joins=_across_views,
    ),
    FusionRule(
        name="move behind views",
        description="moves and widenings a contraction alone reads through views are in its strides: keys repeated for a group's heads",
        when=RuleStage.VIEW,
        producers=_kinds("move map"),
        consumers=_kinds("contraction"),
        joins=_move_behind_views,
    ),
    FusionRule(
        name="side by side",
        description="contractions that read one operand alike, none of which needs another, are shared out to threads together",
        when=RuleStage.END,
        producers=_kinds("contraction"),
        consumers=_kinds("contraction"),
        joins=_side_by_side,
    ),
)  # fmt: skip
"""Operands are tried as a node is added, those of contractions first; of each the first rule that applies is taken. Moves with several
readers are tried again whenever all of these may be in one group."""


def table() -> str:
    """The rules as a table of Markdown."""
    lines = [f"| {k} | {r.name} | {r.description} | {r.when.value} |" for k, r in enumerate(RULES, 1)]
    return "\n".join(["| | rule | what becomes one kernel | tried |", "|---|---|---|---|", *lines])


if __name__ == "__main__":
    print(table())
