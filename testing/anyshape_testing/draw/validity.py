"""Rejects draws that the rule of an op, or an assert that reads values, refuses."""

from __future__ import annotations

from dataclasses import replace

from hypothesis.errors import UnsatisfiedAssumption

from anyshape.dims import bounds
from anyshape.equations.builder import Demand, Run
from anyshape.errors import ShapeError
from anyshape.graph.value import Node
from anyshape.properties import BrokenReference
from anyshape_testing.calls.call import Call, build_call
from anyshape_testing.calls.contents import RISING
from anyshape_testing.calls.nodes import equations, equations_below, static_node
from anyshape_testing.draw.choices import MOST_ELEMENTS
from anyshape_testing.draw.random_call import MOST_STEPPED
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.execution.reference import run_reference

OUT_OF_RANGE = "an index out of range in the body"
"""The reason why a call of a composed op is rejected whose elements are wrong indices for an op in its body"""


def valid_node(c: Call) -> Node:
    """Builds the call of the static variant, which is cached; a draw that the rule refuses is rejected."""
    node = c.cached("node", c.op, lambda: _valid_node(c))
    if isinstance(node, str):
        raise UnsatisfiedAssumption(node)
    return node


def _valid_node(c: Call) -> Node | str:
    """Builds the call of the static variant, or says why it is rejected."""
    try:
        node = static_node(c)
    except ShapeError as e:
        return str(e)
    elements = sum(bounds(v.type.count())[1] or 0 for v in node.outputs)
    stepped = elements + sum(a.size for a in c.flat_inputs())
    if elements > 4 * MOST_ELEMENTS:
        return f"results of more than {4 * MOST_ELEMENTS} elements"
    if stepped > MOST_STEPPED and _is_procedure(node):
        return f"a procedure of more than {MOST_STEPPED} elements"
    return node if _holds_its_indices(c, node) else OUT_OF_RANGE


def _is_procedure(node: Node) -> bool:
    return node.op.composition is None and any(isinstance(q.form, Run) for q in equations_below(node))


def _holds_its_indices(c: Call, node: Node) -> bool:
    """Whether the reference of a composed op accepts these elements: its signature has no ranges for indices, so draws may leave them."""
    if node.op.composition is None:
        return True
    try:
        run_reference(c, node)
    except BrokenReference as e:
        if isinstance(e.__cause__, IndexError):
            return False
        raise
    return True


def allowed(c: Call) -> Call:
    """Returns the call if the rule and the asserts that read values accept it, else one with other contents that they accept. Rejects the
    draw where there is none."""
    said = refused_by_elements(c)
    if not said:
        return c
    assert c.recipe is not None
    rising = build_call(c.property, replace(c.recipe, style=RISING))
    said = refused_by_elements(rising)
    if not said:
        return rising
    raise UnsatisfiedAssumption(f"no contents that the asserts accept: {said}")


def refused_by_elements(c: Call) -> str:
    """What an assert that reads values says against a call; nothing where all accept it. Rejects a draw that the rule refuses."""
    node = valid_node(c)
    if node.op.kernel is None or not any(isinstance(q.form, Demand) for q in equations(node)[0].equations):
        return ""
    try:
        run_equations(c, node)
    except ShapeError as e:
        return str(e)
    return ""
