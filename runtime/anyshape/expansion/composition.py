"""Calls of composed ops become the calls that they are made of, once, before anything is fused.

In: a node of an op that has a `Composition`. Out: values in place of its outputs. The op's rule says the types; what its body turns out to
be is held against that.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import control
from anyshape.errors import AnyshapeError
from anyshape.graph.composition import Composing, is_guarded, output_of
from anyshape.graph.infer import build
from anyshape.graph.value import Node, Value


def body(node: Node) -> list[Value]:
    """The results of a call by its body, whatever the rule says of them. Raises what inference raises."""
    assert node.op.composition is not None
    results: list[Value] = []
    for v in node.op.composition.build(Composing(node, control)):
        results += v if isinstance(v, list | tuple) else [v]
    return results


def expand(node: Node) -> Sequence[Value] | None:
    """Returns the body of a call of a composed op; None where that is for later, since a rank is not known."""
    if node.op.composition is None or node.bound is None:
        return None
    try:
        results = body(node)
    except AnyshapeError as e:
        if str(e).startswith(node.op.full_name):
            raise
        raise type(e)(f"{node.op.full_name}: {e}") from e
    unguarded = bool(node.checks) and not is_guarded(node)
    ensured: list[Value] = []
    for k, (v, declared) in enumerate(zip(results, node.outputs, strict=True)):
        name, element = _output_at(node, k)
        if v.type == declared.type and not unguarded:
            ensured.append(v)
        else:
            op = output_of(node.op, name, declared.type.dtype.name)
            ensured += build(op, (v, *node.inputs), {**node.attrs, "element": element}, node.source).outputs
    return ensured


def _output_at(node: Node, k: int) -> tuple[str, int]:
    """The name of a result among the outputs, and which element it is of a variadic one, else -1."""
    outputs = node.op.outputs
    many = len(node.outputs) - len(outputs) + 1
    for o in outputs:
        if o.variadic:
            if k < many:
                return o.name, k
            k -= many
        else:
            if k == 0:
                return o.name, -1
            k -= 1
    raise AssertionError(f"{node} has no output {k}")
