"""Handlers of the loop for everything that is not arithmetic: dims, memory, checks, kernels, jumps.

In: the open loop, at the block of an opcode. Out: the code of its handler. Where Python is needed (memory must grow, a result must be
made) the loop returns; it goes on at the same instruction.
"""

from __future__ import annotations

from anyshape.lower.llvm.instructions import BasicBlock
from anyshape.lower.llvm.polling import STOPPED
from anyshape.lower.llvm.types import I1, I8, I32, I64, PTR, VOID, Type, Val, const
from anyshape.vm.native.frame import Frame
from anyshape.vm.native.layout import End, Word
from anyshape.vm.program.table import ELEMENT_CODE, ELEMENTS


def do_return(frame: Frame) -> None:
    frame.leave(End.DONE)


def do_jump(frame: Frame) -> None:
    frame.look_up()
    frame.go_on(_target(frame))


def do_unless(frame: Frame) -> None:
    following = frame.following()
    holds = frame.f.compare("ne", frame.register("cond"), 0)
    frame.go_on(frame.f.select(holds, following, _target(frame)))


def _target(frame: Frame) -> Val:
    return frame.f.gep(frame.f.load(frame.state, PTR, Word.CODE), frame.operand("to"), I64)


def do_const(frame: Frame) -> None:
    frame.write(frame.operand("n"))


def do_dim(frame: Frame) -> None:
    f = frame.f
    dims = f.load(f.gep(frame.arguments, f.shl(frame.operand("argument"), 1), I64), PTR, 1)
    frame.write(f.load(dims, I64, frame.operand("axis")))


def do_argument(frame: Frame) -> None:
    frame.write(frame.f.load(frame.arguments, I64, frame.f.shl(frame.operand("argument"), 1)))


def do_constant(frame: Frame) -> None:
    frame.write(frame.f.load(frame.constants, I64, frame.operand("constant")))


def do_check(frame: Frame) -> None:
    frame.leave_if(frame.f.compare("eq", frame.register("cond"), 0), lambda: frame.leave(End.CHECK))


def do_guard(frame: Frame) -> None:
    frame.leave_if(frame.f.compare("eq", frame.register("cond"), 0), lambda: frame.leave(End.DECLINED))


def do_region(frame: Frame) -> None:
    f = frame.f
    pair = f.gep(frame.regions, f.shl(frame.operand("region"), 1), I64)
    address, capacity = f.load(pair, I64), f.load(pair, I64, 1)
    short = f.or_(f.compare("gt", frame.register("size"), capacity), f.compare("eq", address, 0))
    frame.leave_if(short, lambda: frame.leave(End.REGION))
    frame.write(address)


do_extend = do_stack = do_region


def do_swap(frame: Frame) -> None:
    """Swaps addresses and capacities; `NativeContext.grow` tells by the address which region a number stands for."""
    f = frame.f
    pairs = [f.gep(frame.regions, f.shl(frame.operand(name), 1), I64) for name in ("one", "other")]
    words = [[f.load(p, I64, k) for k in (0, 1)] for p in pairs]
    for pair, (address, capacity) in zip(pairs, reversed(words), strict=True):
        f.store(address, pair, 0)
        f.store(capacity, pair, 1)


def do_output(frame: Frame) -> None:
    f = frame.f
    number = frame.operand("result")
    address = f.load(frame.results, I64, number)
    frame.leave_if(f.compare("eq", address, 0), lambda: frame.leave(End.OUTPUT))
    f.store(const(I64, 0), frame.results, number)
    frame.write(address)


def do_view(frame: Frame) -> None:
    frame.write(frame.f.add(frame.register("address"), frame.register("offset")))


def do_copy(frame: Frame) -> None:
    arguments = [frame.address("to"), frame.address("address"), frame.register("size"), const(I1, 0)]
    frame.f.call_intrinsic("llvm.memmove", VOID, arguments, "p0.p0.i64")


def _element_type(code: int) -> tuple[Type, bool]:
    """Returns the type of an element in memory, and whether it is unsigned."""
    name, _, size = ELEMENTS[code]
    return Type(f"i{size * 8}"), name.startswith(("u", "bool"))


def do_load(frame: Frame) -> None:
    """Loads an element by the number of its type. A u64 that a signed word does not hold is lost."""
    f = frame.f
    base, index, code = frame.address("address"), frame.operand("index"), frame.operand("of")
    after, other = f.new_block(), f.new_block()
    blocks = {number: f.new_block() for number in ELEMENTS}
    f.switch(code, other, list(blocks.items()))
    values: list[tuple[Val, BasicBlock]] = []
    for number, block in blocks.items():
        f.start(block)
        type_, unsigned = _element_type(number)
        value = f.load(base, type_, index)
        if ELEMENTS[number][0] == "bool":
            value = f.convert("zext", f.compare("ne", value, 0), I64)
        else:
            value = f.convert("zext" if unsigned else "sext", value, I64)
        values.append((value, f.block))
        f.jump(after)
    f.start(other)
    frame.leave(End.UNKNOWN)
    f.start(after)
    value = f.phi(I64, values)
    frame.write(value, f.and_(f.compare("eq", code, ELEMENT_CODE["u64"]), f.compare("lt", value, 0)))


def do_store(frame: Frame) -> None:
    """Stores an element by the number of its type, if the value fits."""
    f = frame.f
    base, index = frame.address("address"), frame.operand("index")
    value, code = frame.register("value"), frame.operand("of")
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


def do_threads(frame: Frame) -> None:
    frame.write(frame.f.load(frame.state, I64, Word.THREADS))


def do_invoke(frame: Frame) -> None:
    place = _arguments(frame)
    kernel = frame.f.load(frame.kernels, PTR, frame.operand("kernel"))
    arguments = [frame.frame, place, frame.address("scratch"), const(I64, 0), const(I64, 1)]
    _end_of_kernel(frame, frame.f.call_pointer(kernel, I32, arguments))


def do_share(frame: Frame) -> None:
    """Runs a kernel in one part, or shared over the pool, and in slices where it may take long. A count that overflowed is taken for 1."""
    f = frame.f
    place = _arguments(frame)
    kernel, scratch = f.load(frame.kernels, PTR, frame.operand("kernel")), frame.address("scratch")
    parts, slices = (f.select(frame.lost(k), const(I64, 1), frame.register(k)) for k in ("parts", "slices"))
    pool = f.load(frame.state, PTR, Word.POOL)
    shared = [pool, kernel, frame.frame, place, scratch, frame.register("each"), parts]
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


def _arguments(frame: Frame) -> Val:
    """Copies scalars to the head of the frame and buffers behind them; returns the address of the buffers."""
    f = frame.f
    frame.leave_if(f.compare("ne", f.load(frame.state, I64, Word.HOLD), 0), lambda: frame.leave(End.BLOCKING))
    frame.look_up()
    scalars, buffers = frame.lists()
    place = f.gep(frame.frame, scalars[1], I64)
    frame.copy_list(*scalars, frame.frame)
    frame.copy_list(*buffers, place)
    return place


def _end_of_kernel(frame: Frame, status: Val) -> None:
    f = frame.f

    def failed() -> None:
        frame.leave_if(f.compare("eq", status, STOPPED), lambda: frame.leave(End.STOPPED))
        f.store(f.convert("sext", status, I64), frame.state, Word.KERNEL_STATUS)
        frame.leave(End.KERNEL)

    frame.leave_if(f.compare("ne", status, 0), failed)
