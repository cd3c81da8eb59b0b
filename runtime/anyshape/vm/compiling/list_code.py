"""Code of ops on lists, with the counting of their holders.

In: the code generator at a step on lists. Out: its instructions; handles of the results. A value that is a list is a register that holds
a handle. Each value of a body owns one hold on its list; the last step that uses the value takes the hold over, or it is released behind
that step. So an op may change a list in place whenever no other value holds it, which is seen at run time, and an iteration of a loop
leaves nothing behind. The surroundings of a body hold the lists that the body reads of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from anyshape.dims import Dim, fresh
from anyshape.graph.lists import AT, ERASE, INSERT, LENGTH, LIST, operand
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import RegionStep, TableStep
from anyshape.types import ListType
from anyshape.vm.compiling.emission import Emission, Emitter, byte_count
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.blocks import DIMS, RANK, head_bytes
from anyshape.vm.program.table import ELEMENT_CODE, CheckRecord, Op

I64 = ELEMENT_CODE["i64"]


def is_list(v: Value | None) -> bool:
    return v is not None and isinstance(v.type, ListType)


class Holds:
    """Holds of the values of one body on their lists, from step to step."""

    def __init__(self, g: Emission, owned: Iterable[Value] = ()) -> None:
        self.g, self.owned = g, set(owned)
        self.uses: dict[Value, dict[int, int]] = {}
        for at, step in enumerate(g.schedule.steps):
            if at in g.liveness.steps and isinstance(step, TableStep | RegionStep):
                self._count(at, step.node.inputs)
        self._count(len(g.schedule.steps), g.f.results)

    def _count(self, at: int, values: Sequence[Value | None]) -> None:
        for v in values:
            if v is not None and is_list(v):
                steps = self.uses.setdefault(v, {})
                steps[at] = steps.get(at, 0) + 1

    def own(self, v: Value) -> None:
        self.owned.add(v)

    def is_last(self, v: Value, at: int) -> bool:
        """Tests whether step `at` is the only use from there on, so that it may take the hold."""
        uses = self.uses.get(v, {})
        return v in self.owned and max(uses, default=-1) <= at and uses.get(at, 0) <= 1

    def take(self, v: Value, at: int) -> int:
        """Emits a hold for the caller, or takes that of the value; the register of the handle."""
        handle = self.g.address(v)
        if self.is_last(v, at):
            self.owned.discard(v)
        else:
            self.g.code.emit(Op.RETAIN, handle)
        return handle

    def after(self, at: int) -> None:
        """Emits the release of lists that no step behind `at` uses."""
        for v in [v for v in self.owned if max(self.uses.get(v, {}), default=-1) <= at]:
            self.owned.discard(v)
            self.g.code.emit(Op.RELEASE, self.g.address(v))


@contextmanager
def counted(code: ShapeCode, count: int) -> Iterator[int]:
    """Emits a loop in the table around the body of the `with`; yields the register that counts iterations."""
    one, iteration = code.register(1), code.unset()
    code.move(iteration, code.register(0))
    top = len(code.words)
    leave = code.unless(code.new(Op.LT, iteration, count))
    with code.scope():
        yield iteration
    code.emit(Op.ADD, iteration, iteration, one)
    code.jump(top)
    code.land(leave)


def head(code: ShapeCode, rank: int | None, block: int) -> int:
    """Emits the number of bytes of a head; its register."""
    if rank is not None:
        return code.register(head_bytes(rank))
    read = code.new(Op.LOAD, block, RANK, I64)
    size = code.new(Op.ADD, code.new(Op.MUL, read, code.register(8)), code.register(8 * DIMS + 63))
    return code.new(Op.MUL, code.new(Op.FLOORDIV, size, code.register(64)), code.register(64))


def _block(g: Emission, v: Value) -> int:
    """Emits a block for a tensor that becomes an element: a head and a copy of its elements."""
    code, shape = g.code, v.type.shape or ()
    size, start = code.register(byte_count(v.type)), code.register(head_bytes(len(shape)))
    block = code.new(Op.BLOCK, code.new(Op.ADD, size, start))
    for k, r in enumerate((size, code.register(len(shape)), *map(code.register, shape))):
        code.emit(Op.STORE, block, k, r, I64)
    code.emit(Op.COPY, code.new(Op.VIEW, block, start), g.address(v), size)
    return block


def _element(g: Emission, at: int, v: Value) -> int:
    return g.holds.take(v, at) if is_list(v) else _block(g, v)


def _define(g: Emission, v: Value, handle: int) -> None:
    g.storages[v].address = handle
    g.holds.own(v)


def _is_wanted(g: Emission, at: int) -> bool:
    return bool(g.liveness.outputs.get(at))


def _make(g: Emission, at: int, node: Node) -> None:
    t = node.outputs[0].type
    assert isinstance(t, ListType)
    handle = g.code.new(Op.LIST, int(isinstance(t.element, ListType)))
    for k, v in enumerate(v for v in node.inputs if v is not None):
        g.code.emit(Op.INSERT, handle, g.code.register(k), _element(g, at, v))
    _define(g, node.outputs[0], handle)


def _insert(g: Emission, at: int, node: Node) -> None:
    code = g.code
    element = _element(g, at, operand(node, 1))
    own = code.new(Op.OWN, g.holds.take(operand(node, 0), at))
    code.emit(Op.INSERT, own, _position(g, node, own, between=True), element)
    _define(g, node.outputs[0], own)


def _erase(g: Emission, at: int, node: Node) -> None:
    code = g.code
    handle = g.address(operand(node, 0))
    position = _position(g, node, handle, between=False)
    own = code.new(Op.OWN, g.holds.take(operand(node, 0), at))
    code.emit(Op.ERASE, own, position)
    _define(g, node.outputs[0], own)


def _at(g: Emission, at: int, node: Node) -> None:
    code, (output,) = g.code, node.outputs
    handle = g.address(operand(node, 0))
    element = code.new(Op.ELEMENT, handle, _position(g, node, handle, between=False))
    if is_list(output):
        code.emit(Op.RETAIN, element)
        _define(g, output, element)
        return
    _define_dims(g, node, lambda axis: code.new(Op.LOAD, element, DIMS + axis, I64))
    if _is_wanted(g, at):
        to = g.allocate(output)
        start = code.register(head_bytes(len(output.type.shape or ())))
        code.emit(Op.COPY, to, code.new(Op.VIEW, element, start), code.register(byte_count(output.type)))


def _define_dims(g: Emission, node: Node, register: Callable[[int], int]) -> None:
    unbacked: dict[Dim, tuple[int, int]] = node.bound.unbacked
    for s, (_, axis) in unbacked.items():
        g.code.define(s, register(axis))


def _length(g: Emission, at: int, node: Node) -> None:
    (output,) = node.outputs
    length = g.code.new(Op.LENGTH, g.address(operand(node, 0)))
    g.code.emit(Op.STORE, g.allocate(output), 0, length, I64)


# --- checks ---


def _position(g: Emission, node: Node, handle: int, between: bool) -> int:
    """Emits a position and its check; the register of the position from 0 on. Without a position it is the last one."""
    code = g.code
    count = code.new(Op.LENGTH, handle)
    one, zero = code.register(1), code.register(0)
    last = count if between else code.new(Op.SUB, count, one)
    i, n = fresh("at", None), fresh("length")
    said = node.inputs[-1]
    if said is None:
        if not between:
            _check(
                g,
                node,
                code.new(Op.GE, last, zero),
                ("the list is empty (length > 0 does not hold: length = ", n, ")"),
                {n: count},
            )
        return last
    number = _number(g, said)
    position = code.new(Op.SELECT, code.new(Op.LT, number, zero), code.new(Op.ADD, number, count), number)
    fits = code.new(Op.AND, code.new(Op.GE, position, zero), code.new(Op.LE, position, last))
    condition = f" (-length <= position {'<=' if between else '<'} length does not hold: length = "
    parts = ("position ", i, " is outside of a list of ", n, condition, n, ", position = ", i, ")")
    _check(g, node, fits, parts, {i: number, n: count})
    return position


def _check(g: Emission, node: Node, holds: int, parts: tuple[str | Dim, ...], registers: Mapping[Dim, int]) -> None:
    """Emits a check. `registers` hold the sizes among the parts of the message."""
    equation = "a position is in the list"
    symbols, numbers = tuple(registers), tuple(registers.values())
    g.checks.append(CheckRecord(parts, symbols, numbers, equation, op=node.op.full_name, source=node.source))
    g.code.emit(Op.CHECK, holds, len(g.checks) - 1)


def _number(g: Emission, v: Value) -> int:
    """The register of the one element of an integer value."""
    known = v.contents
    if known:
        assert not isinstance(known[0], bool)
        return g.code.register(known[0])
    return g.code.new(Op.LOAD, g.address(v), 0, ELEMENT_CODE[v.type.dtype])


LIST_EMITTERS: dict[object, Emitter] = {
    LIST: _make, INSERT: _insert, ERASE: _erase, AT: _at, LENGTH: _length,
}  # fmt: skip
