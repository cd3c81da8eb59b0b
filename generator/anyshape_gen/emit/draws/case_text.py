"""Prints parts of the function that draws a random call.

In: names, parameters, expressions. Out: text, or properties of an expression.
"""

from __future__ import annotations

from anyshape_gen.emit.calls.ops import default_text
from anyshape_gen.emit.rules.relations import NOT_LITERAL, literal
from anyshape_gen.emit.text.module import quoted, use
from anyshape_gen.model.nodes import BinOp, Expr, Unary
from anyshape_gen.model.spec import ParamSpec
from anyshape_gen.model.traverse import walk
from anyshape_gen.parse.values import CLASSES

TAKEN = ("d", "more", "some", "len", "range", "min", "place", "Vec", "Case")


def local(name: str) -> str:
    return f"{name}_" if name in TAKEN else name


def run_of(name: str, count: str) -> str:
    return f"{use('Vec')}(d.dim({quoted(name)}) for _ in range({count}))"


def there(name: str) -> str:
    return f"{name}_there"


def argument_text(p: ParamSpec, always: bool, early: bool) -> str:
    """Prints the argument of a parameter: its value or, at random, None for its default; where other draws depend on it, None only if the
    value is the default."""
    name = local(p.name)
    if always or p.default is None or (early and literal(p.default) is NOT_LITERAL):
        return name
    if not early:
        return f"d.default({name})"
    value = literal(p.default)
    return name if value is NOT_LITERAL else f"d.default({name}) if {name} == {value!r} else {name}"


def dtypes(p: ParamSpec) -> tuple[str, ...]:
    return CLASSES["any"] if default_text(p) == "None" else CLASSES["number"]


def may_subtract(e: Expr) -> bool:
    """Whether an expression can be negative although its names are not."""
    return any(isinstance(n, Unary) or (isinstance(n, BinOp) and n.op == "-") for n in walk(e))
