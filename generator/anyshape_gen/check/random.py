"""Checks random numbers: each has a dtype, and only ops with the trait `random` differ from run to run.

In: an `OpSpec`. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape_gen.model.body_nodes import Equation
from anyshape_gen.model.nodes import Call, Node
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import children, walk_all
from anyshape_gen.parse.values import CLASSES

NAMED = ("f32", "f64", "i32", "i64")
"""Dtypes by whose names an expression casts"""
UNFIT = {"bool", *CLASSES["narrow"]}
"""Dtypes that no random number has"""


def check_random(spec: OpSpec, findings: Findings) -> None:
    _numbers(spec, findings)
    _entropy(spec, findings)


def _numbers(spec: OpSpec, findings: Findings) -> None:
    """Checks that every philox() is the argument of a cast to a dtype."""
    choices = {rule.var: rule.choices for rule in spec.dtypes}
    bodies: list[Node] = [*spec.defines, *([spec.kernel] if spec.kernel is not None else [])]
    for parent, call in _with_parent(bodies):
        if call.func != "philox":
            continue
        maker = parent.func if isinstance(parent, Call) else ""
        if maker not in NAMED and maker not in choices:
            text = "philox() needs a dtype, which decides how many bits it draws: write T(philox(seed, position)), with a dtype T"
            findings.add(call.span, text)
        for unfit in (c for c in choices.get(maker, ()) if c in UNFIT):
            findings.add(call.span, f"philox() cannot draw {unfit}, which is among the dtypes of '{maker}'")
            break


def _with_parent(nodes: list[Node]) -> Iterator[tuple[Node | None, Call]]:
    stack: list[tuple[Node | None, Node]] = [(None, n) for n in reversed(nodes)]
    while stack:
        parent, node = stack.pop()
        if isinstance(node, Call):
            yield parent, node
        stack.extend((node, child) for child in reversed(children(node)))


def _entropy(spec: OpSpec, findings: Findings) -> None:
    """Checks that entropy() is the whole right side of an equation for the only element of an output, in an op with the trait `random`."""
    equations = spec.kernel.equations if spec.kernel is not None else ()
    whole = {id(e.value) for e in equations if _is_single(spec, e)}
    calls = [n for n in walk_all([*spec.defines, *equations]) if isinstance(n, Call) and n.func == "entropy"]
    for call in calls:
        if id(call) not in whole:
            text = (
                "entropy() must be the whole right side of the equation of an output without dims: `y[()] = entropy()`"
            )
            findings.add(call.span, text)
        elif "random" not in spec.traits:
            findings.add(call.span, "results of entropy() differ from run to run: the op needs the trait `random`")
    if "random" in spec.traits and not calls:
        text = f"'{spec.name}' has the trait `random`, but does not call entropy(): equal calls have equal results"
        findings.add(spec.span, text)


def _is_single(spec: OpSpec, e: Equation) -> bool:
    output = spec.output(e.target.tensor)
    alone = e.op == "=" and not e.conditions and output is not None and not output.signature.pieces
    return alone and output is not None and output.signature.variadic is None
