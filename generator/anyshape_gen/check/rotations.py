"""Transforms in steps: proves that the rotations of the circle that the steps multiply by are that of the whole transform.

In: `rotations:` of an op: which rotation the whole transform multiplies a sample by for a frequency, and which ones its steps do.
Out: findings.

A rotation `[a, b, size]` is the power a * b of a root of unity of order `size`: the fraction a * b / size of the circle. Fractions
that differ by an integer are one rotation, so the steps are the whole where their sum is its fraction but for an integer. Both are
polynomials in the places and the sizes, divided by sizes: the difference is an integer for all numbers where it is a polynomial with
integer coefficients. The places of samples and of frequencies must also name each sample and each frequency once.
"""

from __future__ import annotations

from fractions import Fraction

from anyshape_gen.model.body_nodes import Set
from anyshape_gen.model.nodes import BinOp, Call, Expr, Int, Name, Node
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec, Rotation
from anyshape_gen.model.traverse import walk

WHOLE = "whole"
"""The rotation of the whole transform; all others are those of steps."""
Powers = tuple[tuple[str, int], ...]
"""Names with their exponents, which may be negative"""
Polynomial = dict[Powers, Fraction]


def check_rotations(spec: OpSpec, findings: Findings) -> None:
    """Checks the rotations of an op, and that its body has a table of each."""
    rotations = {t.name: t for t in spec.rotations}
    whole = rotations.pop(WHOLE, None)
    if whole is None or spec.compose is None:
        if spec.rotations:
            findings.add(
                spec.rotations[0].span,
                "rotations are of a composition, and one of them is that of the `whole` transform",
            )
        return
    try:
        size = _polynomial(whole.size)
        for part, what in ((whole.first, "sample"), (whole.second, "frequency")):
            if not _names_each_once(_polynomial(part), size):
                findings.add(
                    part.span, f"this does not name each {what} once: expected a place and another one times a size"
                )
                return
        rest = _fraction(whole)
        for t in rotations.values():
            rest = _sum(rest, _fraction(t), Fraction(-1))
            _check_table(spec, t, findings)
    except NotAPolynomial as e:
        findings.add(
            e.node.span,
            "a rotation is made of places and sizes by `+`, `-` and `*`; its last entry is a product of sizes",
        )
        return
    wrong = next((p for p, c in rest.items() if c.denominator != 1 or any(n < 0 for _, n in p)), None)
    if wrong is not None:
        text = (
            f"these steps are not the whole transform: rotations by {_text(wrong, rest[wrong])} of the circle are left"
        )
        findings.add(whole.span, text)


class NotAPolynomial(Exception):
    """An expression of another form."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


def _polynomial(e: Expr) -> Polynomial:
    match e:
        case Int(value):
            return {(): Fraction(value)} if value else {}
        case Name(id):
            return {((id, 1),): Fraction(1)}
        case BinOp("*", left, right):
            return _product(_polynomial(left), _polynomial(right))
        case BinOp("+" | "-" as op, left, right):
            return _sum(_polynomial(left), _polynomial(right), Fraction(1 if op == "+" else -1))
    raise NotAPolynomial(e)


def _sum(a: Polynomial, b: Polynomial, times: Fraction) -> Polynomial:
    total = {p: a.get(p, Fraction(0)) + times * b.get(p, Fraction(0)) for p in (*a, *b)}
    return {p: c for p, c in total.items() if c}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for p, c in a.items():
        for q, d in b.items():
            exponents = {name: dict(p).get(name, 0) + dict(q).get(name, 0) for name, _ in (*p, *q)}
            powers = tuple(sorted((name, n) for name, n in exponents.items() if n))
            total = _sum(total, {powers: c * d}, Fraction(1))
    return total


def _fraction(t: Rotation) -> Polynomial:
    """The fraction of the circle that a rotation is."""
    size = _polynomial(t.size)
    if len(size) != 1:
        raise NotAPolynomial(t.size)
    ((powers, factor),) = size.items()
    inverse = {tuple((name, -n) for name, n in powers): 1 / factor}
    return _product(_product(_polynomial(t.first), _polynomial(t.second)), inverse)


def _names_each_once(places: Polynomial, size: Polynomial) -> bool:
    """Whether places are `a + r * b` for a size r that `size` is a multiple of: a below r, and b below what is left of the size."""
    lone = [p for p, c in places.items() if len(p) == 1 and p[0][1] == 1 and c == 1]
    scaled = [p for p, c in places.items() if len(p) == 2 and all(n == 1 for _, n in p) and c == 1]
    if len(places) != 2 or len(lone) != 1 or len(scaled) != 1 or len(size) != 1:
        return False
    ((powers, _),) = size.items()
    sizes = {name for name, n in powers if n == 1}
    outer = {name for name, _ in scaled[0]}
    return len(outer & sizes) == 1 and not {name for name, _ in lone[0]} & (outer | sizes)


def _check_table(spec: OpSpec, t: Rotation, findings: Findings) -> None:
    """Checks that the body assigns the name of a rotation what it calls with that size."""
    assert spec.compose is not None
    assigned = (
        n.value for n in walk(spec.compose) if isinstance(n, Set) and [to.tensor for to in n.targets] == [t.name]
    )
    called = (n for value in assigned for n in walk(value) if isinstance(n, Call))
    if not any(
        name == "size" and _polynomial(value) == _polynomial(t.size) for n in called for name, value in n.keywords
    ):
        findings.add(
            t.span, f"the body must assign '{t.name}' a table of rotations, a call with `size=` what is said here"
        )


def _text(powers: Powers, factor: Fraction) -> str:
    above = [name for name, n in powers for _ in range(n)]
    below = [name for name, n in powers for _ in range(-n)]
    number = [] if abs(factor) == 1 and above else [str(abs(factor))]
    return " * ".join([*number, *above]) + "".join(f" / {name}" for name in below)
