"""The op `loop`: a region repeated a number of times, or while a condition holds, over carried values; collected values are stacked.

    loop(carried…, captured…, trip, cond; carried=n)      trip: i64 scalar or none;  cond: bool scalar or none
    body(iteration: i64[], carried…, captured…) -> again: bool[], carried…, collected…
    results: carried…, collected… with a leading dim: the number of iterations

Types of carried values are a fixpoint: a dim that an iteration changes becomes a symbol of the iteration, any size that its bounds allow.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dims import Dim, Facts, Size, bounds, free_symbols, fresh, maximum, substitute
from anyshape.dtypes import FUNCTION, parse_dtype
from anyshape.errors import DtypeError, ShapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.infer import Inference, Restated
from anyshape.graph.joining import (
    data_dependent_dims,
    exported_contents,
    exported_type,
    joined_list,
    same_element,
    seen_type,
    spelled_type,
    without_dims,
)
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.regions import fits, symbols_of, typed
from anyshape.graph.sizes import remember
from anyshape.graph.truth import check_condition, check_single, count_of, known_truth
from anyshape.graph.value import Contents, Element, Node, Value
from anyshape.rules import Bound, Rule
from anyshape.rules.vec import Truth
from anyshape.types import FunctionType, ListType, TensorType
from anyshape.wording import counted

PATIENCE = 6
LIMIT = 12
"""Rounds in which only what changed is widened; after them all dims and elements are, and after LIMIT the loop is refused."""


class RankChanges(UnsupportedError):
    """An iteration gives a carried value another rank than the one before."""


class Carried:
    """The type and contents of one carried value that hold in every iteration."""

    def __init__(self, initial: Value, facts: Facts | None = None) -> None:
        self.type, self.contents, self.facts = spelled_type(seen_type(initial), facts), initial.elements(), facts
        self.symbols: set[object] = set()
        """Dims and elements that are symbols of the iteration."""

    def param(self, name: str) -> Value:
        param = Value(self.type, name, contents=self.contents)
        remember(param, again=True)
        return param

    def widen(self, result: Value, where: str, all_of_it: bool) -> bool:
        """Joins the value after an iteration, and says whether that changed anything. Raises DtypeError, and RankChanges."""
        if result.type.dtype is not self.type.dtype:
            raise DtypeError(f"{where} is {self.type}, and {result.type} after an iteration")
        mine, its = self.type.shape, spelled_type(result.type, self.facts).shape
        if mine is not None and its is not None and len(mine) != len(its):
            raise RankChanges(
                f"{where}: its rank changes between iterations, from {self.type} to {result.type}, and goes on changing; "
                "carry a list, whose elements may have any rank, or the elements and the shape apart"
            )
        before = (self.type, self.contents)
        if FUNCTION in (self.type.dtype, result.type.dtype):
            if self.type != result.type:
                raise DtypeError(f"{where} is {self.type}, and {result.type} after an iteration")
            return False
        if isinstance(self.type, ListType):
            self.type = joined_list(self.type, of_all_iterations(result.type), where, ("before", "after an iteration"))
            return before[0] != self.type
        if mine is None or its is None:
            self.type = TensorType(self.type.dtype, None)
        else:
            self.type = TensorType(self.type.dtype, tuple(self._dim(a, b, all_of_it) for a, b in zip(mine, its)))
        self.contents = self._elements(result, all_of_it)
        return before != (self.type, self.contents)

    def forget(self) -> None:
        """Lets the value have any rank."""
        self.type, self.contents = TensorType(self.type.dtype, None), None

    def _dim(self, mine: Size, its: Size, new: bool) -> Size:
        if mine in self.symbols and isinstance(mine, Dim):
            if low_of(its) >= low_of(mine):
                return mine
        elif not new and (mine is its or (isinstance(mine, int) and mine == its)):
            return mine
        symbol = fresh("iteration", min(low_of(mine), low_of(its)) if mine not in self.symbols else 0)
        self.symbols.add(symbol)
        return symbol

    def _elements(self, result: Value, new: bool) -> Contents | None:
        mine, its = self.contents, result.contents
        if mine is None or not self.type.is_static or (its is not None and len(its) != len(mine)):
            return None
        elements: list[Element] = []
        for k, e in enumerate(mine):
            if e in self.symbols or (not new and its is not None and same_element(e, its[k])):
                elements.append(e)
            elif isinstance(e, (int, Dim)) and not isinstance(e, bool):
                new_one = fresh("iteration", low=None)
                elements.append(new_one)
                self.symbols.add(new_one)
            else:
                return None
        return tuple(elements)


def of_all_iterations(t: TensorType) -> TensorType:
    """A list's type without what is known of one iteration alone."""
    return without_dims(t, lambda s: s.name.startswith("iteration.")) if isinstance(t, ListType) else t


