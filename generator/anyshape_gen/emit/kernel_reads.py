"""Reads of tensors, and the vectors of indices in them.

In: resolved reads. Out: `x[i, *fit(j, n)]`, and generators over the vectors in an index, item by item.
"""

from __future__ import annotations

from anyshape_gen.emit.kernel_scope import FUNCTIONS, KernelScope
from anyshape_gen.emit.names import kernel_name
from anyshape_gen.emit.refusal import Misused, NotExecuted
from anyshape_gen.emit.relations import is_constant
from anyshape_gen.emit.rule_text import ADD, ATOM, MUL, NEGATE
from anyshape_gen.nodes import (
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


class ReadText(KernelScope):
    """Spells reads."""

    def read(self, e: TensorRead) -> str:
        tensor = self.name(e.tensor)
        if e.element is not None:
            tensor = f"{tensor}[{self.text(e.element)}]"
        if e.outside is not None:
            tensor = f"pad({tensor}, {self.text(e.outside)})"
        read = f"checked({tensor})" if id(e) in self.unproved and e.outside is None else tensor
        text = f"{read}{self.index(e.parts)}"
        if e.absent is not None and not is_constant(e.absent):
            return f"({text} if {tensor}.absent is None else {self.text(e.absent)})"
        return text

    def index(self, parts: tuple[Part, ...]) -> str:
        items = [text for part in parts for text in self._part(part)]
        return f"[{', '.join(items)}]" if items else "[()]"

    def _part(self, part: Part) -> list[str]:
        match part:
            case Exact(items):
                return self.items(items)
            case Fit(items, extents):
                return [f"*fit({self._run(items)}, {self.text(extents)})"]
            case Placed(rest, picked, axes):
                return [f"*at({self._run(rest)}, {self._run(picked)}, {self.text(axes)})"]
            case Flat(items, factors):
                text = self.at_least(items[0], ADD)
                for item, factor in zip(items[1:], factors[1:]):
                    inner = text if text.isidentifier() else f"({text})"
                    text = f"{inner} * {self.at_least(factor, NEGATE)} + {self.at_least(item, MUL)}"
                return [text]
            case Offset(element, within, sizes):
                before = f"rules.prefix({self.text(sizes)})[{self.text(element)}]"
                if isinstance(sizes, Name) and sizes.id in self.rules.own_dims:
                    before = f"rules.before_of({self.text(sizes)}, {self.text(element)})"
                return [f"{before} + {self.at_least(within, MUL)}"]
            case Along():
                return [":"]

    def items(self, items: tuple[Item, ...]) -> list[str]:
        found = []
        for item in items:
            match item:
                case Star(value, None):
                    found.append(f"*{self.run(value)}")
                case Star() | Slice():
                    raise NotExecuted(item, "this index")
                case _:
                    found.append(self.text(item))
        return found

    def _run(self, items: tuple[Item, ...]) -> str:
        """Several items as one tuple."""
        match items:
            case (Star(value, None),):
                return self.run(value)
        texts = self.items(items)
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def run(self, e: Item) -> str:
        """A vector of indices: a name, or a generator over the vectors in it, item by item."""
        whole = self._whole(e)
        if whole is not None:
            return whole
        leaves: dict[str, str] = {}
        text = self._itemwise(e, leaves)
        if not leaves:
            raise Misused(e, "this is one number, and a vector of them is wanted here")
        names = ", ".join(leaves.values())
        domain = next(iter(leaves)) if len(leaves) == 1 else f"zip({', '.join(leaves)})"
        return f"({text} for {names} in {domain})"

    def _whole(self, e: Item) -> str | None:
        """A vector that is not made item by item from others; None for one that is."""
        if isinstance(e, Name) or self.is_size(e):
            return self.at_least(e, ATOM)
        match e:
            case VecLit(items):
                return self._run(items)
            case Call("put", (base, positions, items), ()) if not any(
                isinstance(x, (Star, Slice)) for x in (base, positions, items)
            ):
                put = self.run(items) if self.is_vector(items) else self.text(items)
                return f"rules.put({self.run(base)}, {self.text(positions)}, {put})"
            case Call("unravel", (position, extents), ()) if not isinstance(position, (Star, Slice)) and not isinstance(
                extents, (Star, Slice)
            ):
                return f"unravel({self.text(position)}, {self.run(extents)})"
            case Comprehension(element, (g,), ()) if len(g.targets) == 1 and g.over in (Over.EXTENT, Over.RANGE):
                return self._listed(element, g)
            case Index(base, (single,)) if not isinstance(single, (Star, Slice)):
                return f"tuple({self.run(base)}[p] for p in {self.text(single)})"
        return None

    def _listed(self, element: Expr, g: Generator) -> str:
        target = g.targets[0].name
        domain = f"range({self.text(g.domain)})" if g.over is Over.EXTENT else self.text(g.domain)
        return f"({self.text(element)} for {kernel_name(target)} in {domain})"

    def _itemwise(self, e: Item, leaves: dict[str, str]) -> str:
        """e with each vector in it replaced by one of its items; leaves: {vector: name of its item}."""
        inner = type(self)(self.kinds, self.attributes, self.dtypes, self.tensors, self.functions)
        inner.rules.sequence, inner.rules.own_dims = self.rules.sequence, self.rules.own_dims
        inner.used, inner.used_tensors, inner.variables = self.used, self.used_tensors, dict(self.variables)

        def replace(node: Item) -> Expr:
            if isinstance(node, (Star, Slice)):
                raise NotExecuted(node, "this vector of indices")
            if not self.is_vector(node):
                return node
            match node:
                case BinOp(op, left, right):
                    return BinOp(op, replace(left), replace(right))
                case Unary(op, operand):
                    return Unary(op, replace(operand))
                case IfExp(cond, then, other):
                    return IfExp(cond, replace(then), replace(other))
                case Call(func, args, ()) if func in FUNCTIONS or func in self.functions:
                    return Call(func, tuple(map(replace, args)))
            whole = self._whole(node)
            if whole is None:
                raise NotExecuted(node, "this vector of indices")
            if whole not in leaves:
                stem = f"{whole.strip('_')}_" if whole.isidentifier() else "p"
                leaves[whole] = f"{stem}{'' if whole.isidentifier() else len(leaves)}"
            inner.variables[leaves[whole]] = False
            return Name(leaves[whole])

        return inner.text(replace(e))
