"""Control flow as people build it: `if_`, `loop`, `scan`, `call`. Regions are Python callables that build; what they use of values made
before, they capture.

    y = control.if_(c, lambda: ops.exp(x), lambda: x)
    total = control.loop(n, lambda i, acc: [ops.add(acc, x)], [zero])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from anyshape import ops
from anyshape.dims import Dim, fresh
from anyshape.dtypes import parse_dtype
from anyshape.errors import ArgumentError, DtypeError, ShapeError
from anyshape.graph.call import as_value
from anyshape.graph.callee import CALL, REF, Callee
from anyshape.graph.control import IF, unlike_branches
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.lengths import repeated
from anyshape.graph.loops import LIMIT, LOOP, PATIENCE, Carried, RankChanges, no_form
from anyshape.graph.match_shape import as_parameters, ensure, ensured, resolved
from anyshape.graph.regions import captures, close, failed, spliced
from anyshape.graph.require import requirements
from anyshape.graph.required import after as behind
from anyshape.graph.sizes import remember
from anyshape.graph.tuples import Form, flat, flats, form_of, formed, member_names, spelled
from anyshape.graph.value import Value, constant, mark
from anyshape.public import public
from anyshape.scalars import single
from anyshape.types import FunctionType, TensorType, parse_types
from anyshape.wording import counted

Results = Any
"""A Value, what NumPy makes an array of, a tuple of these where a tuple is a result, or a list of results"""


@public
def if_(cond: Any, then: Callable[[], Results], otherwise: Callable[[], Results], source: str = "") -> tuple[Any, ...]:
    """The results of one of two callables. Dims in which they differ are unknown outside; a branch that cannot be typed fails if it is
    taken. Raises ShapeError if neither can be, or their tuples have other forms, DtypeError where their dtypes differ."""
    condition = single(as_value(cond), "a condition", source)
    traced = [_traced(build_branch) for build_branch in (then, otherwise)]
    branches = [
        (results if isinstance(results, str) else behind(_members(results), held), since)
        for results, since, held in traced
    ]
    forms = [form_of(results) for results, *_ in traced if not isinstance(results, str)]
    flat_forms = not any(isinstance(member, tuple) for form in forms for member in form)
    if flat_forms and len(set(map(len, forms))) > 1:
        raise unlike_branches(*(counted(len(form), "result") for form in forms))
    if len(set(forms)) > 1:
        raise unlike_branches(*map(spelled, forms))
    captured = tuple(
        dict.fromkeys(
            v for results, since in branches if not isinstance(results, str) for v in captures(results, (), since)
        )
    )
    regions = []
    for name, (results, since) in zip(IF.control.regions if IF.control else (), branches):
        if isinstance(results, str):
            params = close(name, (), (), captured, since).params
            regions.append(failed(name, params, results))
        else:
            regions.append(close(name, results, (), captured, since))
    outputs = build(IF, (*captured, condition), {}, source, regions=tuple(regions)).outputs
    return _formed(forms.pop(), outputs)


def _members(results: tuple[Any, ...]) -> tuple[Value, ...]:
    return tuple(as_value(v) for v in flat(results))


def _formed(form: Form, values: Sequence[Value]) -> tuple[Any, ...]:
    tuples: tuple[Any, ...] = formed(form, iter(values))
    return tuples


def _traced(make: Callable[[], Results]) -> tuple[tuple[Any, ...] | str, int, list[Value]]:
    """The results of a branch, or the reason why it cannot be built; the serial number of its first node; what it requires."""
    since = mark()
    with requirements() as held:
        try:
            return _listed(make()), since, held
        except ShapeError as e:
            return str(e), since, held


def _listed(results: Results) -> tuple[Any, ...]:
    """Results one by one: tuples among them stay tuples."""
    return tuple(results if isinstance(results, list | tuple) else (results,))


@public
def loop(
    trip: Any | None,
    body: Callable[..., Sequence[Any]],
    carried: Sequence[Any] = (),
    cond: Any | None = None,
    collects: int = 0,
    source: str = "",
    names: Sequence[str] = (),
) -> tuple[Any, ...]:
    """Repeats `body(iteration, *carried)` at most `trip` times (None: no limit), while `cond` holds (None: always).

    The body returns the new carried values, then `collects` values that are stacked over the iterations; with a `cond`, the condition of
    the next iteration before them. Results: carried values, then the stacked ones. Carried values may be tuples.
    """
    forms = tuple(map(form_of, carried))
    initial = [as_value(v) for v in flats(carried)]
    labels = names or [f"carried{k}" for k in range(len(carried))]
    if len(labels) != len(carried):
        raise ArgumentError(f"loop: {counted(len(labels), 'name')} for {counted(len(carried), 'carried value')}")
    members = [n for name, form in zip(labels, forms, strict=True) for n in member_names(name, form)]
    iteration = _settled(body, _Taken(forms, cond is not None, collects), initial, members, source)
    captured = captures(iteration.members, iteration.params, iteration.since)
    region = close("body", iteration.members, iteration.params, captured, iteration.since)
    operands = [
        None if v is None else single(as_value(v), what, source)
        for v, what in ((trip, "a trip count"), (cond, "a condition"))
    ]
    outputs = build(
        LOOP, (*initial, *captured, *operands), {"carried": len(initial)}, source, regions=(region,)
    ).outputs
    return _formed((*forms, *form_of(iteration.collected)), outputs)


class _Taken(NamedTuple):
    """The signature of a loop body: the forms of carried values, whether a condition comes before them, the number of collected values."""

    forms: tuple[Form, ...]
    conditional: bool
    collects: int

    def demand(self, results: tuple[Any, ...]) -> None:
        """Raises ArgumentError for results that an iteration cannot have."""
        first = int(self.conditional)
        if len(results) != first + len(self.forms) + self.collects:
            raise ArgumentError(
                f"loop: the body must return {len(self.forms)} carried and {self.collects} collected values"
                f"{', after a condition' if self.conditional else ''}; it returns {len(results)}"
            )
        after = form_of(results[first : first + len(self.forms)])
        if after != self.forms:
            raise ArgumentError(f"loop: it carries {spelled(self.forms)}, and {spelled(after)} after an iteration")


class _BuiltBody(NamedTuple):
    """A body built on its parameters: all that it gives, flattened, the condition first; what is collected; the serial it began with."""

    params: tuple[Value, ...]
    members: tuple[Value, ...]
    collected: tuple[Any, ...]
    since: int


def _settled(
    body: Callable[..., Sequence[Any]], taken: _Taken, initial: Sequence[Value], names: Sequence[str], source: str
) -> _BuiltBody:
    """The body on carried values of types that an iteration does not change. Raises ShapeError where there are none."""
    states = [Carried(v) for v in initial]
    number = Value(TensorType(parse_dtype("i64"), ()), "iteration", contents=(fresh("iteration"),))
    remember(number)
    for attempt in range(LIMIT):
        params = [s.param(name) for s, name in zip(states, names, strict=True)]
        since = mark()
        with repeated(), requirements() as held:
            results = _listed(body(number, *_formed(taken.forms, params)))
        taken.demand(results)
        truth, *carried = _members(results if taken.conditional else (constant(True), *results))
        again = (*behind([single(truth, "a condition", source)], held), *carried)
        after = again[1 : 1 + len(initial)]
        changed = [_widened(s, r, f"loop: carried value {n}", attempt) for s, r, n in zip(states, after, names)]
        if not any(changed):
            return _BuiltBody((number, *params), again, results[len(results) - taken.collects :], since)
    raise no_form(source)


def _widened(state: Carried, result: Value, where: str, attempt: int) -> bool:
    """Joins a carried value after an iteration. One whose rank changes may have any in the body, until the loop is typed."""
    try:
        return state.widen(result, where, attempt >= PATIENCE)
    except RankChanges:
        state.forget()
        return True


@public
def function(name: str, params: Mapping[str, str | TensorType], results: Sequence[str | TensorType]) -> Callee:
    """Declares a function of these parameters and results, which `define` gives a body: then it may call itself, and be a value.

        fib = control.function("fib", {"n": "i64[]"}, ["i64[]"])

    A name of a dim means the same in all of these types; one that is only in results is a new size in each call. A type may be that of a
    tuple, "(f32[n], i64[])". Raises ParseError for what is no type, ArgumentError or UnsupportedError for types of which a call cannot tell
    the sizes.
    """
    scope: dict[str, Dim] = {}
    taken = {n: parse_types(t, scope) for n, t in params.items()}
    declared = tuple(parse_types(t, scope) for t in results)
    members = {m: t for n, ts in taken.items() for m, t in zip(member_names(n, form_of(ts)), flat(ts))}
    callee = Callee(name, members, flat(declared))
    callee.forms = (tuple(map(form_of, taken.values())), form_of(declared))
    return callee


@public
def define(f: Callee, body: Callable[..., Results]) -> Callee:
    """Defines a declared function: `body(*params)` builds its results. Raises ArgumentError if it is defined already or their number is
    another, DtypeError or ShapeError for results that are not as declared; a dim that is only known at run time is checked there."""
    if f.function is not None:
        raise ArgumentError(f"the function {f.name} is defined already")
    params = [Value(t, n) for n, t in zip(f.names, f.type.params, strict=True)]
    with repeated(), requirements() as held:
        returned = _listed(body(*_formed(f.forms[0], params)))
    if len(returned) != len(f.forms[1]):
        raise ArgumentError(
            f"the function {f.name} has {counted(len(f.forms[1]), 'result')}, but its body returns {len(returned)}"
        )
    if form_of(returned) != f.forms[1]:
        raise ArgumentError(
            f"the function {f.name} returns {spelled(f.forms[1])}; its body returns {spelled(form_of(returned))}"
        )
    results = _members(returned)
    ensured = [ensure(v, t, f"{f.name}: result {k}", params) for k, (v, t) in enumerate(zip(results, f.type.results))]
    f.function = Function(params, resolved(params, ensured, held), f.name)
    return f


@public
def reference(f: Callee) -> Value:
    """A function as a value: branches and loops may choose among functions of one type, and `call` calls what was chosen."""
    return build(REF, (), {"callee": f}).outputs[0]


@public
def call(
    f: Function | Callee | Value, arguments: Sequence[Any] | Mapping[str, Any], source: str = ""
) -> tuple[Any, ...]:
    """The results of a function for these arguments, which are checked against its parameters where they are not seen to fit. The nodes
    of a `Function` are put in the place of the call; one that was declared, or that is a value, is called when the program runs, at most
    1,000 deep. Raises what does not fit, as ArgumentError, DtypeError or ShapeError."""
    if isinstance(f, Callee | Value):
        return _called(f, arguments, source)
    operands = [arguments[p.name] for p in f.params] if isinstance(arguments, Mapping) else list(arguments)
    if len(operands) != len(f.params):
        raise ArgumentError(f"{f.name} takes {counted(len(f.params), 'argument')}, got {len(operands)}")
    results = spliced(
        f, as_parameters(f.name, f.params, [as_value(v, p.type.dtype) for v, p in zip(operands, f.params)])
    )
    if results is None:
        raise ArgumentError(f"{f.name} relies on checks at its entry, and cannot be inlined")
    return tuple(results)


def _called(f: Callee | Value, arguments: Sequence[Any] | Mapping[str, Any], source: str) -> tuple[Any, ...]:
    function = reference(f) if isinstance(f, Callee) else f
    if not isinstance(function.type, FunctionType):
        raise DtypeError(f"call: what is called must be a function, got {function.type}")
    if isinstance(arguments, Mapping):
        names = () if isinstance(f, Value) else tuple(dict.fromkeys(n.partition(".")[0] for n in f.names))
        if isinstance(f, Value) or set(arguments) != set(names):
            expected = ", ".join(names) or "arguments by position"
            raise ArgumentError(f"call: expected {expected}, got {', '.join(arguments)}")
        arguments = [arguments[n] for n in names]
    members = flats(arguments)
    kinds = [*function.type.params, *[None] * len(members)]
    operands = [as_value(v, t.dtype if t is not None else None) for v, t in zip(members, kinds)]
    outputs = build(CALL, (*operands, function), {}, source).outputs
    return outputs if isinstance(f, Value) else _formed(f.forms[1], outputs)


@public
def scan(
    body: Callable[..., Sequence[Any]],
    states: Sequence[Any],
    scanned: Sequence[Any],
    collects: int,
    axes: Sequence[int] = (),
    backwards: Sequence[bool] = (),
    source: str = "",
    names: Sequence[str] = (),
) -> tuple[Value, ...]:
    """Calls `body(*states, *slices)` for every slice of `scanned` along its axis (0 if not said), from the end where `backwards` says so.

    The body returns the states anew, then `collects` values that are stacked. Results: the last states, then the stacked values.
    """
    values = [as_value(v) for v in scanned]
    if not values:
        raise ArgumentError("scan: there is nothing to scan; use a loop with a trip count")
    along = list(axes) or [0] * len(values)
    directions = list(backwards) or [False] * len(values)
    if not len(along) == len(directions) == len(values):
        raise ArgumentError(
            f"scan: {counted(len(values), 'value')} to scan, but {counted(len(along), 'axis', 'axes')} "
            f"and {counted(len(directions), 'direction')}"
        )
    length = _length(values[0], along[0], source)
    values = [values[0], *(_as_long(v, axis, length, source) for v, axis in zip(values[1:], along[1:], strict=True))]
    last = ops.sub(length, 1, source=source) if any(directions) else None

    def iteration(number: Value, *carried: Value) -> Sequence[Any]:
        slices = []
        for v, axis, back in zip(values, along, directions, strict=True):
            at = ops.sub(last, number, source=source) if back else number
            slices.append(ops.gather(v, at, axis=axis, source=source))
        return body(*carried, *slices)

    return loop(length, iteration, states, collects=collects, source=source, names=names)


def _length(v: Value, axis: int, source: str) -> Value:
    return ops.gather(ops.shape_of(v, source=source), axis, source=source)


def _as_long(v: Value, axis: int, length: Value, source: str) -> Value:
    """The value, known to have this length along the axis: a view, and an error where it is longer or shorter."""
    if v.type.rank is None:
        return v
    sizes: list[Value | None] = [None] * v.type.rank
    sizes[axis] = ops.static.reshape(length, newshape=(1,), source=source)
    return ensured(v, sizes, f"{source}: scan" if source else "scan")
