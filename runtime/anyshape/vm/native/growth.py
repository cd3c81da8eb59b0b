"""Memory that grows while a call stands still: what the loop stopped for, and the regions of its context.

In: a context whose turn ended with `End.REGION`. Out: a region of the size that the instruction wants. `NATIVE` is the same for the direct
entry, by the address of a state: a call at a shape that needs more memory than those before goes on where it stood.
"""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakValueDictionary

from anyshape.vm.native.context import NativeContext
from anyshape.vm.program.table import Op, decode
from anyshape.vm.run.interpreter import growing

_CONTEXTS: WeakValueDictionary[int, NativeContext] = WeakValueDictionary()
"""By the address of their state, those with a direct entry."""


def known(context: NativeContext) -> NativeContext:
    """The same context, whose memory the direct entry may have grown from now on."""
    _CONTEXTS[context.state] = context
    return context


def instruction(context: NativeContext) -> tuple[Op, dict[str, Any]]:
    """The one that ended the turn, and its operands by name."""
    at, code = context.at, context.tables.program.code
    _, op, operands = next(decode(code[at : at + int(code[at + 1])].tolist()))
    return op, op.named(operands)


def grow(context: NativeContext) -> None:
    """Raises AnyshapeError where the memory is not to be had."""
    op, o = instruction(context)
    size = context.register(o["size"])
    if op is Op.STACK:
        with growing(context.tables.program, o["what"]):
            context.extend(o["region"], size)
    else:
        (context.extend if op is Op.EXTEND else context.grow)(o["region"], size)


def _from_native(state: int) -> int:
    """1, or 0 where that failed: the call is done again at leisure, which says why."""
    try:
        context = _CONTEXTS[state]
        context.look_anew()
        grow(context.innermost)
    except Exception:
        return 0
    return 1


NATIVE: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(_from_native)


def entry_imports() -> dict[str, int]:
    """What the direct entry calls here, by name."""
    return {"anyshape_grow": ctypes.cast(NATIVE, ctypes.c_void_p).value or 0}


__all__ = ["entry_imports", "grow", "instruction", "known"]
