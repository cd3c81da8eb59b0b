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

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from ..target import Target
from .emitter import Block, Emitter
from .scalars import MARK
from .types import I1, I8, I16, I32, I64, PTR, VOID, Operand, Type, Val, const, const_vector, undefined

_INT_FOLD = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
_FLOAT_NAME = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_SPELLED = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in range(256)]
"""A byte as strings of LLVM's text have it."""
VALUE_AND_OVERFLOW = Type("{ i64, i1 }")

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
        text = "".join(map(_SPELLED.__getitem__, content))
        self._globals.append(f'@{name} = internal constant [{len(content)} x i8] c"{text}", align {align}')
        return Val(f"@{name}", PTR)

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


class Loop:
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
        self._ends: list[tuple[Block, tuple[Val, ...]]] = []
        self._values: tuple[Val, ...] = ()
        f.branch(cond, self._yes, self._no)

    def then(self) -> AbstractContextManager[None]:
        return self._side(self._yes)

    def otherwise(self) -> AbstractContextManager[None]:
        return self._side(self._no)

    @contextmanager
    def _side(self, block: Block) -> Iterator[None]:
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


_OfTwo = Callable[["FunctionBuilder", Operand, Operand], Val]


def _instruction(op: str) -> _OfTwo:
    return lambda self, a, b: self.binary(op, a, b)


def _extreme(op: str) -> _OfTwo:
    return lambda self, a, b: self.int_extreme(op, a, b)


