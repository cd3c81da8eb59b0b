"""Branches that give a value of another rank each, in loops and in functions that are called: what reads the value moves into them.

In: a function in whose regions, or in what it calls, an `if` has a result of unknown rank that other nodes read. Out: the function with
these nodes in each branch of that `if`, where the rank is known. Outside of loops and called functions, this pass is not needed: a
continuation takes the branch that the run decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.errors import ShapeError
from anyshape.graph.function import Function
from anyshape.graph.infer import build, rebuild
from anyshape.graph.regions import captures, close, failed, params_for, retyped, spliced
from anyshape.graph.value import Node, Value, mark
from anyshape.passes.callees import everywhere

LIMIT = 64
"""How many branches the nodes behind a branch may be copied into; each copy has kernels of its own."""


def moved_into_branches(f: Function) -> Function:
    """f with the readers of values of unknown rank moved into the branches that give these; f itself where there are none, or where they
    would become more than LIMIT copies."""
    return everywhere(f, lambda: (_in_regions,))


def in_called(f: Function) -> Function:
    """Moves the readers of values of unknown rank into branches, in the body of a function that is called."""
    moved = _moved(f)
    return moved if _copies(moved) <= LIMIT else f


def _in_regions(node: Node) -> Sequence[Value] | None:
    control = node.op.control
    if control is None or not any(r.params and n.is_open for r in node.regions for n in r.nodes):
        return None
    typed = first_run(node)
    regions = tuple(map(_moved, typed))
    if all(a is b for a, b in zip(typed, regions)) or sum(map(_copies, regions)) > LIMIT:
        return None
    return build(node.op, node.inputs, node.attrs, node.source, regions=regions).outputs


def first_run(node: Node) -> tuple[Function, ...]:
    """The regions of a node typed for its operands alone: what a loop carries has the rank that it has in the first iteration."""
    assert node.op.control is not None
    operands = (*node.inputs[: node.op.control.captures_from(node)], *node.op.control.captured(node))
    return tuple(r if r.failure else _typed(r, [v for v in operands if v is not None]) for r in node.regions)


def _typed(region: Function, operands: Sequence[Value]) -> Function:
    own = len(region.params) - len(operands)
    params = [*region.params[:own], *params_for(region.params[own:], operands)]
    return retyped(region, params, dict(zip(region.params, params, strict=True)))


def _copies(f: Function) -> int:
    """How many branches without branches are in a function."""
    return sum(sum(max(_copies(r), 1) for r in node.regions) for node in f.nodes if len(node.regions) > 1)


def _moved(f: Function) -> Function:
    """The function, or region, with all that reads a value of unknown rank in the branches that give it."""
    for node in f.nodes:
        is_open = len(node.regions) > 1 and any(v.type.shape is None for v in node.outputs)
        behind = _readers(f, node) if is_open else []
        results = _with(node, behind, f.results) if behind else None
        if results is not None:
            return _moved(Function(f.params, results, f.name, f.result_names, checks=f.checks, form=f.form))
    return f


def _readers(f: Function, node: Node) -> list[Node]:
    """The nodes that read results of a node, directly or not."""
    read = set(node.outputs)
    readers = []
    for n in f.nodes:
        if any(v in read for v in n.inputs):
            readers.append(n)
            read.update(n.outputs)
    return readers


def _with(node: Node, behind: Sequence[Node], results: Sequence[Value]) -> list[Value] | None:
    """The results of a function in which the nodes behind a branch are in it; None where a branch relies on checks of its surroundings."""
    control = node.op.control
    assert control is not None
    inside = {v for n in (node, *behind) for v in n.outputs}
    moved = list(dict.fromkeys(v for v in results if v in inside))
    sides: list[tuple[list[Value] | str, int]] = []
    for region in node.regions:
        since = mark()
        own = [] if region.failure else spliced(region, control.captured(node))
        if own is None:
            return None
        sides.append((region.failure or _branch(own, node, behind, moved), since))
    built = [(s, since) for s, since in sides if not isinstance(s, str)]
    captured = tuple(dict.fromkeys(v for s, since in built for v in captures(s, (), since)))
    regions = []
    for region, (s, since) in zip(node.regions, sides):
        if isinstance(s, str):
            regions.append(failed(region.name, close(region.name, (), (), captured, since).params, s))
        else:
            regions.append(_moved(close(region.name, s, (), captured, since)))
    inputs = (*captured, *node.inputs[len(control.captured(node)) :])
    again = build(node.op, inputs, node.attrs, node.source, regions=tuple(regions))
    final = dict(zip(moved, again.outputs, strict=True))
    return [final.get(v, v) for v in results]


def _branch(own: Sequence[Value], node: Node, behind: Sequence[Node], results: Sequence[Value]) -> list[Value] | str:
    """The results of a branch and of the nodes behind it, or why it cannot be taken."""
    mapped: dict[Value, Value] = dict(zip(node.outputs, own, strict=True))
    try:
        for n in behind:
            rebuilt = rebuild(n, tuple(v if v is None else mapped.get(v, v) for v in n.inputs))
            mapped.update(zip(n.outputs, rebuilt.outputs, strict=True))
    except ShapeError as e:
        return str(e)
    return [mapped[v] for v in results]
