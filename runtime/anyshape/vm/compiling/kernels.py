"""Kernels of steps: machine code by the lowering and LLVM, or the slow interpreter of equations with the same interface.

In: a `KernelStep` of a schedule. Out: a `LoweredStep`: a kernel and its arguments. Kernels of equal text are one kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, Size, bounds, free_symbols, maximum, minimum, symbol
from anyshape.equations import Equation, Tensor
from anyshape.equations.dependencies import symbols
from anyshape.equations.interpret import interpret
from anyshape.equations.refusing import Refused
from anyshape.errors import AnyshapeError, ShapeError, VerifyError
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.costs import CYCLES_PER_PART
from anyshape.passes.steps import KernelStep, step_name
from anyshape.rules.checks import located
from anyshape.vm.compiling.options import Options
from anyshape.vm.native import MOST_THREADS
from anyshape.vm.program.table import CallableKernel
from anyshape.vm.report.summary import Report

if TYPE_CHECKING:
    from anyshape.lower import Origin
    from anyshape.lower.target import Target

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32)
"""Function type of kernels; arguments are passed as ctypes objects, which is faster than declaring them."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LoweredStep:
    """A kernel and its arguments. `inputs` are tensors of the step or constants laid out at compile time; `scratch`: bytes of one part.
    `reusable`: pairs of an output and an input that may be the same memory, `overwrites`: if they have one shape. `parts`: number of
    threads that its work is worth, by the threads there are; `slices`: number of pieces that run one after the other, so that a call can
    stop between them. `shares`: the kernel itself shares what it does over the pool, where it runs in one part."""

    kernel: CallableKernel
    scalars: tuple[Size | Cond, ...]
    inputs: tuple[Tensor | NDArray[Any], ...]
    outputs: tuple[Tensor, ...]
    scratch: Size
    reusable: tuple[tuple[Tensor, Tensor], ...] = ()
    overwrites: tuple[tuple[Tensor, Tensor], ...] = ()
    parts: Size = 1
    slices: Size = 1
    shares: bool = False


THREADS = symbol("threads()", 1, MOST_THREADS)
"""Number of threads that a kernel may use, known when it runs. No text spells a dim with this name."""


def parts_worth(work: Size, pieces: Size | None = None) -> Size:
    """Number of parts for so many cycles of work, which consist of so many independent pieces."""
    return _shares(work, pieces, CYCLES_PER_PART, THREADS)


CYCLES_PER_SLICE = 1 << 25
"""Cycles that a slice has at least, some 10 ms, by an estimate that may be several times too low."""
MOST_SLICES = 1 << 20


def slices_worth(work: Size, pieces: Size | None = None) -> Size:
    """Number of slices for so many cycles of work, which consist of so many independent pieces."""
    return _shares(work, pieces, CYCLES_PER_SLICE, MOST_SLICES)


