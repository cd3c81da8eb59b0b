"""Blocks of LLVM text, fresh names and calls, below the instructions of `builder.py`.

In: lines of LLVM text. Out: the blocks of one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..target import Target
from .types import VOID, Type, Val

Declare = Callable[[str, Type, Sequence[Type]], None]


class Block:
    """A basic block: its label and lines; phis are kept apart because a loop's are known only at its end."""

    __slots__ = ("label", "lines", "phis", "terminated")

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[str] = []
        self.lines: list[str] = []
        self.terminated = False


class Emitter:
    """A function being written: `block` takes the next line."""

    def __init__(self, target: Target, name: str, declare_intrinsic: Declare) -> None:
        self.target = target
        self.name = name
        self.blocks: list[Block] = []
        self._declare_intrinsic = declare_intrinsic
        self._count = 0
        self.start(Block("entry"))

    def start(self, block: Block) -> None:
        """Go on emitting in `block`, which becomes the next one of the text."""
        self.blocks.append(block)
        self.block = block

    def resume(self, block: Block) -> None:
        """Go on emitting in a block that is in the text already."""
        self.block = block

    def end(self, text: str) -> None:
        """Append the last line of a block: a branch or a return."""
        self.line(text)
        self.block.terminated = True

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        if self.block.terminated:
            raise TypeError(f"function {self.name}: {text!r} follows the end of its block")
        self.block.lines.append(text)

    def emit(self, type_: Type, text: str) -> Val:
        """Append an instruction with a result."""
        result = Val(self.fresh(), type_)
        self.line(f"{result.name} = {text}")
        return result

    def call(self, name: str, result: Type, args: Sequence[Val]) -> Val:
        """Call a function of this module, or one announced by `Module.declare`."""
        return self._call(f"@{name}", result, args)

    def call_pointer(self, address: Val, result: Type, args: Sequence[Val]) -> Val:
        return self._call(address.name, result, args)

    def _call(self, callee: str, result: Type, args: Sequence[Val], flags: str = "") -> Val:
        text = f"call {flags + ' ' if flags else ''}{result} {callee}({', '.join(map(str, args))})"
        if result == VOID:
            self.line(text)
            return Val("void", VOID)
        return self.emit(result, text)

    def call_intrinsic(self, name: str, result: Type, args: Sequence[Val], overload: str = "", flags: str = "") -> Val:
        """Call an LLVM intrinsic; `overload` is its type suffix, by default that of the result."""
        full = name if name.startswith(("llvm.x86.", "llvm.aarch64.")) else f"{name}.{overload or result.suffix}"
        self._declare_intrinsic(full, result, [arg.type for arg in args])
        return self._call(f"@{full}", result, args, flags)
