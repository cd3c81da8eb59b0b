"""The loop's handlers of everything that is not arithmetic: dims, memory, checks, kernels, jumps.

In: the open loop, at the block of an opcode. Out: the code of its handler. What needs Python (memory that must grow, a result that must
be made) ends the turn; the next one begins with the same instruction.
"""

from __future__ import annotations

from anyshape.lower.llvm.emitter import Block
from anyshape.lower.llvm.polling import STOPPED
from anyshape.lower.llvm.types import I1, I8, I32, I64, PTR, VOID, Type, Val, const
from anyshape.vm.native.call_effects import call, give, taken
from anyshape.vm.native.frame import HEAD, Frame
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.list_effects import LIST_HANDLERS
from anyshape.vm.program.table import ELEMENTS, Op


def effect(frame: Frame, op: Op) -> bool:
    """Emits the handler; True if it has already gone on (or ended the turn) itself."""
    simple = {
        Op.CONST: _const, Op.DIM: _dim, Op.ARGUMENT: _argument, Op.CONSTANT: _constant, Op.CHECK: _check, Op.GUARD: _guard,
        Op.REGION: _region, Op.OUTPUT: _output, Op.VIEW: _view, Op.LOAD: _load, Op.STORE: _store, Op.COPY: _copy, Op.INVOKE: _invoke,
        Op.EXTEND: _region, Op.STACK: _region, Op.SWAP: _swap, Op.THREADS: _threads, Op.SHARE: _share, **LIST_HANDLERS,
        Op.CALL: call, Op.GIVE: give, Op.TAKEN: taken,
    }  # fmt: skip
    if op in simple:
        simple[op](frame)
        return False
    if op is Op.RETURN:
        frame.leave(End.DONE)
    elif op is Op.JUMP:
        frame.look_up()
        frame.go_on(to=_target(frame, 0))
    else:
        assert op is Op.UNLESS
        frame.liveness(0)
        following = frame.f.gep(frame.at, HEAD + 2, I64)
        holds = frame.f.compare("ne", frame.register(0), 0)
        frame.go_on(to=frame.f.select(holds, following, _target(frame, 1)))
    return True


def _target(frame: Frame, k: int) -> Val:
    return frame.f.gep(frame.f.load(frame.state, PTR, Word.CODE), frame.operand(k), I64)


def _const(frame: Frame) -> None:
    frame.write(frame.operand(1))


def _dim(frame: Frame) -> None:
    f = frame.f
    dims = f.load(f.gep(frame.arguments, f.shl(frame.operand(1), 1), I64), PTR, 1)
    frame.write(f.load(dims, I64, frame.operand(2)))


def _argument(frame: Frame) -> None:
    frame.write(frame.f.load(frame.arguments, I64, frame.f.shl(frame.operand(1), 1)))


def _constant(frame: Frame) -> None:
    frame.write(frame.f.load(frame.constants, I64, frame.operand(1)))


def _check(frame: Frame) -> None:
    frame.liveness(0)
    frame.leave_if(frame.f.compare("eq", frame.register(0), 0), lambda: frame.leave(End.CHECK))


def _guard(frame: Frame) -> None:
    frame.liveness(0)
    frame.leave_if(frame.f.compare("eq", frame.register(0), 0), lambda: frame.leave(End.DECLINED))


def _region(frame: Frame) -> None:
    f = frame.f
    frame.liveness(2)
    pair = f.gep(frame.regions, f.shl(frame.operand(1), 1), I64)
    address, capacity = f.load(pair, I64), f.load(pair, I64, 1)
    short = f.or_(f.compare("gt", frame.register(2), capacity), f.compare("eq", address, 0))
    frame.leave_if(short, lambda: frame.leave(End.REGION))
    frame.write(address)


def _swap(frame: Frame) -> None:
    """Addresses and capacities; whose memory it is, is seen by the address (`NativeContext.grow`)."""
    f = frame.f
    pairs = [f.gep(frame.regions, f.shl(frame.operand(k), 1), I64) for k in (0, 1)]
    words = [[f.load(p, I64, k) for k in (0, 1)] for p in pairs]
    for pair, (address, capacity) in zip(pairs, reversed(words), strict=True):
        f.store(address, pair, 0)
        f.store(capacity, pair, 1)


def _output(frame: Frame) -> None:
    f = frame.f
    frame.need_list(f.gep(frame.at, HEAD + 3, I64), frame.operand(2))
    number = frame.operand(1)
    address = f.load(frame.results, I64, number)
    frame.leave_if(f.compare("eq", address, 0), lambda: frame.leave(End.OUTPUT))
    f.store(const(I64, 0), frame.results, number)
    frame.write(address)


def _view(frame: Frame) -> None:
    frame.liveness(1, 2)
    frame.write(frame.f.add(frame.register(1), frame.register(2)))


def _address(frame: Frame, k: int) -> Val:
    return frame.f.convert("inttoptr", frame.register(k), PTR)


def _copy(frame: Frame) -> None:
    frame.liveness(0, 1, 2)
    arguments = [_address(frame, 0), _address(frame, 1), frame.register(2), const(I1, 0)]
    frame.f.call_intrinsic("llvm.memmove", VOID, arguments, "p0.p0.i64")


def _element_type(code: int) -> tuple[Type, bool]:
    """(type in memory, whether it is unsigned)."""
    name, _, size = ELEMENTS[code]
    return Type(f"i{size * 8}"), name.startswith(("u", "bool"))


