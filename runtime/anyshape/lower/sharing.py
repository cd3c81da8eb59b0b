"""Kernels shared by groups of one form: the layers of a model, and the programs for one model with unlike types, differ in their tensors
and in the names of their dims, not in their equations.

In: groups, one after another. Out: their kernels. The form of a group is its equations with tensors, loop variables and symbols by number;
bounds of symbols are part of it, and so are the contents of small constants, which may become literals; names and large constants are not.
A kernel for a form serves every group of that form, with the group's own tensors and dims, and its own constants laid out anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, Size, substitute
from anyshape.equations import Tensor
from anyshape.lower.kernel import Group, Kernel, KernelError, PackedConstant, WrittenCode
from anyshape.lower.kernel_cache import KernelCache, key_of
from anyshape.lower.lowering import lower_group
from anyshape.lower.structural_key import Form, StructuralKeyWriter
from anyshape.lower.target import Target

KEPT_BYTES = 16 << 20
"""Bytes of LLVM text that are kept, of the forms that were used last."""
_LEAST_BYTES = 1 << 11
"""What a kernel counts for at least: without its text, if it was read from disk."""


@dataclass(frozen=True, slots=True)
class _SharedKernel:
    """A kernel, the tensors and symbols of its group by their numbers in the form, and if it can refuse data what is in its messages."""

    kernel: Kernel
    tensors: tuple[Tensor, ...]
    symbols: tuple[Dim, ...]
    messages: Form


class SharedKernels:
    """Kernels by form and target, those that were used last, up to KEPT_BYTES of text; for all threads."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit, self._bytes, self._lock = limit, 0, Lock()
        self._known: OrderedDict[Form, _SharedKernel] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, form: Form) -> _SharedKernel | None:
        with self._lock:
            known = self._known.get(form)
            if known is not None:
                self._known.move_to_end(form)
            return known

    def enter(self, form: Form, known: _SharedKernel) -> None:
        with self._lock:
            if form not in self._known:
                self._known[form] = known
                self._bytes += _bytes(known.kernel)
                while self._bytes > self._limit:
                    self._bytes -= _bytes(self._known.popitem(last=False)[1].kernel)


def _bytes(kernel: Kernel) -> int:
    return max(_LEAST_BYTES, len(kernel.text) if isinstance(kernel.code, WrittenCode) else 0)


SHARED = SharedKernels()


class Lowering:
    """Lowers groups for one target, and keeps their kernels, on disk too if there is a `disk`, and for as long as it lives constants as
    those have them."""

    def __init__(self, target: Target, forms: SharedKernels = SHARED, disk: KernelCache | None = None) -> None:
        self.target, self._forms, self._disk = target, forms, disk
        self._packed: dict[tuple[int, str, int], tuple[NDArray[Any], NDArray[Any]]] = {}
        """Packed constants and the constants themselves, by constant, symbol and place of the operand."""

    def lower(self, group: Group) -> Kernel:
        writer = StructuralKeyWriter()
        form = (self.target, *writer.group(group))
        known = self._forms.find(form)
        if known is not None and (not known.kernel.errors or known.messages == writer.messages(group)):
            return self._of_group(known, writer, group)
        known = self._read(form, writer, group)
        if known is not None:
            self._forms.enter(form, known)
            return self._of_group(known, writer, group)
        kernel = lower_group(group, self.target)
        messages = writer.messages(group) if kernel.errors else ()
        self._forms.enter(form, _SharedKernel(_without_arrays(kernel), tuple(writer.tensors), writer.dims, messages))
        if self._disk is not None:
            self._disk.write(key_of(form, messages), kernel, writer, self.target)
        for place, i in enumerate(kernel.inputs):
            if isinstance(i, PackedConstant) and i.tensor in group.constants:
                constant = group.constants[i.tensor]
                self._packed.setdefault((id(constant), kernel.symbol, place), (constant, i.array))
        return kernel

    def _read(self, form: Form, writer: StructuralKeyWriter, group: Group) -> _SharedKernel | None:
        """The kernel that another process wrote: under the form alone, or if it can refuse data with the messages of this group."""
        if self._disk is None:
            return None
        for messages in ((), writer.messages(group)):
            kernel = self._disk.read(key_of(form, messages), writer, self.target)
            if kernel is not None:
                return _SharedKernel(kernel, tuple(writer.tensors), writer.dims, messages)
        return None

    def _of_group(self, known: _SharedKernel, writer: StructuralKeyWriter, group: Group) -> Kernel:
        kernel, tensors = known.kernel, dict(zip(known.tensors, writer.tensors, strict=True))
        renamed = {a: b for a, b in zip(known.symbols, writer.dims, strict=True) if a is not b}

        def operand(place: int, i: Tensor | PackedConstant) -> Tensor | PackedConstant:
            if isinstance(i, Tensor):
                return tensors[i]
            t = tensors[i.tensor]
            constant = group.constants[t]
            key = (id(constant), kernel.symbol, place)
            if key not in self._packed:
                self._packed[key] = constant, i.pack(constant)
            return replace(i, tensor=t, array=self._packed[key][1])

        return replace(
            kernel,
            code=kernel.code.of_group(group),
            inputs=tuple(operand(place, i) for place, i in enumerate(kernel.inputs)),
            outputs=tuple(tensors[t] for t in kernel.outputs),
            scalars=tuple(substitute(s, renamed) for s in kernel.scalars),
            scratch=substitute(kernel.scratch, renamed),
            work=substitute(kernel.work, renamed),
            pieces=None if kernel.pieces is None else substitute(kernel.pieces, renamed),
            errors=tuple(_error(e, tensors, renamed) for e in kernel.errors),
        )


def _without_arrays(kernel: Kernel) -> Kernel:
    """A kernel without the arrays of its constants, so that no model's weights are kept."""
    inputs = (replace(i, array=np.empty(0)) if isinstance(i, PackedConstant) else i for i in kernel.inputs)
    return replace(kernel, inputs=tuple(inputs))


def _error(e: KernelError, tensors: Mapping[Tensor, Tensor], renamed: Mapping[Dim, Size]) -> KernelError:
    def part(p: Any) -> Any:
        return (
            substitute(p, renamed) if isinstance(p, Dim | Cond) else tensors.get(p, p) if isinstance(p, Tensor) else p
        )

    names = {tensors.get(t, t): name for t, name in e.origin.names.items()}
    own = tuple(tensors.get(t, t) for t in e.read)
    return replace(e, origin=replace(e.origin, names=names), parts=tuple(map(part, e.parts)), read=own)
