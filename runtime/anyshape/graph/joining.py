"""What two values have in common: the type of a result that comes from one branch or another, from this iteration or the next.

Equal dims stay; unequal ones become a symbol that is equal to nothing else. Ranks that differ give an unknown rank. Elements that are
known and equal on both sides stay known. Of lists, what their elements have in common is joined; dims that are not equal differ from
element to element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from anyshape.dims import Dim, Facts, Size, bounds, free_symbols, fresh
from anyshape.errors import DtypeError
from anyshape.graph.value import Contents, Element, Node, Value
from anyshape.types import DIFFERS, FunctionType, ListType, TensorType, list_of

Sides = tuple[str, str]
"""Places of the first type and of the second one in the words of a message: ("in the branch then", "in the branch otherwise")."""


def joined_type(values: Sequence[Value], where: str, sides: Sides, facts: Facts | None = None) -> TensorType:
    """The type that one or two values have in common. Raises DtypeError with both types where their dtypes differ."""
    first, last = values[0].type, values[-1].type
    if isinstance(first, FunctionType) or isinstance(last, FunctionType):
        if first != last:
            raise _unlike(where, first, last, sides)
        return first
    if isinstance(first, ListType) or isinstance(last, ListType):
        return first if len(values) == 1 else joined_list(first, last, where, sides)
    if first.dtype is not last.dtype:
        raise _unlike(where, first, last, sides)
    shapes = [spelled_type(v.type, facts).shape for v in values]
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes) or len({len(s) for s in known}) > 1:
        return TensorType(first.dtype, None)
    return TensorType(first.dtype, tuple(joined_size(sizes) for sizes in zip(*known, strict=True)))


def _unlike(where: str, a: TensorType, b: TensorType, sides: Sides, why: str = "") -> DtypeError:
    return DtypeError(f"{where} is {a} {sides[0]} and {b} {sides[1]}{why}")


def unlike_ranks(nodes: Iterable[Node]) -> str:
    """Names the first result that has one rank in a branch and another one in the other, with both types; empty where there is none."""
    for n in nodes:
        taken = [r for r in n.regions if not r.failure]
        for k, v in enumerate(n.outputs if len(taken) > 1 else ()):
            if v.type.shape is None:
                said = " and ".join(f"{r.results[k].type} in the branch {r.name}" for r in taken)
                return f"{n.op.full_name}{f' ({n.source})' if n.source else ''}: result {k} is {said}"
        inside = unlike_ranks(n for r in taken for n in r.nodes)
        if inside:
            return inside
    return ""


def joined_list(a: TensorType, b: TensorType, where: str, sides: Sides = ("on one side", "on the other")) -> ListType:
    """The list type that both lists have. Raises DtypeError where only one is a list, or their elements are of different kinds."""
    if not (isinstance(a, ListType) and isinstance(b, ListType) and (a.optional, a.depth) == (b.optional, b.depth)):
        raise _unlike(where, a, b, sides)
    if a.tensor.dtype is not b.tensor.dtype:
        raise _unlike(where, a, b, sides, "; elements of a list have one dtype")
    if a.never or b.never:
        return b if a.never else a
    if a.depth > 1:
        return list_of(joined_list(a.element, b.element, where, sides), a.optional)
    mine, its = a.element.shape, b.element.shape
    if mine is None or its is None or len(mine) != len(its):
        return list_of(TensorType(a.element.dtype, None), a.optional)
    return list_of(
        TensorType(a.element.dtype, tuple(n if same_element(n, m) else DIFFERS for n, m in zip(mine, its))), a.optional
    )


def seen_type(v: Value) -> TensorType:
    """The type of a value; of a list of which all elements are in sight, what these have in common, however wide it was declared."""
    from anyshape.graph.lists import known_items

    t = v.type
    items = known_items(v) if isinstance(t, ListType) else None
    if items is None or not isinstance(t, ListType):
        return t
    if items:
        return reduce(lambda a, b: joined_list(a, b, "an element"), (list_of(i.type, t.optional) for i in items))
    return list_of(TensorType(t.tensor.dtype, None), t.optional, never=True) if t.depth == 1 else t


def without_dims(t: ListType, gone: Callable[[Dim], bool]) -> ListType:
    """The list type in which every dim that mentions a symbol in `gone` differs from element to element."""
    if isinstance(t.element, ListType):
        return list_of(without_dims(t.element, gone), t.optional, t.never)
    if t.element.shape is None:
        return t
    kept = tuple(DIFFERS if any(map(gone, free_symbols(n))) else n for n in t.element.shape)
    return list_of(TensorType(t.element.dtype, kept), t.optional, t.never)


def joined_size(sizes: Sequence[Size], new: bool = False) -> Size:
    """The size that all of these equal; where they differ or `new` is asked, a symbol whose bounds hold for all of them."""
    if not new and all(n is sizes[0] or (isinstance(n, int) and n == sizes[0]) for n in sizes):
        return sizes[0]
    lows, highs = zip(*(bounds(n) for n in sizes), strict=True)
    low = min((n or 0) for n in lows)
    high = None if any(h is None for h in highs) else max(h for h in highs if h is not None)
    return fresh("?", max(low, 0), high)


def joined_contents(values: Sequence[Value]) -> Contents | None:
    """The contents that all values have in common, element by element; None if some element is unknown."""
    known = [v.contents for v in values]
    lists = [c for c in known if c is not None]
    if len(lists) < len(known) or len({len(c) for c in lists}) > 1:
        return None
    joined = [joined_element(elements) for elements in zip(*lists, strict=True)]
    return None if any(e is None for e in joined) else tuple(e for e in joined if e is not None)


def joined_element(elements: Sequence[Element]) -> Element | None:
    """An equal element, a new symbol for integers that differ, None for conditions that do."""
    first = elements[0]
    if all(same_element(first, e) for e in elements):
        return first
    integers = all(isinstance(e, (int, Dim)) and not isinstance(e, bool) for e in elements)
    return fresh("e", low=None) if integers else None


def same_element(a: object, b: object) -> bool:
    return a is b or (
        isinstance(a, int) and isinstance(b, int) and a == b and isinstance(a, bool) is isinstance(b, bool)
    )


def spelled_type(t: TensorType, facts: Facts | None) -> TensorType:
    """The type in the words of facts, so that dims known to be equal are the same."""
    if facts is None or t.shape is None or isinstance(t, ListType | FunctionType):
        return t
    return TensorType(t.dtype, tuple(map(facts.canonical, t.shape)))


def exported_type(t: TensorType, outside: set[Dim]) -> TensorType:
    """The type as the surroundings see it: a dim that mentions what only a region knows becomes a symbol."""
    if isinstance(t, ListType):
        return without_dims(t, lambda s: s not in outside)
    if isinstance(t, FunctionType):
        return t
    if t.shape is None:
        return t
    return TensorType(t.dtype, tuple(n if free_symbols(n) <= outside else joined_size((n,), new=True) for n in t.shape))


def exported_contents(contents: Contents | None, outside: set[Dim]) -> Contents | None:
    """Contents as the surroundings see them: an integer that mentions what only a region knows is a new symbol; such a condition, None."""
    if contents is None or all(free_symbols(e) <= outside for e in contents):
        return contents
    exported = [
        e if free_symbols(e) <= outside else fresh("e", low=None) if isinstance(e, Dim) else None for e in contents
    ]
    return None if any(e is None for e in exported) else tuple(e for e in exported if e is not None)


def data_dependent_dims(types: Sequence[TensorType], before: set[Dim]) -> dict[Dim, tuple[int, int]]:
    """{symbol: (result, axis)} of dims that are symbols of their own, which nothing before defines."""
    positions: dict[Dim, tuple[int, int]] = {}
    for k, t in enumerate(types):
        for axis, n in enumerate(t.shape or ()):
            if isinstance(n, Dim) and n.is_symbol and n not in before:
                positions.setdefault(n, (k, axis))
    return positions
