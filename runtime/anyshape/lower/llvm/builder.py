"""A text builder of LLVM IR: modules and functions made of typed SSA values.

In: calls in the order of the program. Out: `Module.text()`, explicit-vector IR that is already hoisted and in phi form,
so that only LLVM's code generator has to run.

    module = Module(host_target())
    with module.function("scale", VOID, [("x", PTR), ("n", I64)]) as f:
        x, n = f.args
        with f.for_range(0, n) as loop:
            f.store(f.mul(f.load(x, F32, loop.index), 2.0), x, loop.index)
        f.ret()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..target import Target
from .atomics import Atomics
from .control import Control
from .types import I32, I64, PTR, Type, Val

KERNEL_ARGS = [("scalars", PTR), ("buffers", PTR), ("scratch", PTR), ("part", I64), ("nparts", I64)]
"""Every kernel's parameters: i64 table, table of buffer addresses, 64-byte aligned scratch, which part of how many."""


class Module:
    """A compilation unit. `symbols` are the functions it defines for others, `imports` those to be linked to it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: list[str] = []
        self.imports: list[str] = []
        self._declared: dict[str, str] = {}
        self._globals: list[str] = []
        self._functions: list[FunctionBuilder] = []

    @contextmanager
    def function(
        self,
        name: str,
        result: Type,
        args: Sequence[tuple[str, Type]],
        internal: bool = False,
        inline: bool | None = None,
        noalias: bool = True,
        cold: bool = False,
    ) -> Iterator[FunctionBuilder]:
        """Open a function. `inline=False` keeps it a call; pointer arguments are noalias unless told otherwise. What leads to a `cold`
        one is laid out of the way."""
        function = FunctionBuilder(self, name, result, args, internal, inline, noalias, cold)
        yield function
        if not function.block.terminated:
            raise TypeError(f"function {name} does not end in ret")
        self._functions.append(function)
        if not internal:
            self.symbols.append(name)

    def has(self, name: str) -> bool:
        """Whether a function of this name is closed."""
        return any(function.name == name for function in self._functions)

    @contextmanager
    def kernel(self, name: str) -> Iterator[FunctionBuilder]:
        """Open a function with the ABI of kernels: `i32 (scalars, buffers, scratch, part, nparts)`, 0 is success."""
        with self.function(name, I32, KERNEL_ARGS, noalias=False) as function:
            yield function

    def declare(self, name: str, result: Type, args: Sequence[Type]) -> None:
        """A function of another module, reached by name when the code is loaded."""
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({', '.join(map(str, args))}) nounwind"
            self.imports.append(name)

    def declare_intrinsic(self, name: str, result: Type, args: Sequence[Type]) -> None:
        immediate = {"llvm.masked.load": 1, "llvm.masked.store": 2, "llvm.masked.gather": 1, "llvm.masked.scatter": 2}
        place = next((at for prefix, at in immediate.items() if name.startswith(prefix)), -1)
        texts = [f"{arg} immarg" if at == place else str(arg) for at, arg in enumerate(args)]
        self._declared.setdefault(name, f"declare {result} @{name}({', '.join(texts)})")

    def pointer_table(self, name: str, symbols: Sequence[str], exported: bool = False) -> Val:
        """A read-only array of function addresses, null where a name is empty."""
        body = ", ".join(f"ptr @{symbol}" if symbol else "ptr null" for symbol in symbols)
        linkage = "" if exported else "internal "
        self._globals.append(f"@{name} = {linkage}constant [{len(symbols)} x ptr] [{body}], align 8")
        if exported:
            self.symbols.append(name)
        return Val(f"@{name}", PTR)

    def declare_table(self, name: str) -> Val:
        """An array of addresses that another module exports."""
        if name not in self._declared:
            self._declared[name] = f"@{name} = external constant [0 x ptr], align 8"
            self.imports.append(name)
        return Val(f"@{name}", PTR)

    def declare_word(self, name: str) -> Val:
        """The address of an i64 that whoever loads the code has."""
        if name not in self._declared:
            self._declared[name] = f"@{name} = external global i64, align 8"
            self.imports.append(name)
        return Val(f"@{name}", PTR)

    def text(self) -> str:
        """The module as LLVM assembly."""
        parts = [f'target triple = "{self.target.triple}"', *self._globals]
        parts += [self._declared[name] for name in sorted(self._declared)]
        parts += [function.text() for function in self._functions]
        return "\n".join(parts) + "\n"


class FunctionBuilder(Atomics, Control):
    """An open function: every call appends to the current block. `args` are its parameters as values."""

    def __init__(
        self,
        module: Module,
        name: str,
        result: Type,
        args: Sequence[tuple[str, Type]],
        internal: bool,
        inline: bool | None,
        noalias: bool,
        cold: bool = False,
    ) -> None:
        super().__init__(module.target, name, module.declare_intrinsic)
        self.module = module
        self.result = result
        self.args = tuple(Val(f"%{arg}", type_) for arg, type_ in args)
        self._linkage = "internal " if internal else ""
        self._inline = inline
        self._noalias, self._cold = noalias, cold
        self._allocas: list[str] = []

    def arg(self, name: str) -> Val:
        """The parameter called `name`."""
        return next(arg for arg in self.args if arg.name == f"%{name}")

    def alloca(self, element: Type, count: int, align: int = 64) -> Val:
        """Stack space of the whole call, made in the entry block."""
        result = Val(self.fresh(), PTR)
        self._allocas.append(f"{result.name} = alloca {element}, i64 {count}, align {align}")
        return result

    def text(self) -> str:
        args = []
        for arg in self.args:
            attribute = " noalias" if arg.type == PTR and self._noalias else ""
            args.append(f"{arg.type}{attribute} {arg.name}")
        attributes = f'nounwind "target-cpu"="{self.target.cpu}" "prefer-vector-width"="{self.target.vector_bytes * 8}"'
        if self._inline is not None:
            attributes += " alwaysinline" if self._inline else " noinline"
        if self._cold:
            attributes += " cold"
        lines = [f"define {self._linkage}{self.result} @{self.name}({', '.join(args)}) {attributes} {{"]
        for block in self.blocks:
            lines.append(f"{block.label}:")
            lines += block.phis
            if block.label == "entry":
                lines += self._allocas
            lines += block.lines
        return "\n".join([*lines, "}"])
