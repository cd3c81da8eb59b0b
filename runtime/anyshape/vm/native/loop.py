"""Native loop as LLVM text: walks the table of a program, whatever program it is.

In: a target. Out: a module with `anyshape_run(state) -> i64` (an `End`).
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I64, PTR
from anyshape.lower.target import Target
from anyshape.vm.native import call_effects, effects, list_effects, scalars
from anyshape.vm.native.frame import Frame
from anyshape.vm.native.heap import add_heap
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.pool_code import add_pool
from anyshape.vm.native.stop_code import add_stops
from anyshape.vm.program.table import Op, handlers

HANDLERS = handlers(Op, *map(vars, (scalars, effects, list_effects, call_effects)))
"""Function that emits the code of an instruction into an open `Frame`, by instruction; it need not jump to the next one."""


def loop_module(target: Target) -> Module:
    """Makes the module of `anyshape_run`, of what it shares kernels with, and of `anyshape_forget`."""
    module = Module(target)
    add_pool(module)
    add_stops(module)
    add_heap(module)
    module.define("anyshape_run", I64, [("state", PTR)], _loop, internal=False, inline=False)
    return module


def _loop(f: FunctionBuilder) -> None:
    frame = Frame(f)
    begin = f.load(frame.state, PTR, Word.AT)
    dispatch, unknown = frame.dispatch, f.new_block()
    frame.next.append((begin, f.block))
    f.jump(dispatch)
    f.start(dispatch)
    blocks = {op: f.new_block() for op in Op}
    f.switch(f.load(frame.at, I64), unknown, [(int(op), block) for op, block in blocks.items()])
    for op, block in blocks.items():
        f.start(block)
        frame.begin(op)
        HANDLERS[op](frame)
        if not f.block.terminated:
            frame.go_on()
    f.start(unknown)
    frame.leave(End.UNKNOWN)
    f.set_phi(frame.at, frame.next, dispatch)
