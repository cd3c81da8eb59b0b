"""Growth of regions while a call stands still.

In: a context whose loop returned `End.REGION`. Out: a region of the size that the instruction asks for. `NATIVE` does so for the direct
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
"""Contexts with a direct entry, by the address of their state."""


def known(context: NativeContext) -> NativeContext:
    """Registers a context, so that the direct entry may have its memory grow; the same context."""
    _CONTEXTS[context.state] = context
    return context


def instruction(context: NativeContext) -> tuple[Op, dict[str, Any]]:
    """The instruction at which the loop returned, and its operands by name."""
    at, code = context.at, context.tables.program.code
    _, op, operands = next(decode(code[at : at + int(code[at + 1])].tolist()))
    return op, op.named(operands)


def grow(context: NativeContext) -> None:
    """Grows the region that the instruction names. Raises AnyshapeError where there is no such memory."""
    op, o = instruction(context)
    size = context.register(o["size"])
    if op is Op.STACK:
        with growing(context.tables.program, o["what"]):
            context.extend(o["region"], size)
    else:
        (context.extend if op is Op.EXTEND else context.grow)(o["region"], size)


def _from_native(state: int) -> int:
    """Grows the region; 1, or 0 where that failed: Python does the call again then, and raises the error."""
    try:
        context = _CONTEXTS[state]
        context.look_anew()
        grow(context.innermost)
    except Exception:
        return 0
    return 1


NATIVE: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(_from_native)


def entry_imports() -> dict[str, int]:
    """Addresses of functions of this module that the direct entry calls, by name."""
    return {"anyshape_grow": ctypes.cast(NATIVE, ctypes.c_void_p).value or 0}
