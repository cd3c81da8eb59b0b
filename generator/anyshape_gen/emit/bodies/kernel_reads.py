"""Emits reads of tensors, and the vectors of indices in them.

In: resolved reads. Out: `x[i, *fit(j, n)]`, and generators over the vectors in an index, item by item.
"""

from __future__ import annotations

from anyshape_gen.emit.bodies.kernel_scope import FUNCTIONS, KernelScope
from anyshape_gen.emit.rules.relations import is_constant
from anyshape_gen.emit.rules.rule_text import ADD, ATOM, MUL, NEGATE
from anyshape_gen.emit.text.module import use
from anyshape_gen.emit.text.names import kernel_name
from anyshape_gen.emit.text.refusal import Misused, NotExecuted
from anyshape_gen.model.nodes import (
    Along,
    BinOp,
    Call,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Generator,
    IfExp,
    Index,
    Item,
    Name,
    Offset,
    Over,
    Part,
    Placed,
    Slice,
    Star,
    TensorRead,
    Unary,
    VecLit,
)


def read(s: KernelScope, e: TensorRead) -> str:
    """Emits a read, as an i64 where it is a part of an index."""
    text = _read(s, e)
    return f"{use('widened')}({text})" if s.in_place and e.tensor in s.narrow else text


def _read(s: KernelScope, e: TensorRead) -> str:
    tensor = s.name(e.tensor)
    if e.element is not None:
        tensor = f"{tensor}[{s.text(e.element)}]"
    if e.outside is not None:
        tensor = f"{use('pad')}({tensor}, {s.text(e.outside)})"
    read = f"{use('checked')}({tensor})" if id(e) in s.unproved and e.outside is None else tensor
    text = f"{read}{index(s, e.parts)}"
    if e.absent is not None and not is_constant(e.absent):
        return f"({text} if {tensor}.absent is None else {s.text(e.absent)})"
    return text


def index(s: KernelScope, parts: tuple[Part, ...]) -> str:
    with s.within(True):
        items = [text for part in parts for text in _part(s, part)]
    return f"[{', '.join(items)}]" if items else "[()]"


def _part(s: KernelScope, part: Part) -> list[str]:
    match part:
        case Exact(items):
            return _texts(s, items)
        case Fit(items, extents):
            return [f"*{use('fit')}({_run(s, items)}, {s.text(extents)})"]
        case Placed(rest, picked, axes):
            return [f"*{use('at')}({_run(s, rest)}, {_run(s, picked)}, {s.text(axes)})"]
        case Flat(items, factors):
            text = s.at_least(items[0], ADD)
            for item, factor in zip(items[1:], factors[1:]):
                inner = text if text.isidentifier() else f"({text})"
                text = f"{inner} * {s.at_least(factor, NEGATE)} + {s.at_least(item, MUL)}"
            return [text]
        case Offset(element, within, sizes):
            before = f"{use('rules')}.prefix({s.text(sizes)})[{s.text(element)}]"
            if isinstance(sizes, Name) and sizes.id in s.rules.own_dims:
                before = f"{use('rules')}.before_of({s.text(sizes)}, {s.text(element)})"
            return [f"{before} + {s.at_least(within, MUL)}"]
        case Along():
            return [":"]


def _texts(s: KernelScope, items: tuple[Item, ...]) -> list[str]:
    texts = []
    for item in items:
        match item:
            case Star(value, None):
                texts.append(f"*{run(s, value)}")
            case Star() | Slice():
                raise NotExecuted(item, "this index")
            case TensorRead():  # an index alone is made i64 by the read that it is of
                with s.within(False):
                    texts.append(s.text(item))
            case _:
                texts.append(s.text(item))
    return texts


def _run(s: KernelScope, items: tuple[Item, ...]) -> str:
    """Emits several items as one tuple."""
    match items:
        case (Star(value, None),):
            return run(s, value)
    texts = _texts(s, items)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def run(s: KernelScope, e: Item) -> str:
    """Emits a vector of indices: a name, or a generator over the items of the vectors in it."""
    whole = _whole(s, e)
    if whole is not None:
        return whole
    leaves: dict[str, str] = {}
    text = _itemwise(s, e, leaves)
    if not leaves:
        raise Misused(e, "this is one number, but a vector is required here")
    names = ", ".join(leaves.values())
    domain = next(iter(leaves)) if len(leaves) == 1 else f"zip({', '.join(leaves)})"
    return f"({text} for {names} in {domain})"


def _whole(s: KernelScope, e: Item) -> str | None:
    """Emits a vector that is not an elementwise expression of others; None for one that is."""
    if isinstance(e, Name) or s.is_size(e):
        return s.at_least(e, ATOM)
    match e:
        case VecLit(items):
            return _run(s, items)
        case Call("put", (base, positions, items), ()) if not any(
            isinstance(x, (Star, Slice)) for x in (base, positions, items)
        ):
            put = run(s, items) if s.is_vector(items) else s.text(items)
            return f"{use('rules')}.put({run(s, base)}, {s.text(positions)}, {put})"
        case Call("unravel", (position, extents), ()) if not isinstance(position, (Star, Slice)) and not isinstance(
            extents, (Star, Slice)
        ):
            return f"{use('unravel')}({s.text(position)}, {run(s, extents)})"
        case Comprehension(element, (g,), ()) if len(g.targets) == 1 and g.over in (Over.EXTENT, Over.RANGE):
            return _listed(s, element, g)
        case Index(base, (single,)) if not isinstance(single, (Star, Slice)):
            return f"tuple({run(s, base)}[p] for p in {s.text(single)})"
    return None


def _listed(s: KernelScope, element: Expr, g: Generator) -> str:
    target = g.targets[0].name
    domain = f"range({s.text(g.domain)})" if g.over is Over.EXTENT else s.text(g.domain)
    return f"({s.text(element)} for {kernel_name(target)} in {domain})"


def _itemwise(s: KernelScope, e: Item, leaves: dict[str, str]) -> str:
    """Emits e with each vector in it replaced by an item of it; `leaves`: {vector: name of its item}."""
    inner = type(s)(s.kinds, s.attributes, s.dtypes, s.tensors, s.functions)
    inner.rules.sequence, inner.rules.own_dims = s.rules.sequence, s.rules.own_dims
    inner.in_place, inner.narrow, inner.lazy = s.in_place, s.narrow, s.lazy
    inner.used, inner.used_tensors, inner.variables = s.used, s.used_tensors, dict(s.variables)

    def replace(node: Item) -> Expr:
        if isinstance(node, (Star, Slice)):
            raise NotExecuted(node, "this vector of indices")
        if not s.is_vector(node):
            return node
        match node:
            case BinOp(op, left, right):
                return BinOp(op, replace(left), replace(right))
            case Unary(op, operand):
                return Unary(op, replace(operand))
            case IfExp(cond, then, other):
                return IfExp(cond, replace(then), replace(other))
            case Call(func, args, ()) if func in FUNCTIONS or func in s.functions:
                return Call(func, tuple(map(replace, args)))
        whole = _whole(s, node)
        if whole is None:
            raise NotExecuted(node, "this vector of indices")
        if whole not in leaves:
            stem = f"{whole.strip('_')}_" if whole.isidentifier() else "p"
            leaves[whole] = f"{stem}{'' if whole.isidentifier() else len(leaves)}"
        inner.variables[leaves[whole]] = False
        return Name(leaves[whole])

    return inner.text(replace(e))
