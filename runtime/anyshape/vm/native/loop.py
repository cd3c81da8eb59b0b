"""Native loop as LLVM text: walks the table of a program, whatever program it is.

In: a target. Out: a module with `anyshape_run(state) -> i64` (an `End`). It holds two loops from one emitter: the plain one, and
the careful one that it goes over to, for the rest of the call, where a number first overflows.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I64, PTR
from anyshape.lower.target import Target
from anyshape.vm.native import call_effects, effects, list_effects, scalars
from anyshape.vm.native.frame import Frame, go_careful
from anyshape.vm.native.heap import add_heap
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.pool_code import add_pool
from anyshape.vm.native.stop_code import add_stops
from anyshape.vm.program.table import Op, handlers
from anyshape.vm.run.policies import Policy, in_use

STATE = [("state", PTR)]
HANDLERS = handlers(Op, *map(vars, (scalars, effects, list_effects, call_effects)))
"""Function that emits the code of an instruction into an open `Frame`, by instruction; it need not jump to the next one."""


def add_loop(module: Module, internal: bool = False) -> None:
    """Defines `anyshape_run` in the module, what it shares kernels with, and `anyshape_forget`."""
    add_pool(module, internal=True)
    add_stops(module)
    add_heap(module)
    for name, careful in (("anyshape_careful", True), ("anyshape_plain", False)):
        with module.function(name, I64, STATE, internal=True, inline=False, noalias=False) as f:
            _loop(f, careful)
    with module.function("anyshape_run", I64, STATE, internal=internal, noalias=False) as f:
        state = f.arg("state")
        with f.if_(f.compare("ne", f.load(state, I64, Word.CAREFUL), 0)):
            f.ret(f.call("anyshape_careful", I64, [state]))
        if in_use(Policy.PLAIN):
            f.ret(f.call("anyshape_plain", I64, [state]))
        else:
            go_careful(f, state)


def loop_module(target: Target) -> Module:
    module = Module(target)
    add_loop(module)
    return module


def _loop(f: FunctionBuilder, careful: bool) -> None:
    frame = Frame(f, careful)
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
