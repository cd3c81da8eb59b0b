"""Infers static kinds of expressions: integer, vector, tensor …

In: an expression and the kinds of the names in scope. Out: a `ValueKind`; `ANY` where the kind is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.functions import FUNCTIONS
from anyshape_gen.model.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Float,
    Function,
    Generator,
    IfExp,
    Index,
    Int,
    Item,
    Method,
    Name,
    NoneLit,
    Over,
    Reduction,
    Slice,
    Star,
    Str,
    Unary,
    VecLit,
)

K = ValueKind
PARAM_KINDS = {
    "bool": K.BOOL,
    "int": K.INT,
    "float": K.FLOAT,
    "number": K.FLOAT,
    "str": K.STR,
    "enum": K.STR,
    "dtype": K.DTYPE,
    "axis": K.INT,
    "axes": K.VECTOR,
    "ints": K.VECTOR,
    "floats": K.VECTOR,
    "strs": K.TEXTS,
}
VECTOR_FUNCTIONS = {
    "shape", "fill", "put", "range", "sorted", "unique", "prefix", "unravel", "broadcast", "list", "drop", "place",
    "argsort", "zip", "enumerate", "infer_size",
}  # fmt: skip
INT_FUNCTIONS = {"len", "rank", "prod", "count", "ravel", "index", "exact_div", "sum", "argmax", "argmin", "int"}
BOOL_FUNCTIONS = {"broadcasts", "any", "all", "inside", "present", "is_int", "is_float", "is_narrow_float"}
CONSTANTS = {"inf": K.FLOAT, "pi": K.FLOAT}


class Kinds(dict[str, ValueKind]):
    """The kinds of the names in a scope, and the `define:` functions that its expressions may call."""

    def __init__(self, names: Mapping[str, ValueKind], functions: Mapping[str, Function]) -> None:
        super().__init__(names)
        self.functions = functions

    def of_call(self, f: Function, args: tuple[Item, ...]) -> ValueKind:
        """Infers the kind of a function's result for arguments of these kinds."""
        inner = Kinds({name: kind_of(arg, self) for name, arg in zip(f.args, args)}, self.functions)
        for assign in f.body:
            known = kind_of(assign.value, inner) if len(assign.names) == 1 else K.ANY
            inner.update(dict.fromkeys(assign.names, known))
        return kind_of(f.result, inner)


def kind_of(expr: Item, scope: Mapping[str, ValueKind]) -> ValueKind:
    """Infers the kind of an expression."""
    match expr:
        case Name(id=name):
            return scope.get(name, CONSTANTS.get(name, K.ANY))
        case Int():
            return K.INT
        case Float():
            return K.FLOAT
        case Str():
            return K.STR
        case Bool() | Compare() | BoolOp() | Unary(op="not"):
            return K.BOOL
        case NoneLit():
            return K.NONE
        case Unary(operand=operand):
            return kind_of(operand, scope)
        case BinOp(op=op, left=left, right=right):
            return _arithmetic(op, kind_of(left, scope), kind_of(right, scope))
        case IfExp(then=then, other=other):
            return _either(kind_of(then, scope), kind_of(other, scope))
        case VecLit(items=items):
            return K.TEXTS if items and all(_is_text(i, scope) for i in items) else K.VECTOR
        case Comprehension():
            return _of_items(expr, scope)
        case Reduction(kind="sorted" | "unique"):
            return _of_items(expr, scope)
        case Reduction(kind=kind):
            return K.VECTOR if kind in VECTOR_FUNCTIONS else K.BOOL if kind in BOOL_FUNCTIONS else K.INT
        case Call():
            return _call(expr, scope)
        case Index(base=base, items=items):
            return _index(kind_of(base, scope), items, scope)
        case Method(name=name):
            return K.STR if name in ("replace", "strip") else K.INT if name == "count" else K.TEXTS
        case Star(value=value):
            return kind_of(value, scope)
    return K.ANY


def _is_text(item: Item, scope: Mapping[str, ValueKind]) -> bool:
    """Whether an item of a vector literal is a string, or a starred vector of strings."""
    return kind_of(item, scope) == (K.TEXTS if isinstance(item, Star) else K.STR)


