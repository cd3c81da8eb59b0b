"""A text builder of LLVM IR: modules, functions, and the control flow of these.

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

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from ..target import Target
from .instructions import BasicBlock, InstructionBuilder
from .scalars import MARK
from .types import I32, I64, PTR, Type, Val, ValLike

_SPELLED = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in range(256)]
"""A byte as strings of LLVM's text have it."""
KERNEL_ARGS = [("scalars", PTR), ("buffers", PTR), ("scratch", PTR), ("part", I64), ("nparts", I64)]
"""Every kernel's parameters: i64 table, table of buffer addresses, 64-byte aligned scratch, which part of how many."""


class Module:
    """A compilation unit. `symbols` are the functions it defines for others, `imports` those to be linked to it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: list[str] = []
        self.imports: list[str] = []
        self.has_slots = False
        """Whether scalars are in stack slots, which become values before code is generated (`scalars`)"""
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
        """Opens a function. `inline=False` keeps it a call; pointer arguments are noalias by default. Blocks that lead to a `cold` one are
        laid out of the way."""
        function = FunctionBuilder(
            self, name, result, args, internal=internal, inline=inline, noalias=noalias, cold=cold
        )
        yield function
        if not function.block.terminated:
            raise TypeError(f"function {name} does not end in ret")
        self._functions.append(function)
        if not internal:
            self.symbols.append(name)

    def define(
        self,
        name: str,
        result: Type,
        args: Sequence[tuple[str, Type]],
        write: Callable[[FunctionBuilder], None],
        internal: bool = True,
        inline: bool | None = None,
    ) -> None:
        """Defines a function by what writes its body; its pointers may lead to the same memory."""
        with self.function(name, result, args, internal=internal, inline=inline, noalias=False) as f:
            write(f)

    def has(self, name: str) -> bool:
        """Whether a function of this name is closed."""
        return any(function.name == name for function in self._functions)

    def unused(self, name: str) -> str:
        """A name for a function, with a number that no closed one of that name has."""
        return f"{name}{sum(function.name.startswith(name) for function in self._functions)}"

    @contextmanager
    def kernel(self, name: str) -> Iterator[FunctionBuilder]:
        """Open a function with the ABI of kernels: `i32 (scalars, buffers, scratch, part, nparts)`, 0 is success."""
        with self.function(name, I32, KERNEL_ARGS, noalias=False) as function:
            yield function

    def declare(self, name: str, result: Type, args: Sequence[Type]) -> None:
        """Declares a function of another module, reached by name when the code is loaded."""
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({', '.join(map(str, args))}) nounwind"
            self.imports.append(name)

    def declare_intrinsic(self, name: str, result: Type, args: Sequence[Type]) -> None:
        immediate = {"llvm.masked.load": 1, "llvm.masked.store": 2, "llvm.masked.gather": 1, "llvm.masked.scatter": 2}
        place = next((at for prefix, at in immediate.items() if name.startswith(prefix)), -1)
        texts = [f"{arg} immarg" if at == place else str(arg) for at, arg in enumerate(args)]
        self._declared.setdefault(name, f"declare {result} @{name}({', '.join(texts)})")

    def pointer_table(self, name: str, symbols: Sequence[str]) -> None:
        """Defines and exports a read-only array of function addresses, null where a name is empty."""
        body = ", ".join(f"ptr @{symbol}" if symbol else "ptr null" for symbol in symbols)
        self._globals.append(f"@{name} = constant [{len(symbols)} x ptr] [{body}], align 8")
        self.symbols.append(name)

    def data(self, name: str, content: bytes, align: int = 1) -> Val:
        """Defines bytes that are read only, of this module alone; returns their address."""
        self._globals.append(f'@{name} = internal constant [{len(content)} x i8] c"{_text_of(content)}", align {align}')
        return Val(f"@{name}", PTR)

    def has_data(self, name: str) -> bool:
        """Whether bytes of this name are defined."""
        return any(text.startswith(f"@{name} = ") for text in self._globals)

    def machine_code(self, name: str, result: Type, args: Sequence[Type], code: bytes) -> None:
        """Defines a function by its bytes, which end with a return: LLVM calls it, and knows nothing of what it does. Modules linked to
        this one may define it too."""
        self._globals.append(
            f'define weak {result} @{name}({", ".join(map(str, args))}) nounwind noinline prologue [{len(code)} x i8] c"{_text_of(code)}" '
            "{ unreachable }"
        )

    def word(self, name: str) -> None:
        """Defines an i64 that is 0; modules linked to this one may declare it, or define it too."""
        self._globals.append(f"@{name} = weak global i64 0, align 8")

    def declare_table(self, name: str) -> Val:
        """Declares an array of addresses that another module exports."""
        return self._declare_data(name, "constant [0 x ptr]")

    def declare_word(self, name: str) -> Val:
        """Declares an i64 that the loader of the code provides; returns its address."""
        return self._declare_data(name, "global i64")

    def _declare_data(self, name: str, what: str) -> Val:
        if name not in self._declared:
            self._declared[name] = f"@{name} = external {what}, align 8"
            self.imports.append(name)
        return Val(f"@{name}", PTR)

    def text(self) -> str:
        """The module as LLVM assembly."""
        parts = [f'target triple = "{self.target.triple}"', *self._globals]
        parts += [self._declared[name] for name in sorted(self._declared)]
        parts += [function.text() for function in self._functions]
        return (MARK if self.has_slots else "") + "\n".join(parts) + "\n"


def _text_of(content: bytes) -> str:
    return "".join(map(_SPELLED.__getitem__, content))


class OpenLoop:
    """An open loop. `index` counts, `carried` are the values of this iteration; `next(...)` sets those of the next one.

    `results` (after the loop) are the carried values that the last iteration set, or the initial ones if there was none.
    """

    __slots__ = ("carried", "following", "index", "results")

    def __init__(self, index: Val, carried: tuple[Val, ...]) -> None:
        self.index, self.carried = index, carried
        self.following: tuple[Val, ...] = ()
        self.results: tuple[Val, ...] = ()

    def next(self, *values: Val) -> None:
        if [v.type for v in values] != [v.type for v in self.carried]:
            raise TypeError(f"the loop carries {[str(v) for v in self.carried]}, next() got {[str(v) for v in values]}")
        self.following = values

    def end(self, results: tuple[Val, ...]) -> None:
        self.results = results


class Branch:
    """An open if/else. Each side may `give(...)` values; `results` merges them after the end."""

    def __init__(self, f: FunctionBuilder, cond: Val) -> None:
        self.f, self.results = f, tuple[Val, ...]()
        self._yes, self._no, self._after = f.new_block(), f.new_block(), f.new_block()
        self._ends: list[tuple[BasicBlock, tuple[Val, ...]]] = []
        self._values: tuple[Val, ...] = ()
        f.branch(cond, self._yes, self._no)

    def then(self) -> AbstractContextManager[None]:
        return self._side(self._yes)

    def otherwise(self) -> AbstractContextManager[None]:
        return self._side(self._no)

    @contextmanager
    def _side(self, block: BasicBlock) -> Iterator[None]:
        self.f.start(block)
        self._values = ()
        yield
        if not self.f.block.terminated:
            self._ends.append((self.f.block, self._values))
            self.f.jump(self._after)

    def give(self, *values: Val) -> None:
        self._values = values

    def merge(self) -> None:
        self.f.start(self._after)
        if len({len(values) for _, values in self._ends}) > 1:
            raise TypeError("both sides of an if_else must give the same number of values")
        incoming = zip(*([(value, block) for value in values] for block, values in self._ends), strict=True)
        self.results = tuple(self.f.phi(sources[0][0].type, sources) for sources in incoming)


class FunctionBuilder(InstructionBuilder):
    """An open function: its parameters (`args`, as values), stack slots, branches and loops."""

    def __init__(
        self,
        module: Module,
        name: str,
        result: Type,
        args: Sequence[tuple[str, Type]],
        *,
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

    def slot(self, element: Type) -> Val:
        """The stack slot of a scalar that is zero at first, made in the entry block; the scalar becomes a value."""
        self.module.has_slots = True
        result = self.alloca(element, 1, 8)
        self._allocas.append(f"store {element} zeroinitializer, ptr {result.name}, align 8")
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

    # blocks

    def new_block(self) -> BasicBlock:
        """A block that is not yet in the function; `start` puts it there."""
        return BasicBlock("b" + self.fresh()[2:])

    def jump(self, to: BasicBlock) -> None:
        self.end(f"br label %{to.label}")

    def branch(self, cond: Val, yes: BasicBlock, no: BasicBlock) -> None:
        self.end(f"br {cond}, label %{yes.label}, label %{no.label}")

    def expect(self, cond: Val, usual: BasicBlock, other: BasicBlock) -> None:
        """Branches where the other target is hardly ever taken: its block is laid out of the way."""
        weights = '!{!"branch_weights", i32 1048576, i32 1}'
        self.end(f"br {cond}, label %{usual.label}, label %{other.label}, !prof {weights}")

    def ret(self, value: Val | None = None) -> None:
        self.end("ret void" if value is None else f"ret {value}")

    def phi(self, type_: Type, incoming: Sequence[tuple[Val, BasicBlock]], block: BasicBlock | None = None) -> Val:
        """A phi at the head of `block` (by default the current one)."""
        result = Val(self.fresh(), type_)
        self.set_phi(result, incoming, block or self.block)
        return result

    def set_phi(self, result: Val, incoming: Sequence[tuple[Val, BasicBlock]], block: BasicBlock) -> None:
        sources = ", ".join(f"[{value.name}, %{source.label}]" for value, source in incoming)
        block.phis.append(f"{result.name} = phi {result.type} {sources}")

    # structured

    @contextmanager
    def for_range(
        self, start: ValLike, stop: ValLike, step: ValLike = 1, carried: Sequence[Val] = (), at_least_once: bool = False
    ) -> Iterator[OpenLoop]:
        """Emits a loop over range(start, stop, step), step positive. `at_least_once` leaves the first test out."""
        first, last, stride = self.i64(start), self.i64(stop), self.i64(step)
        body, after = self.new_block(), self.new_block()
        guard = None
        if at_least_once:
            self.jump(body)
            before = self.block
        else:
            cond = self.compare("lt", first, last)
            before = guard = self.block
            self.branch(cond, body, after)
        self.start(body)
        index = Val(self.fresh(), first.type)
        loop = OpenLoop(index, tuple(Val(self.fresh(), v.type) for v in carried))
        yield loop
        if carried and not loop.following:
            raise TypeError("a loop with carried values must call next(...)")
        following = self.add(index, stride)
        latch = self.block
        self.branch(self.compare("lt", following, last), body, after)
        self.set_phi(index, [(first, before), (following, latch)], body)
        for phi, initial, value in zip(loop.carried, carried, loop.following):
            self.set_phi(phi, [(initial, before), (value, latch)], body)
        self.start(after)
        if guard is not None:
            pairs = zip(carried, loop.following)
            loop.end(tuple(self.phi(v.type, [(initial, guard), (v, latch)]) for initial, v in pairs))
        else:
            loop.end(loop.following)

    @contextmanager
    def if_(self, cond: Val) -> Iterator[None]:
        """Emit the body under `cond`, nothing otherwise."""
        body, after = self.new_block(), self.new_block()
        self.branch(cond, body, after)
        self.start(body)
        yield
        if not self.block.terminated:
            self.jump(after)
        self.start(after)

    @contextmanager
    def if_else(self, cond: Val) -> Iterator[Branch]:
        """`with f.if_else(c) as b:` then `with b.then(): ... b.give(x)` and `with b.otherwise(): ... b.give(y)`."""
        branch = Branch(self, cond)
        yield branch
        branch.merge()

    def switch(self, value: Val, default: BasicBlock, cases: Sequence[tuple[int, BasicBlock]]) -> None:
        table = " ".join(f"{value.type} {number}, label %{block.label}" for number, block in cases)
        self.end(f"switch {value}, label %{default.label} [ {table} ]")