def _shares(work: Size, pieces: Size | None, cycles: int, most: Size) -> Size:
    """Number of shares of at least so many cycles each: at most `most`, and no more than there are pieces."""
    high = work if isinstance(work, int) else bounds(work)[1]
    if high is not None and high < 2 * cycles:
        return 1
    return minimum(most if pieces is None else minimum(most, pieces), maximum(1, work // cycles))


class KernelMaker(Protocol):
    """Maker of kernels from steps; `count` is the number of different kernels so far."""

    @property
    def count(self) -> int: ...

    def lower(self, step: KernelStep) -> LoweredStep: ...


def kernel_maker(options: Options, report: Report) -> KernelMaker:
    return (
        InterpretedKernels() if options.kernels == "interpret" else NativeKernels(report, target_called(options.target))
    )


@dataclass(eq=False, slots=True, weakref_slot=True)
class MachineCode:
    """A loaded kernel; `loaded` keeps it in memory. A saved model loads it again by the rest: `symbol` in the object code `image`, which
    calls the products of the `imports`."""

    entry: Any
    loaded: Any
    symbol: str
    image: bytes
    imports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel as LLVM text, of a target whose code is linked elsewhere (`vm.export`) and cannot be called here."""

    symbol: str
    text: str
    imports: tuple[str, ...]

    @property
    def entry(self) -> Any:
        raise VerifyError(f"the kernel {self.symbol} was compiled to be exported, and is not loaded")


@dataclass(eq=False, slots=True)
class NativeKernel:
    """Machine code with the texts of its errors at one place of a model; steps of equal text share the code."""

    name: str
    errors: tuple[str, ...]
    code: MachineCode | KernelText

    @property
    def entry(self) -> Any:
        return self.code.entry


def text_of(kernel: CallableKernel) -> KernelText:
    """The text of a kernel that was made without being loaded."""
    assert isinstance(kernel, NativeKernel) and isinstance(kernel.code, KernelText)
    return kernel.code


_LOADED: WeakValueDictionary[tuple[str, Target], MachineCode] = WeakValueDictionary()


def target_called(name: str) -> Target:
    """The target that the option `target` names."""
    from anyshape.lower.target import host_target

    return host_target() if name == "host" else host_target().limited(name)


class NativeKernels:
    """Maker of machine code for a target; `loads`: whether it is loaded into this process, and not kept as text."""

    def __init__(self, report: Report, target: Target, loads: bool = True) -> None:
        self.target, self.loads = target, loads
        from anyshape.lower import Lowering, kernel_cache

        self.report = report
        self._lowering = Lowering(self.target, disk=kernel_cache())
        self._codes: dict[str, MachineCode | KernelText] = {}
        self._kernels: dict[tuple[str, tuple[str, ...]], NativeKernel] = {}

    @property
    def count(self) -> int:
        return len(self._codes)

    def lower(self, step: KernelStep) -> LoweredStep:
        from anyshape.lower import Group, PackedConstant

        constants = {step.tensors[v]: v.constant for v in step.inputs if v.constant is not None}
        inputs = tuple(step.tensors[v] for v in step.inputs)
        outputs = tuple(step.tensors[v] for v in step.outputs)
        group = Group(
            step_name(step), step.equations, inputs, outputs=outputs, constants=constants, origins=origins(step)
        )
        with self.report.phase("lower"):
            kernel = self._lowering.lower(group)
        operands = tuple(i.array if isinstance(i, PackedConstant) else i for i in kernel.inputs)
        native = self._native(kernel, step)

        def tensors(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[Tensor, Tensor], ...]:
            named = ((kernel.outputs[k], kernel.inputs[j]) for k, j in pairs)
            return tuple((to, source) for to, source in named if not isinstance(source, PackedConstant))

        return LoweredStep(
            kernel=native,
            scalars=kernel.scalars,
            inputs=operands,
            outputs=kernel.outputs,
            scratch=kernel.scratch,
            reusable=tensors(kernel.reusable),
            overwrites=tensors(kernel.overwrites),
            parts=parts_worth(kernel.work, kernel.pieces),
            slices=1 if kernel.polls else slices_worth(kernel.work, kernel.pieces),
            shares=kernel.shares,
        )

    def _native(self, kernel: Any, step: KernelStep) -> NativeKernel:
        errors = tuple(e.template(kernel.scalars) for e in kernel.errors)
        key = (kernel.symbol, errors)
        native = self._kernels.get(key)
        if native is None:
            with self.report.phase("llvm"):
                native = self._kernels[key] = NativeKernel(step_name(step), errors, self._load(kernel))
        return native

    def _load(self, kernel: Any) -> MachineCode | KernelText:
        """Loads machine code by its symbol, a hash of its text; all programs of the process share it."""
        if not self.loads:
            text = self._codes[kernel.symbol] = KernelText(kernel.symbol, kernel.text, kernel.imports)
            return text
        from anyshape.lower.gemm.library import resolve
        from anyshape.lower.llvm.jit import load_object, object_by_key

        key = (kernel.symbol, self.target)
        code = _LOADED.get(key)
        if code is None:
            image = object_by_key(kernel.code.object_key(self.target), lambda: kernel.text, self.target)
            loaded = load_object(image, [kernel.symbol], resolve(kernel.imports, self.target))
            entry = ENTRY(loaded.address(kernel.symbol))
            code = _LOADED[key] = MachineCode(entry, loaded, kernel.symbol, image, kernel.imports)
        self._codes[kernel.symbol] = code
        return code


def origins(step: KernelStep) -> dict[Equation, Origin]:
    """Maps every equation of a step to the op it comes from."""
    from anyshape.lower import Origin

    origin_of = {n: Origin(n.op.full_name, n.source, _operands(n, step.tensors)) for n in step.nodes}
    return {q: origin_of[q.maker if q.maker in origin_of else step.nodes[0]] for q in step.equations}


def _operands(node: Node, tensors: Mapping[Value, Tensor]) -> dict[Tensor, str]:
    """Maps the tensors of a node to the names that its op has for them."""
    named: dict[Value, str] = {}
    for name, operand in node.grouped_inputs().items():
        if isinstance(operand, tuple):
            named |= {v: f"{name}[{k}]" for k, v in enumerate(operand)}
        elif operand is not None:
            named[operand] = name
    if len(node.outputs) == len(node.op.outputs):
        named |= {v: o.name for v, o in zip(node.outputs, node.op.outputs, strict=True)}
    return {tensors[v]: name for v, name in named.items() if v in tensors}


class InterpretedKernels:
    """Maker of kernels that are the interpreter of equations, over the same buffers; for debugging."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def lower(self, step: KernelStep) -> LoweredStep:
        self._count += 1
        inputs = tuple(step.tensors[v] for v in step.inputs)
        outputs = tuple(step.tensors[v] for v in step.outputs)
        scalars = tuple(sorted(_symbols(step, (*inputs, *outputs)), key=lambda s: s.uid))
        kernel = InterpretedKernel(step, scalars, inputs, outputs)
        return LoweredStep(kernel=kernel, scalars=scalars, inputs=inputs, outputs=outputs, scratch=0)


def _symbols(step: KernelStep, tensors: tuple[Tensor, ...]) -> set[Dim]:
    """Collects the symbols that the equations or the tensors of a step mention."""
    mentioned = {s for t in tensors for n in t.shape for s in free_symbols(n)}
    return mentioned.union(*(symbols(q) for q in step.equations))


class InterpretedKernel:
    """A kernel that is called like machine code and runs the interpreter, whose errors it raises."""

    def __init__(
        self, step: KernelStep, symbols: tuple[Dim, ...], inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
    ) -> None:
        self.step, self.symbols, self.inputs, self.outputs = step, symbols, inputs, outputs
        self.name, self.origins = step_name(step), origins(step)
        self.errors: tuple[str, ...] = ()

    @property
    def entry(self) -> Any:
        return self

    def __call__(self, scalars: Any, buffers: Any, scratch: Any, part: Any, parts: Any) -> int:
        numbers = (ctypes.c_int64 * len(self.symbols)).from_address(scalars.value)
        tensors = (*self.inputs, *self.outputs)
        addresses = (ctypes.c_int64 * len(tensors)).from_address(buffers.value)
        sizes = dict(zip(self.symbols, numbers))
        arrays = {t: array_at(a, t, sizes) for t, a in zip(tensors, addresses)}
        try:
            inputs = {t: arrays[t] for t in self.inputs}
            old = {t: arrays[t].copy() for t in self.outputs}  # what no equation defines stays as it is
            results = interpret(self.step.equations, {**old, **inputs}, sizes)
        except Refused as e:
            assert e.equation is not None
            origin = self.origins[e.equation]
            raise ShapeError(located(origin.op, origin.source, str(e.of(e.equation, origin.names)))) from e
        except AnyshapeError as e:
            raise type(e)(located(self.name, "", str(e))) from e
        for t in self.outputs:
            if t in results:  # no equation defines a tensor that is always empty
                arrays[t][...] = results[t]
        return 0


def array_at(address: int, tensor: Tensor, sizes: Mapping[Dim, int]) -> NDArray[Any]:
    """Makes an array over the memory of a tensor."""
    from anyshape.dims import evaluate

    shape = tuple(n if isinstance(n, int) else evaluate(n, sizes) for n in tensor.shape)
    dtype = tensor.dtype.numpy
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    flat: NDArray[Any] = np.frombuffer(memory, dtype)
    return flat.reshape(shape)