def _of_items(expr: Comprehension | Reduction, scope: Mapping[str, ValueKind]) -> ValueKind:
    """Infers the kind of a comprehension, or of a reduction, from that of its items."""
    inner = Kinds(scope, scope.functions if isinstance(scope, Kinds) else {})
    for generator in expr.generators:
        bind_generator(generator, inner)
    return K.TEXTS if kind_of(expr.element, inner) == K.STR else K.VECTOR


def _arithmetic(op: str, left: ValueKind, right: ValueKind) -> ValueKind:
    for dominant in (K.TENSOR, K.VECTOR, K.ANY):
        if dominant in (left, right):
            return dominant
    if op == "/" or K.FLOAT in (left, right):
        return K.FLOAT
    return K.INT


def _either(left: ValueKind, right: ValueKind) -> ValueKind:
    if left == right or right in (K.NONE, K.ANY):
        return left
    if left in (K.NONE, K.ANY):
        return right
    return K.VECTOR if K.VECTOR in (left, right) else left


def _call(expr: Call, scope: Mapping[str, ValueKind]) -> ValueKind:
    if isinstance(scope, Kinds) and expr.func in scope.functions:
        return scope.of_call(scope.functions[expr.func], expr.args)
    if expr.func in ("list", "sorted", "unique") and kind_of(expr.args[0], scope) in (K.STR, K.TEXTS):
        return K.TEXTS
    if expr.func in VECTOR_FUNCTIONS:
        return K.VECTOR
    if expr.func in INT_FUNCTIONS:
        return K.INT
    if expr.func in BOOL_FUNCTIONS:
        return K.BOOL
    kinds = [kind_of(arg, scope) for arg in expr.args]
    if expr.func in ("min", "max") and len(kinds) == 1:
        return K.INT
    if expr.func not in FUNCTIONS:
        return K.ANY
    # Any other function is elementwise: its result is a vector where an argument is one.
    return K.VECTOR if K.VECTOR in kinds else kinds[0] if kinds else K.ANY


def _index(base: ValueKind, items: tuple[Item, ...], scope: Mapping[str, ValueKind]) -> ValueKind:
    if not items and base in (K.INT, K.FLOAT, K.BOOL):
        return base  # a variable of a procedure
    if base == K.VECTORS:
        return K.VECTOR
    if base == K.TENSORS and len(items) == 1:
        return K.TENSOR
    if base in (K.VECTOR, K.TEXTS):
        many = len(items) == 1 and (isinstance(items[0], Slice) or kind_of(items[0], scope) == K.VECTOR)
        return base if many else K.STR if base == K.TEXTS else K.INT
    if base == K.STR:
        return K.STR
    return K.ANY


def generator_over(generator: Generator, scope: Mapping[str, ValueKind]) -> Over:
    """Classifies the domain of a generator."""
    if isinstance(generator.domain, Call) and generator.domain.func == "range":
        return Over.RANGE
    if any(target.run for target in generator.targets):
        return Over.EXTENTS
    kind = kind_of(generator.domain, scope)
    return Over.EXTENT if kind == K.INT else Over.ITEMS


def bind_generator(generator: Generator, scope: dict[str, ValueKind]) -> None:
    """Adds the variables of a generator to a scope."""
    kinds = [K.VECTOR if t.run else _item_kind(generator, k, scope) for k, t in enumerate(generator.targets)]
    scope.update((target.name, kind) for target, kind in zip(generator.targets, kinds))


def _item_kind(generator: Generator, position: int, scope: Mapping[str, ValueKind]) -> ValueKind:
    """Infers the kind of a generator's target, by its position among the targets."""
    domain = generator.domain
    if isinstance(domain, Call) and domain.func == "range":
        return K.INT
    if isinstance(domain, Name) and scope.get(domain.id) == K.VECTORS:
        return K.VECTOR
    if isinstance(domain, Call) and domain.func in ("zip", "enumerate"):
        inner = [kind_of(arg, scope) for arg in domain.args]
        if domain.func == "enumerate":
            inner = [K.VECTOR, *inner]
        if position < len(inner) and inner[position] in (K.TEXTS, K.STR):
            return K.STR
        return K.INT if all(kind in (K.VECTOR, K.TEXTS, K.STR) for kind in inner) else K.ANY
    kind = kind_of(domain, scope)
    return K.STR if kind in (K.TEXTS, K.STR) else K.INT if kind == K.INT else K.ANY