def low_of(n: Size) -> int:
    """The least a dim can be."""
    return max(bounds(n)[0] or 0, 0)


class _LoopControl:
    regions = ("body",)
    repeats = True

    def captures_from(self, node: Node) -> int:
        return carried_count(node)

    def captured(self, node: Node) -> tuple[Value, ...]:
        return tuple(v for v in node.inputs[carried_count(node) : -2] if v is not None)

    def assumed(self, node: Node, k: int) -> Truth:
        return True

    def may_skip(self, node: Node, k: int) -> bool:
        return False

    def infer(self, node: Node, facts: Facts | None) -> Inference:
        _check_operands(node)
        try:
            body, iteration = self._typed(node, facts)
        except RankChanges as e:
            from anyshape.graph.peeling import peeled

            raise Restated(peeled(node, e)) from None
        _check_body(node, body)
        n = carried_count(node)
        trip_count = _trip_count(node, body)
        outside = symbols_of(node.inputs, facts)
        types = [exported_type(p.type, outside) for p in body.params[1 : 1 + n]]
        contents = [exported_contents(p.contents, outside) for p in body.params[1 : 1 + n]]
        for v in body.results[1 + n :]:
            t = exported_type(v.type, outside)
            if isinstance(t, ListType | FunctionType):
                raise DtypeError(
                    f"loop: an iteration collects {t}; only tensors can be stacked; carry a list of lists instead"
                )
            types.append(TensorType(t.dtype, None if t.shape is None else (trip_count, *t.shape)))
            contents.append(None)
        firsts = _sizes_of_first_iteration(body, node, types, outside)
        bound = Bound({}, {"unbacked": data_dependent_dims(types, outside), "iteration": iteration, "firsts": firsts})
        return Inference(tuple(types), tuple(contents), (), bound, dtypes={}, undetermined="", regions=(body,))

    def _typed(self, node: Node, facts: Facts | None) -> tuple[Function, set[Dim]]:
        """The body typed for its operands, and the symbols of one iteration."""
        body, n = node.regions[0], carried_count(node)
        initial, captured = node.inputs[:n], self.captured(node)
        outside = symbols_of(node.inputs, facts)
        if _holds(body, [v for v in initial if v is not None], captured, outside, facts):
            return body, _iteration_symbols(body, n, outside)
        carried = [Carried(v, facts) for v in initial if v is not None]
        number = Value(TensorType(parse_dtype("i64"), ()), body.params[0].name, contents=(fresh("iteration"),))
        names = [p.name for p in body.params[1 : 1 + n]]
        for attempt in range(LIMIT):
            params = [number, *(c.param(name) for c, name in zip(carried, names)), *captured]
            typed_body = typed(body, params, facts)
            results = typed_body.results[1 : 1 + n]
            changed = [
                c.widen(r, f"loop: carried value {k} ({names[k]})", attempt >= PATIENCE)
                for k, (c, r) in enumerate(zip(carried, results, strict=True))
            ]
            if not any(changed):
                return typed_body, _iteration_symbols(typed_body, n, outside)
        raise no_form(node.source)

    def simplify(self, node: Node) -> Sequence[Value] | None:
        """The initial carried values, if the loop has no iteration and collects nothing."""
        n = carried_count(node)
        trip = count_of(node.inputs[-2])
        none = known_truth(node.inputs[-1]) is False or (isinstance(trip, int) and trip <= 0)
        if not none or len(node.outputs) > n:
            return None
        return [v for v in node.inputs[:n] if v is not None]


def _sizes_of_first_iteration(
    body: Function, node: Node, types: Sequence[TensorType], outside: set[Dim]
) -> dict[Dim, Size]:
    """The sizes in the first iteration of those dims of stacks that only iterations decide, as far as they follow from what is known before
    the loop. A stack of no iterations has these."""
    n = carried_count(node)
    start = _before_first_iteration(body, [v for v in node.inputs[:n] if v is not None])
    sizes: dict[Dim, Size] = {}
    for stack, one in zip(types[n:], body.results[1 + n :], strict=True):
        for size, inner in zip((stack.shape or ())[1:], one.type.shape or ()):
            if not isinstance(size, Dim) or not size.is_symbol or size in outside:
                continue
            first = substitute(inner, start)
            if free_symbols(first) <= outside:
                sizes[size] = maximum(first, 0)
    return sizes