def _load(frame: Frame) -> None:
    """By the type's number. An unsigned 64-bit element beyond the signed ones is lost."""
    f = frame.f
    frame.liveness(1)
    base, index, code = _address(frame, 1), frame.operand(2), frame.operand(3)
    after, other = f.new_block(), f.new_block()
    blocks = {number: f.new_block() for number in ELEMENTS}
    f.switch(code, other, list(blocks.items()))
    values: list[tuple[Val, Block]] = []
    for number, block in blocks.items():
        f.start(block)
        type_, unsigned = _element_type(number)
        value = f.load(base, type_, index)
        if ELEMENTS[number][0] == "bool":
            value = f.convert("zext", f.compare("ne", value, 0), I64)
        else:
            value = f.convert("zext" if unsigned else "sext", value, I64)
        if ELEMENTS[number][0] == "u64":
            _write_u64(frame, value)
            frame.go_on(HEAD + 4)
            continue
        values.append((value, f.block))
        f.jump(after)
    f.start(other)
    frame.leave(End.UNKNOWN)
    f.start(after)
    frame.write(f.phi(I64, values))


def _write_u64(frame: Frame, value: Val) -> None:
    f = frame.f
    beyond = f.compare("lt", value, 0)
    if frame.careful:
        frame.write(f.select(beyond, const(I64, 0), value), beyond)
    else:
        frame.leave_if(beyond, frame.overflowed)
        frame.write(value)


def _store(frame: Frame) -> None:
    """By the type's number, if the value fits."""
    f = frame.f
    frame.liveness(0, 2)
    base, index, value, code = _address(frame, 0), frame.operand(1), frame.register(2), frame.operand(3)
    after, other = f.new_block(), f.new_block()
    blocks = {number: f.new_block() for number in ELEMENTS}
    f.switch(code, other, list(blocks.items()))
    for number, block in blocks.items():
        f.start(block)
        type_, unsigned = _element_type(number)
        if ELEMENTS[number][0] == "bool":
            f.store(f.convert("zext", f.compare("ne", value, 0), I8), base, index)
        else:
            narrow = f.convert("trunc", value, type_)
            if ELEMENTS[number][0] == "u64":
                frame.leave_if(f.compare("lt", value, 0), lambda: frame.leave(End.STORE))
            elif type_ != I64:
                back = f.convert("zext" if unsigned else "sext", narrow, I64)
                frame.leave_if(f.compare("ne", back, value), lambda: frame.leave(End.STORE))
            f.store(narrow, base, index)
        f.jump(after)
    f.start(other)
    frame.leave(End.UNKNOWN)
    f.start(after)


def _threads(frame: Frame) -> None:
    frame.write(frame.f.load(frame.state, I64, Word.THREADS))


def _invoke(frame: Frame) -> None:
    frame.liveness(1)
    place = _arguments(frame, 2)
    kernel = frame.f.load(frame.kernels, PTR, frame.operand(0))
    arguments = [frame.frame, place, _address(frame, 1), const(I64, 0), const(I64, 1)]
    _end_of_kernel(frame, frame.f.call_pointer(kernel, I32, arguments))


def _share(frame: Frame) -> None:
    """In one part by this thread alone, or over the pool, and in slices where it may take long. A number that overflowed is one."""
    f = frame.f
    frame.liveness(1, 2)
    place = _arguments(frame, 5)
    kernel, scratch = f.load(frame.kernels, PTR, frame.operand(0)), _address(frame, 1)
    parts, slices = frame.register(3), frame.register(4)
    if frame.careful:
        parts, slices = (f.select(frame.lost(k), const(I64, 1), n) for k, n in ((3, parts), (4, slices)))
    pool = f.load(frame.state, PTR, Word.POOL)
    shared = [pool, kernel, frame.frame, place, scratch, frame.register(2), parts, frame.operand(5)]
    with f.if_else(f.compare("le", slices, 1)) as whole:
        with whole.then():
            with f.if_else(f.compare("le", parts, 1)) as branch:
                with branch.then():
                    in_one = [frame.frame, place, scratch, const(I64, 0), const(I64, 1)]
                    branch.give(f.call_pointer(kernel, I32, in_one))
                with branch.otherwise():
                    branch.give(f.call("anyshape_share", I32, [*shared, const(I64, 0), const(I64, 1)]))
            whole.give(branch.results[0])
        with whole.otherwise():
            whole.give(f.call("anyshape_sliced", I32, [*shared, slices]))
    _end_of_kernel(frame, whole.results[0])


def _arguments(frame: Frame, k: int) -> Val:
    """The two lists that begin with operand k: scalars at the frame's head, buffers right behind them, at the address that it gives."""
    f = frame.f
    frame.leave_if(f.compare("ne", f.load(frame.state, I64, Word.HOLD), 0), lambda: frame.leave(End.BLOCKING))
    frame.look_up()
    scalars = frame.operand(k)
    first = f.gep(frame.at, HEAD + k + 1, I64)
    behind = f.gep(first, scalars, I64)
    buffers = f.load(behind, I64)
    second = f.gep(behind, 1, I64)
    frame.need_list(first, scalars)
    frame.need_list(second, buffers)
    place = f.gep(frame.frame, scalars, I64)
    for names, count, to in ((first, scalars, frame.frame), (second, buffers, place)):
        with f.for_range(0, count) as each:
            f.store(f.load(frame.registers, I64, f.load(names, I64, each.index)), to, each.index)
    return place


def _end_of_kernel(frame: Frame, status: Val) -> None:
    f = frame.f

    def failed() -> None:
        frame.leave_if(f.compare("eq", status, STOPPED), lambda: frame.leave(End.STOPPED))
        f.store(f.convert("sext", status, I64), frame.state, Word.KERNEL_STATUS)
        frame.leave(End.KERNEL)

    frame.leave_if(f.compare("ne", status, 0), failed)