class FunctionBuilder(Emitter):
    """An open function: every call appends to the current block. `args` are its parameters as values."""

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

    def new_block(self) -> Block:
        """A block that is not yet in the function; `start` puts it there."""
        return Block("b" + self.fresh()[2:])

    def jump(self, to: Block) -> None:
        self.end(f"br label %{to.label}")

    def branch(self, cond: Val, yes: Block, no: Block) -> None:
        self.end(f"br {cond}, label %{yes.label}, label %{no.label}")

    def expect(self, cond: Val, usual: Block, other: Block) -> None:
        """Branches where the other target is hardly ever taken: its block is laid out of the way."""
        weights = '!{!"branch_weights", i32 1048576, i32 1}'
        self.end(f"br {cond}, label %{usual.label}, label %{other.label}, !prof {weights}")

    def ret(self, value: Val | None = None) -> None:
        self.end("ret void" if value is None else f"ret {value}")

    def phi(self, type_: Type, incoming: Sequence[tuple[Val, Block]], block: Block | None = None) -> Val:
        """A phi at the head of `block` (by default the current one)."""
        result = Val(self.fresh(), type_)
        self.set_phi(result, incoming, block or self.block)
        return result

    def set_phi(self, result: Val, incoming: Sequence[tuple[Val, Block]], block: Block) -> None:
        sources = ", ".join(f"[{value.name}, %{source.label}]" for value, source in incoming)
        block.phis.append(f"{result.name} = phi {result.type} {sources}")

    # structured

    @contextmanager
    def for_range(
        self, start: Operand, stop: Operand, step: Operand = 1, carried: Sequence[Val] = (), at_least_once: bool = False
    ) -> Iterator[Loop]:
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
        loop = Loop(index, tuple(Val(self.fresh(), v.type) for v in carried))
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

    def switch(self, value: Val, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        table = " ".join(f"{value.type} {number}, label %{block.label}" for number, block in cases)
        self.end(f"switch {value}, label %{default.label} [ {table} ]")

    # memory

    def gep(self, base: Val, index: Operand, element: Type) -> Val:
        """The address of element `index` of `base`; the element type gives the size, so i64 arrays cannot go wrong."""
        i = index if isinstance(index, Val) else const(I64, index)
        if i.number == 0 and not i.type.lanes:  # a vector of zeros still makes a vector of addresses
            return base
        result = PTR.vector(i.type.lanes)
        return self.emit(result, f"getelementptr {element.scalar}, {base}, {i}")

    def opaque(self, pointer: Val) -> Val:
        """Hides from LLVM how a pointer changes in the loops around: it would keep an address for each of many places beside it up to date,
        in memory."""
        return self.emit(pointer.type, f"freeze {pointer}")

    def load(self, base: Val, type_: Type, index: Operand = 0, align: int = 0, again: bool = False) -> Val:
        """Loads `type_` (a vector takes its lanes from consecutive elements) at element `index`.

        `again`: even if the value is loaded already. LLVM merges equal loads, but not with one of another kind: one of memory that does not
        change while the function runs, which must be true then.
        """
        address = self.gep(base, index, type_)
        kind = ", !invariant.load !{}" if again else ""
        return self.emit(type_, f"load {type_}, {address}, align {align or type_.bytes}{kind}")

    def store(self, value: Val, base: Val, index: Operand = 0, align: int = 0) -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store {value}, {address}, align {align or value.type.bytes}")

    def store_past_caches(self, value: Val, place: Val) -> None:
        """Stores a vector at a multiple of its size into memory itself: the line is not read first, and no other line is evicted. Other
        threads may see it only after `end_past_caches`."""
        size = value.type.bytes * value.type.lanes
        self.line(f"store {value}, {place}, align {size}, !nontemporal !{{i32 1}}")

    def end_past_caches(self) -> None:
        """Orders stores past the caches ahead of any that follow: elsewhere than on x86 those of a release wait for them anyway."""
        if self.target.triple.startswith("x86_64"):
            self._declare_intrinsic("llvm.x86.sse.sfence", VOID, [])
            self._call("@llvm.x86.sse.sfence", VOID, [])

    def iota(self, element: Type, lanes: int) -> Val:
        """0, 1, 2 ... as a literal."""
        return const_vector(element, list(range(lanes)))

    def tail_mask(self, count: Val, lanes: int, offset: int = 0) -> Val:
        """True in the lanes below `count - offset` (an i64, clamped to the lanes by the comparison itself)."""
        element = I32 if count.type == I32 else I64
        places = const_vector(element, list(range(offset, offset + lanes)))
        return self.compare("lt", places, count)

    def masked_load(self, base: Val, type_: Type, mask: Val, index: Operand = 0) -> Val:
        """Loads the lanes of `mask`; the others are zero and their memory is not touched."""
        arguments = [self.gep(base, index, type_), const(I32, type_.bytes), mask, const(type_, 0)]
        return self.call_intrinsic("llvm.masked.load", type_, arguments, f"{type_.suffix}.p0")

    def masked_store(self, value: Val, base: Val, mask: Val, index: Operand = 0) -> None:
        arguments = [value, self.gep(base, index, value.type), const(I32, value.type.bytes), mask]
        self.call_intrinsic("llvm.masked.store", VOID, arguments, f"{value.type.suffix}.p0")

    def gather(self, base: Val, type_: Type, indices: Val, mask: Val | None = None) -> Val:
        """Load `type_` from `base[indices]`, indices an i64 or i32 vector counted in elements."""
        addresses = self.gep(base, indices, type_)
        where = mask if mask is not None else const(type_.as_mask(), 1)
        arguments = [addresses, const(I32, type_.bytes), where, const(type_, 0)]
        return self.call_intrinsic("llvm.masked.gather", type_, arguments, f"{type_.suffix}.v{type_.lanes}p0")

    def pick(self, base: Val, type_: Type, indices: Val) -> Val:
        """Gathers where all lanes exist, by one instruction or by a load each, whichever the target is faster with."""
        from anyshape.lower.llvm.target_probe import gathers  # which asks about code that is made so

        if gathers(self.target):
            return self.gather(base, type_, indices)
        row = undefined(type_)
        for lane in range(type_.lanes):
            row = self.insert(row, self.load(self.gep(base, self.extract(indices, lane), type_), type_.scalar), lane)
        return row

    def permute(self, a: Val, b: Val, places: Val) -> Val:
        """Lane i is element `places[i]` (an i32) of `a` and `b` side by side, where the target `permutes` these."""
        lanes, item = a.type.lanes, max(4, a.type.bytes)
        bits = I64 if item == 8 else I32
        x, y = (self._carried(v, bits) for v in (a, b))
        if self.target.scalef:
            name = f"llvm.x86.avx512.vpermi2var.{'q' if item == 8 else 'd'}.{lanes * item * 8}"
            picked = self.call_intrinsic(name, x.type, [x, self.convert("zext", places, bits), y])
        else:
            low, high = (self.call_intrinsic("llvm.x86.avx2.permd", x.type, [v, places]) for v in (x, y))
            picked = self.select(self.compare("lt", places, lanes), low, high)
        if a.type.bytes < item:
            picked = self.convert("trunc", picked, a.type.as_int().scalar)
        return self.bitcast(picked, a.type)

    def _carried(self, a: Val, element: Type) -> Val:
        """The bits of each element in a wider integer."""
        return self.convert("zext", self.bitcast(a, a.type.as_int()), element)

    def every(self, base: Val, type_: Type, step: int, index: Operand = 0) -> Val:
        """Load lane i from element `index + i * step`, by whole vectors that touch nothing before the first of them or past the last."""
        lanes = type_.lanes
        last, row = (lanes - 1) * step, undefined(type_)
        base = self.gep(base, index, type_)
        for part in range(step):
            first = min(part * lanes, last - lanes + 1)
            places = [(i, i * step - first) for i in range(lanes) if part * lanes <= i * step < (part + 1) * lanes]
            picks = list(range(lanes))
            for i, place in places:
                picks[i] = lanes + place
            row = self.shuffle(row, self.load(base, type_, first), picks)
        return row

    def scatter(self, value: Val, base: Val, indices: Val, mask: Val | None = None) -> None:
        """Store lane i of `value` to `base[indices[i]]`; of equal indices the last lane wins."""
        addresses = self.gep(base, indices, value.type)
        where = mask if mask is not None else const(value.type.as_mask(), 1)
        self.call_intrinsic(
            "llvm.masked.scatter",
            VOID,
            [value, addresses, const(I32, value.type.bytes), where],
            overload=f"{value.type.suffix}.v{value.type.lanes}p0",
        )

    def prefetch(self, address: Val, to_write: bool) -> None:
        """Prefetches the cache line of an address, which need not be valid."""
        hint = [address, const(I32, int(to_write)), const(I32, 3), const(I32, 1)]
        self.call_intrinsic("llvm.prefetch", VOID, hint, overload="p0")

    def memset_zero(self, base: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memset", VOID, [base, const(I8, 0), byte_count, const(I1, 0)], "p0.i64")

    def memmove(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memmove", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")

    def memcpy(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memcpy", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")

    # memory that threads share: atomic operations on integers, `seq_cst` being one total order over all threads

    def atomic_load(self, base: Val, type_: Type, index: Operand = 0, order: str = "seq_cst") -> Val:
        address = self.gep(base, index, type_)
        return self.emit(type_, f"load atomic {type_}, {address} {order}, align {type_.bytes}")

    def atomic_store(self, value: Val, base: Val, index: Operand = 0, order: str = "seq_cst") -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store atomic {value}, {address} {order}, align {value.type.bytes}")

    def atomic_update(self, op: str, base: Val, value: Val, index: Operand = 0) -> Val:
        """Applies `op` of LLVM's atomicrmw (add, umin, …) with the value; returns the value before."""
        address = self.gep(base, index, value.type)
        return self.emit(value.type, f"atomicrmw {op} {address}, {value} seq_cst, align {value.type.bytes}")

    def compare_exchange(self, base: Val, expected: Operand, new: Operand, type_: Type, index: Operand = 0) -> Val:
        """Stores `new` if `expected` is in memory; returns whether it was (i1)."""
        address = self.gep(base, index, type_)
        old, value = (v if isinstance(v, Val) else const(type_, v) for v in (expected, new))
        pair = self.fresh()
        self.line(f"{pair} = cmpxchg {address}, {old}, {value} seq_cst seq_cst, align {type_.bytes}")
        return self.emit(I1, f"extractvalue {{ {type_}, i1 }} {pair}, 1")

    # operands

    def pair(self, a: Operand, b: Operand) -> tuple[Val, Val]:
        """Makes both operands values of one type: a number takes the other's type, a scalar is spread over the lanes."""
        if isinstance(a, Val):
            b = b if isinstance(b, Val) else const(a.type, b)
        elif isinstance(b, Val):
            a = const(b.type, a)
        else:
            a, b = const(I64, a), const(I64, b)
        if a.type.lanes and not b.type.lanes:
            b = self.splat(b, a.type.lanes)
        elif b.type.lanes and not a.type.lanes:
            a = self.splat(a, b.type.lanes)
        if a.type != b.type:
            raise TypeError(f"operands of one type wanted, got {a} and {b}")
        return a, b

    def i64(self, value: Operand) -> Val:
        """An i64 scalar: numbers become literals, narrower integers are sign-extended."""
        if isinstance(value, Val):
            return value if value.type == I64 else self.convert("sext", value, I64)
        return const(I64, value)

    # arithmetic

    def _arith(self, op: str, a: Operand, b: Operand, flags: str) -> Val:
        x, y = self.pair(a, b)
        if x.type.is_float:
            spaced = f"{flags} " if flags else ""
            return self.emit(x.type, f"{_FLOAT_NAME[op]} {spaced}{x}, {y.name}")
        number = None
        if isinstance(x.number, int) and isinstance(y.number, int):
            number = _INT_FOLD[op](x.number, y.number)
            if x.is_literal and y.is_literal:
                return const(x.type, number)
        if op in ("add", "sub") and y.number == 0:
            return x
        if op == "add" and x.number == 0:
            return y
        if op == "mul":
            if y.number == 1 or x.number == 0:
                return x
            if x.number == 1 or y.number == 0:
                return y
        return replace(self.emit(x.type, f"{op} {x}, {y.name}"), number=number)

    def add(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("add", a, b, flags)

    def with_overflow(self, op: str, a: Operand, b: Operand) -> tuple[Val, Val]:
        """sadd uadd ssub usub smul umul of 64 bits, and whether the exact result needs more of them."""
        x, y = self.pair(a, b)
        if op in ("smul", "umul") and not self.target.multiplies_128:
            return self._product_by_division(op == "smul", x, y)
        pair = self.call_intrinsic(f"llvm.{op}.with.overflow", VALUE_AND_OVERFLOW, [x, y], "i64")
        return self.emit(I64, f"extractvalue {pair}, 0"), self.emit(I1, f"extractvalue {pair}, 1")

    def _product_by_division(self, signed: bool, x: Val, y: Val) -> tuple[Val, Val]:
        """A product, and whether dividing it by a factor does not give the other: for targets on which LLVM would call a function of its
        library for the upper half."""
        product = self.mul(x, y)
        special = self.compare("eq", x, 0)
        if signed:
            special = self.or_(special, self.compare("eq", x, -1))
        quotient = self.binary("sdiv" if signed else "udiv", product, self.select(special, const(I64, 1), x))
        beyond = self.and_(self.not_(special), self.compare("ne", quotient, y))
        if signed:
            negated = self.and_(self.compare("eq", x, -1), self.compare("eq", y, -(1 << 63)))
            beyond = self.or_(beyond, negated)
        return product, beyond

    def sub(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("sub", a, b, flags)

    def mul(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("mul", a, b, flags)

    def fdiv(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("div", a, b, flags)

    def neg(self, a: Val) -> Val:
        return self.emit(a.type, f"fneg {a}") if a.type.is_float else self.sub(const(a.type, 0), a)

    def binary(self, op: str, a: Operand, b: Operand) -> Val:
        """Emits a two-operand instruction by its name: and or xor shl lshr ashr sdiv udiv srem urem frem. A divisor whose number is known
        is a literal, by which division takes few cycles, unless the other operand is one."""
        x, y = self.pair(a, b)
        if op.endswith(("div", "rem")) and y.number is not None and x.number is None:
            y = const(y.type, y.number)
        return self.emit(x.type, f"{op} {x}, {y.name}")

    and_, or_, xor, shl, lshr, ashr = map(_instruction, ("and", "or", "xor", "shl", "lshr", "ashr"))

    def not_(self, a: Val) -> Val:
        return self.binary("xor", a, const(a.type, 1 if a.type.element == "i1" else -1))

    def sdiv(self, a: Operand, b: Operand) -> Val:
        """Integer division toward zero; traps on /0: for divisors known to be positive (see vecmath for data)."""
        return self.binary("sdiv", a, b)

    def ceil_div(self, a: Operand, b: int) -> Val:
        """ceil(a / b) of a non-negative i64 and a positive literal."""
        x = self.add(self.i64(a), b - 1)
        number = None if x.number is None else int(x.number) // b
        if number is not None and x.is_literal:
            return const(I64, number)
        if b & (b - 1) == 0:
            return x if b == 1 else replace(self.lshr(x, b.bit_length() - 1), number=number)
        return replace(self.binary("udiv", x, b), number=number)

    def fma(self, a: Operand, b: Operand, c: Operand, exact: bool = False) -> Val:
        """a * b + c with one rounding. Where the machine has no such instruction: two, unless `exact` demands it."""
        x, y = self.pair(a, b)
        x, z = self.pair(x, c)
        if not self.target.fma and not exact:
            return self.add(self.mul(x, y), z)
        return self.call_intrinsic("llvm.fma", x.type, [x, y, z])

    smin, smax, umin, umax = map(_extreme, ("smin", "smax", "umin", "umax"))
    """The lesser and the greater of two integers, with and without sign. Without, no operand may be a negative literal."""

    def int_extreme(self, name: str, a: Operand, b: Operand) -> Val:
        """smin smax umin umax of two integers, computed here if both are literals."""
        x, y = self.pair(a, b)
        if x.name == y.name:
            return x
        if isinstance(x.number, int) and isinstance(y.number, int):
            return x if (x.number < y.number) == name.endswith("min") else y
        return self.call_intrinsic(f"llvm.{name}", x.type, [x, y])

    def unary(self, name: str, a: Val) -> Val:
        """A one-operand intrinsic that the machine has: sqrt fabs floor ceil trunc roundeven."""
        return self.call_intrinsic(f"llvm.{name}", a.type, [a])

    # comparison and choice

    def compare(self, op: str, a: Operand, b: Operand, unsigned: bool = False) -> Val:
        """lt le gt ge eq ne; of floats ordered (false on NaN), except ne, which is true on NaN."""
        x, y = self.pair(a, b)
        if x.type.is_float:
            return self.emit(x.type.as_mask(), f"fcmp {_ORDERED[op]} {x}, {y.name}")
        kind = (_UNSIGNED if unsigned else _SIGNED)[op]
        return self.emit(x.type.as_mask(), f"icmp {kind} {x}, {y.name}")

    def fcmp(self, predicate: str, a: Operand, b: Operand) -> Val:
        """A float comparison by LLVM's own predicate: uno, ord, ult, ueq ..."""
        x, y = self.pair(a, b)
        return self.emit(x.type.as_mask(), f"fcmp {predicate} {x}, {y.name}")

    def select(self, cond: Val, a: Operand, b: Operand) -> Val:
        x, y = self.pair(a, b)
        if cond.type.lanes and not x.type.lanes:
            x, y = self.splat(x, cond.type.lanes), self.splat(y, cond.type.lanes)
        if x.name == y.name:
            return x
        return self.emit(x.type, f"select {cond}, {x}, {y}")

    # conversion

    def convert(self, op: str, a: Val, to: Type) -> Val:
        """Emits sext zext trunc fpext fptrunc sitofp uitofp fptosi fptoui bitcast ptrtoint inttoptr; lanes follow `a`."""
        to = to if op == "bitcast" else to.vector(a.type.lanes)
        if a.type == to:
            return a
        if str(a.type) == str(to):
            return Val(a.name, to)
        if a.type.is_half and op == "fpext":
            real = self.emit(a.type, f"bitcast {a} to {a.type.as_float}")
            return self.emit(to, f"fpext {a.type.as_float} {real.name} to {to}")
        if to.is_half and op == "fptrunc":
            real = self.emit(to, f"fptrunc {a} to {to.as_float}")
            return self.emit(to, f"bitcast {to.as_float} {real.name} to {to}")
        return self.emit(to, f"{op} {a} to {to}")

    def bitcast(self, a: Val, to: Type) -> Val:
        return self.convert("bitcast", a, to)

    def saturate_to_int(self, a: Val, to: Type, unsigned: bool = False) -> Val:
        """Float to integer toward zero; what does not fit becomes the nearest end, NaN 0."""
        if a.type.lanes:
            return self._saturate_lanes(a, to, unsigned)
        name = "llvm.fptoui.sat" if unsigned else "llvm.fptosi.sat"
        return self.call_intrinsic(name, to, [a], overload=f"{to.suffix}.{a.type.suffix}")

    def _saturate_lanes(self, a: Val, to: Type, unsigned: bool) -> Val:
        """Converts the lanes of a float vector to integers of the nearest value. LLVM would convert them one by one: here they are limited
        to the range as floats. A comparison with NaN is false, so that NaN becomes the lower end. An upper end that floats of this type do
        not hold is put in afterwards, where the conversion has no result."""
        low, high = (0, (1 << to.bits) - 1) if unsigned else (-1 << (to.bits - 1), (1 << (to.bits - 1)) - 1)
        if low and to.bits < 32 and a.type.bits == 32 and self._truncates(a.type.lanes):
            # what is no number stays so: the instruction makes the lowest integer of 32 bits of it, of which the lowest bits are 0
            cut = self.select(self.compare("lt", a, low), low, a)
            cut = self.select(self.compare("gt", cut, high), high, cut)
            return self.convert("trunc", self._truncated(cut), to)
        exact = high.bit_length() <= {32: 24, 64: 53}[a.type.bits]
        cut = self.select(self.compare("gt", a, low), a, low)
        if exact:
            cut = self.select(self.compare("lt", cut, high), cut, high)
        narrow = to.bits < 32
        number = self.convert("fptoui" if unsigned and not narrow else "fptosi", cut, I32 if narrow else to)
        if not exact:
            number = self.select(self.compare("ge", a, high + 1), const(number.type, high), number)
        if low:
            number = self.select(self.fcmp("uno", a, a), 0, number)
        return self.convert("trunc", number, to)

    def _truncates(self, lanes: int) -> bool:
        """Whether there is an instruction that converts so many f32 toward zero, and what is not in range to the lowest integer."""
        return self.target.triple.startswith("x86_64") and lanes * 4 in (16, self.target.vector_bytes)

    def _truncated(self, a: Val) -> Val:
        result = I32.vector(a.type.lanes)
        name = {4: "sse2.cvttps2dq", 8: "avx.cvtt.ps2dq.256", 16: "avx512.mask.cvttps2dq.512"}[a.type.lanes]
        arguments = [a] if a.type.lanes < 16 else [a, const(result, 0), const(I16, -1), const(I32, 4)]
        return self.call_intrinsic(f"llvm.x86.{name}", result, arguments)

    # vectors

    def splat(self, a: Operand, lanes: int, element: Type | None = None) -> Val:
        """A scalar in every lane; a number needs `element`."""
        if not isinstance(a, Val):
            if element is None:
                raise TypeError("splat of a Python number needs its element type")
            return const(element.vector(lanes), a)
        if a.type.lanes:
            return a
        if a.number is not None:
            return const(a.type.vector(lanes), a.number)
        vector = a.type.vector(lanes)
        first = self.emit(vector, f"insertelement {vector} poison, {a}, i32 0")
        return self.emit(vector, f"shufflevector {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, a: Val, lane: int | Val) -> Val:
        index = lane if isinstance(lane, Val) else const(I32, lane)
        return self.emit(a.type.scalar, f"extractelement {a}, {index}")

    def insert(self, a: Val, item: Val, lane: int | Val) -> Val:
        index = lane if isinstance(lane, Val) else const(I32, lane)
        return self.emit(a.type, f"insertelement {a}, {item}, {index}")

    def shuffle(self, a: Val, b: Val | None, lanes: Sequence[int]) -> Val:
        """Selects lanes from `a` then `b` by number; -1 is a lane that is not used."""
        other = b if b is not None else undefined(a.type)
        picked = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        return self.emit(a.type.vector(len(lanes)), f"shufflevector {a}, {other}, <{len(lanes)} x i32> <{picked}>")

    def reduce(self, kind: str, a: Val, flags: str = "", start: Operand | None = None) -> Val:
        """Reduces all lanes to one: fadd fmul (any order) add mul and or xor [su]max [su]min fmax fmin fmaximum fminimum."""
        scalar = a.type.scalar
        name = f"llvm.vector.reduce.{kind}"
        if kind in ("fadd", "fmul"):
            first = start if isinstance(start, Val) else const(scalar, -0.0 if kind == "fadd" else 1.0)
            return self.call_intrinsic(name, scalar, [first, a], overload=a.type.suffix, flags=flags or "reassoc")
        return self.call_intrinsic(name, scalar, [a], overload=a.type.suffix, flags=flags)