def _before_first_iteration(body: Function, initial: Sequence[Value]) -> dict[Dim, Size]:
    """The values of the body's symbols in the first iteration: its number is 0, and every carried value is the initial one."""
    start: dict[Dim, Size] = dict.fromkeys((e for e in body.params[0].contents or () if isinstance(e, Dim)), 0)
    for p, v in zip(body.params[1 : 1 + len(initial)], initial, strict=True):
        pairs = [*zip(p.type.shape or (), v.type.shape or ()), *zip(p.contents or (), v.contents or ())]
        start.update((a, b) for a, b in pairs if isinstance(a, Dim) and a.is_symbol and isinstance(b, Dim | int))
    return start


def carried_count(node: Node) -> int:
    return int(node.attrs["carried"])


def no_form(source: str) -> ShapeError:
    at = f" (at {source})" if source else ""
    return ShapeError(f"loop: no symbolic shapes of its carried values hold in all iterations{at}")


def _check_operands(node: Node) -> None:
    trip, cond = node.inputs[-2:]
    check_condition("loop", cond)
    if trip is not None:
        if trip.type.dtype.name != "i64":
            raise DtypeError(f"loop: a trip count must be i64, got {trip.type}")
        check_single("loop", "a trip count", trip)


def _check_body(node: Node, body: Function) -> None:
    n = carried_count(node)
    if len(body.results) < 1 + n:
        results = counted(len(body.results), "result")
        raise ShapeError(f"loop: its body has {results}; expected {1 + n}, a condition and the carried values")
    check_condition("loop", body.results[0])


def _holds(
    body: Function, initial: Sequence[Value], captured: Sequence[Value], outside: set[Dim], facts: Facts | None
) -> bool:
    """Whether the body is typed for these operands already."""
    n = len(initial)
    number, carried = body.params[0], body.params[1 : 1 + n]
    if not number.contents or not all(map(fits, body.params[1 + n :], captured)):
        return False
    varying = _iteration_symbols(body, n, outside)
    return all(
        _agree(p, first, after, varying, facts)
        for p, first, after in zip(carried, initial, body.results[1 : 1 + n], strict=True)
    )


def _agree(p: Value, first: Value, after: Value, varying: set[Dim], facts: Facts | None) -> bool:
    """Whether a carried parameter holds for the initial value and for the value after an iteration."""
    if any(isinstance(v.type, ListType) for v in (p, first, after)):
        types = (seen_type(first), of_all_iterations(after.type))
        return all(joined_list(p.type, t, "a carried list") == p.type for t in types)
    if p.type.dtype is FUNCTION:
        return p.type == first.type == after.type
    if len({v.type.dtype for v in (p, first, after)}) > 1 or not _agree_in_shape(p, first, after, varying, facts):
        return False
    kept = [(k, e) for k, e in enumerate(p.contents or ()) if e not in varying]
    return all(v.contents is not None and same_element(e, v.contents[k]) for k, e in kept for v in (first, after))


def _agree_in_shape(p: Value, first: Value, after: Value, varying: set[Dim], facts: Facts | None) -> bool:
    """Whether each dim is the same initially and after an iteration, or a symbol of the iteration whose bounds allow both."""
    shapes = [spelled_type(v.type, facts).shape for v in (p, first, after)]
    known = [s for s in shapes if s is not None]
    return (
        len(known) == 3
        and len({len(s) for s in known}) == 1
        and all(
            min(low_of(b), low_of(c)) >= low_of(a)
            if isinstance(a, Dim) and a in varying
            else same_element(a, b) and same_element(a, c)
            for a, b, c in zip(*known, strict=True)
        )
    )


def _iteration_symbols(body: Function, n: int, outside: set[Dim]) -> set[Dim]:
    """Dims and elements of the body's own parameters that are symbols of one iteration."""
    own = (e for p in body.params[: 1 + n] for e in (*(p.type.shape or ()), *(p.contents or ())))
    return {
        e for e in own if isinstance(e, Dim) and e.is_symbol and e.name.startswith("iteration.") and e not in outside
    }


def _trip_count(node: Node, body: Function) -> Size:
    """The number of iterations: the trip count if nothing else ends the loop."""
    trip = count_of(node.inputs[-2])
    if trip is not None and known_truth(node.inputs[-1]) and known_truth(body.results[0]):
        return maximum(trip, 0)
    return fresh("?", 0)


def no_relation(r: Rule, **_: object) -> Bound:
    raise ShapeError(f"{r.op} has regions, and no relation")


LOOP = OpDef(
    name="loop", variant="", inputs=(InputDef("values", "T", variadic=True),),
    params=(ParamDef("carried", "int"), ParamDef("trip", "int", False, operand=True), ParamDef("cond", "bool", False, operand=True)),
    outputs=(OutputDef("results", "T", variadic=True),), dtypes={}, relation=no_relation, summary="A region, repeated.",
    control=_LoopControl(),
)  # fmt: skip
