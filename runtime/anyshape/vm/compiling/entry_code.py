"""Code at the beginning of a program: dims of arguments, and checks on them."""

from __future__ import annotations

from collections.abc import Callable

from anyshape.dims import Cond, Definition, Dim, bounds, definitions, free_symbols, fresh
from anyshape.dims import eq as equal
from anyshape.errors import UnsupportedError
from anyshape.graph.text import is_anonymous
from anyshape.graph.value import Value
from anyshape.types import ListType
from anyshape.vm.compiling.emission import Emission
from anyshape.vm.compiling.kernels import THREADS
from anyshape.vm.compiling.list_arguments import Reader
from anyshape.vm.program.table import CheckRecord, Op


def emit_entry(g: Emission, list_argument: Callable[[int, Value], int | None]) -> None:
    """Emits dims of arguments, loads of elements that symbols stand for, and checks on both. `list_argument` gives the handle of a
    parameter that is a list, if it is needed."""
    places = [((k, axis), n) for k, p in enumerate(g.f.params) for axis, n in enumerate(p.type.shape or ())]
    registers = {place: g.code.pure(Op.DIM, *place) for place, _ in places}
    defined = definitions(places)
    for s, d in defined.items():
        _define(g, s, d, registers[d.place])
    alone = {d.place for d in defined.values() if d.is_alone}
    bound = [(s, g.f.params[d.place[0]], d.place[1]) for s, d in defined.items()]
    owed = [(g.f.params[k], axis, registers[k, axis]) for (k, axis), _ in places if (k, axis) not in alone]
    if THREADS in g.liveness.symbols:
        g.code.define(THREADS, g.code.new(Op.THREADS))
    for s, p, axis in bound:
        _check_bounds(g, s, p, axis)  # first: all later conditions are simplified by what these assume
    solved = {(g.f.params[d.place[0]], d.place[1]): s for s, d in defined.items()}
    for p, axis, r in owed:
        _check_size(g, p, axis, r, solved.get((p, axis)))
    begin_checks(g)
    for k, p in enumerate(g.f.params):
        handle = list_argument(k, p) if isinstance(p.type, ListType) else None
        if handle is not None:
            g.lists[p] = handle


def _define(g: Emission, s: Dim, d: Definition[tuple[int, int]], r: int) -> None:
    """Gives a symbol its register: that of the dim, or of what the dim is a multiple of and more. That nothing is left is a check of the
    dim."""
    if d.is_alone:
        g.code.define(s, r)
        return
    k, axis = d.place
    size = _size_symbol(g.f.params[k], axis)
    g.code.define(size, r)
    g.code.define(s, g.code.register(d.of(size)))


def read_list(g: Emission, k: int, p: Value) -> int | None:
    """Emits the reading of a parameter that is a list; the register of its handle, or None if no step needs it."""
    if p not in g.liveness.values or not isinstance(p.type, ListType):
        return None
    return Reader(g, p.name, g.code.pure(Op.ARGUMENT, k)).read(p.type)


def begin_checks(g: Emission) -> None:
    """Collects the checks of the function and of all nodes, each once, in their order. Those that dims and elements of parameters decide
    are emitted, the others when their symbols have values."""
    seen: set[Cond] = set()
    for check in (*g.f.checks, *(c for node in g.f.nodes for c in node.checks)):
        if check.cond not in seen:
            seen.add(check.cond)
            g.pending.append(check)
    g.load_symbols(g.f.params)
    g.flush()


def _check_size(g: Emission, p: Value, axis: int, got: int, solved: Dim | None) -> None:
    """Emits the check of a dim that an argument's type fixes, or of one that has to be a form of the symbol that it defines, `solved`."""
    assert p.type.shape is not None
    expected = p.type.shape[axis]
    unbound = [str(s) for s in free_symbols(expected) if not g.code.is_defined(s)]
    if unbound:
        raise UnsupportedError(
            f"{g.spoken_of(p)}: {p.type}: nothing binds {', '.join(sorted(unbound))}; "
            "give each symbol a dim of its own in some input"
        )
    size = _size_symbol(p, axis)
    g.code.define(size, got)
    said, must = (
        (str(expected) if isinstance(expected, int) else g.named(expected)),
        f"{g.spoken_of(p)}: dim {axis} must be",
    )
    parts: tuple[str | Dim | Cond, ...] = (f"{must} {said}, got ", size)
    if solved is not None:
        parts = (f"{must} {said} for a whole number {g.named(solved)}, got ", size)
    elif not isinstance(expected, int):
        parts = (f"{must} {said} = ", expected, ", got ", size)
    g.check(equal(size, expected), parts, equation=f"{p.name}.shape[{axis}] == {said}")


def _check_bounds(g: Emission, s: Dim, p: Value, axis: int) -> None:
    """Emits the bounds of a symbol: a guard for an assumption of this variant, whose failure runs another one, checks for the others."""
    low, high = bounds(s)
    r = g.code.register(s)
    if s in g.assumed:
        g.code.emit(Op.GUARD, g.code.pure(Op.GE, r, g.code.register(low or 0)))
    elif low is not None and (low > 0 or p.type.shape is None or p.type.shape[axis] is not s):
        _check_bound(g, Op.GE, r, low, s, p, axis)
    if high is not None:
        _check_bound(g, Op.LE, r, high, s, p, axis)


def _check_bound(g: Emission, op: Op, r: int, edge: int, s: Dim, p: Value, axis: int) -> None:
    sign = "at least" if op is Op.GE else "at most"
    size = p.type.shape[axis] if p.type.shape is not None else s
    alone = "" if is_anonymous(s) else f" ({s})"
    said = alone if size is s or isinstance(size, int) else f" is {g.named(size)}, of which {g.named(s)}"
    parts = (f"{g.spoken_of(p)}: dim {axis}{said} must be {sign} {edge}, got ", s)
    record = CheckRecord(parts, (s,), (r,), f"{g.named(s)} {sign} {edge}")
    g.checks.append(record)
    g.code.emit(Op.CHECK, g.code.pure(op, r, g.code.register(edge)), len(g.checks) - 1)


def _size_symbol(p: Value, axis: int) -> Dim:
    """Makes a symbol for the actual size of an argument's axis, which messages use."""
    return fresh(f"{p.name}_size{axis}_", low=0)
