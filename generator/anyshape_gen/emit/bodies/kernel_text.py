"""Emits expressions of kernels as Python that calls `anyshape.equations.functions`.

In: resolved nodes. Out: text, and the names of the rule that it reads (`used`). An expression that depends on no index variable
and no tensor is a size or an attribute, and is emitted as in a rule; any other is an expression of equations.
"""

from __future__ import annotations

from anyshape_gen.emit.bodies.kernel_reads import read, run
from anyshape_gen.emit.bodies.kernel_reductions import reduction
from anyshape_gen.emit.bodies.kernel_scope import CLASSES, FUNCTIONS, KernelScope, chain, is_of_extremes, joined
from anyshape_gen.emit.rules.rule_text import ADD, ATOM, MUL, NEGATE, TERNARY, Spelled
from anyshape_gen.emit.text.module import use
from anyshape_gen.emit.text.names import kernel_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.functions import CASTS
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Reduction,
    Slice,
    Star,
    Str,
    TensorRead,
    Unary,
)
from anyshape_gen.model.traverse import walk_all

_DIVIDED = {"//": "quotient", "%": "remainder"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class KernelText(KernelScope):
    """Emits all expressions of an equation."""

    def spell(self, e: Item) -> Spelled:
        if self.is_size(e):
            return self.rules.spell(e)
        if self.in_place and (isinstance(e, (Compare, BoolOp, Unary)) and getattr(e, "op", "") != "-"):
            with self.within(False):
                return self.spell(e)
        match e:
            case TensorRead():
                return read(self, e), ATOM
            case Name():
                return self.name(e.id), ATOM
            case Unary("-", operand):
                return f"-{self.at_least(operand, NEGATE)}", NEGATE
            case Unary(_, operand):
                match operand:
                    case Call("present", (x,), ()):
                        return f"{self.text(x)}.absent is not None", TERNARY
                if self.is_static(operand):
                    return f"not {self.at_least(operand, NEGATE)}", TERNARY
                return f"{use('not_')}({self.text(operand)})", ATOM
            case BinOp(op, left, right):
                return self._binary(op, left, right)
            case Compare(first, rest):
                return self._compare(e, first, rest)
            case BoolOp(op, items):
                if self.is_static(e):
                    return f" {op} ".join(self.at_least(x, NEGATE) for x in items), TERNARY
                return joined(self, op, items), ATOM
            case IfExp(cond, then, other):
                return self._conditional(cond, then, other)
            case Call():
                return self._call(e)
            case Reduction():
                return reduction(self, e), ATOM
            case Index(base, (single,)) if not isinstance(single, (Star, Slice)):
                return self._item(base, single)
        raise NotExecuted(e, f"{type(e).__name__.lower()} in a kernel")

    def _binary(self, op: str, left: Expr, right: Expr) -> Spelled:
        level = ADD if op in ("+", "-") else MUL
        if op == "**":
            return f"{self.at_least(left, ATOM)} ** {self.at_least(right, ATOM)}", MUL
        if (
            op in _DIVIDED
            and not isinstance(right, Int)
            and not any(isinstance(n, TensorRead) for n in walk_all((left, right)))
        ):
            return f"{use(_DIVIDED[op])}({self.text(left)}, {self.text(right)})", ATOM  # of a zip over dims, numbers
        first = self.at_least(left, level)
        if self.is_size(left) and self.is_size(right):
            first = f"{use('as_expr')}({self.text(left)})"
        return f"{first} {op} {self.at_least(right, level + 1)}", level

    def _compare(self, e: Compare, first: Expr, rest: tuple[tuple[str, Expr], ...]) -> Spelled:
        sides = [first, *(x for _, x in rest)]
        if any(isinstance(x, Str) for x in sides) and len(rest) == 1:
            return f"({self.text(first)} {rest[0][0]} {self.text(rest[0][1])})", ATOM
        if is_of_extremes(e):
            return f"({self.text(first)} {' '.join(f'{op} {self.text(right)}' for op, right in rest)})", ATOM
        tests = []
        for (op, right), left in zip(rest, sides):
            if op not in _COMPARE:
                raise NotExecuted(e, f"`{op}` between elements")
            tests.append(f"{use(_COMPARE[op])}({self.text(left)}, {self.text(right)})")
        return chain("and_", tests), ATOM

    def _conditional(self, cond: Expr, then: Expr, other: Expr) -> Spelled:
        if self.is_static(cond):
            text = f"{self.at_least(then, ADD)} if {self.at_least(cond, TERNARY)} else {self.at_least(other, TERNARY)}"
            return text, TERNARY
        return f"{use('where')}({self.text(cond)}, lambda: {self.text(then)}, lambda: {self.text(other)})", ATOM

    def _call(self, e: Call) -> Spelled:
        if e.keywords:
            raise NotExecuted(e, f"{e.func} with keywords")
        plain = [a for a in e.args if not isinstance(a, (Star, Slice))]
        if len(plain) != len(e.args):
            raise NotExecuted(e, f"a run as an argument of {e.func}")
        if e.func in CLASSES:
            return f"{self.dtype_text(plain[0])}.{CLASSES[e.func]}", ATOM
        if e.func == "present":
            return f"({self.text(plain[0])}.absent is None)", ATOM
        if e.func in ("inside", "ravel"):
            return f"{use(e.func)}({run(self, plain[0])}, {run(self, plain[1])})", ATOM
        if e.func in ("cast", "saturate", "bitcast"):
            with self.within(False):
                return f"{use(e.func)}({self.text(plain[0])}, {self.dtype_text(plain[1])})", ATOM
        if e.func in ("lowest", "highest"):
            return f"{use(e.func)}({self.dtype_text(plain[0])})", ATOM
        if e.func == "entropy":
            return f"{use('entropy')}()", ATOM
        if e.func in self.dtypes or e.func in CASTS:
            inner = plain[0]
            if isinstance(inner, Call) and inner.func == "philox":
                arguments = ", ".join(self.text(a) for a in inner.args if not isinstance(a, (Star, Slice)))
                return f"{use('philox')}({arguments}, {self.dtype_text(Name(e.func))})", ATOM
            with self.within(False):
                return f"{use('cast')}({self.text(plain[0])}, {self.dtype_text(Name(e.func))})", ATOM
        if e.func in self.functions:
            return f"{kernel_name(e.func)}({', '.join(map(self.text, plain))})", ATOM
        if e.func == "wrap" and isinstance(plain[0], TensorRead):
            with self.within(False):
                return f"{use('wrap')}({self.text(plain[0])}, {self.text(plain[1])})", ATOM
        if e.func in FUNCTIONS:
            return f"{use(FUNCTIONS[e.func])}({', '.join(map(self.text, plain))})", ATOM
        raise NotExecuted(e, f"{e.func}() of elements")

    def dtype_text(self, e: Expr) -> str:
        """Emits a dtype: a variable, a dtype parameter, or a name."""
        if not isinstance(e, Name):
            raise NotExecuted(e, "a computed dtype")
        return self.dtype_named(e.id)

    def dtype_named(self, name: str) -> str:
        if name in self.dtypes:
            return f'eqs.dtypes["{self.dtypes[name]}"]'
        if self.kinds.get(name) is ValueKind.DTYPE:
            return self.name(name)
        return f'{use("parse_dtype")}("{name}")'

    def _item(self, base: Expr, position: Expr) -> Spelled:
        """Emits an item of a vector: an index where the position is known, a selection where it is an index variable."""
        if self.is_size(position):
            return f"{self.at_least(base, ATOM)}[{self.text(position)}]", ATOM
        return f"{use('item')}({self.text(base)}, {self.text(position)})", ATOM
