"""Lowered kernels on disk, by structural key: a process lowers no group whose form another process has lowered.

In: the key of a group, and the group's tensors and symbols by number. Out: the kernel with these tensors and symbols, or None. Neither
text nor constants are stored, but the key of the object in the object cache and the layouts of constants, which pack those of the group.
Should the object be gone, the group is lowered again. A file is read under the conditions of `disk_cache`, those of object code.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import llvmlite
import numpy as np

from anyshape.code_version import code_version
from anyshape.dims import Cond, Dim, Size
from anyshape.dims.expr import REBUILD
from anyshape.disk_cache import DiskCache
from anyshape.equations import Tensor
from anyshape.lower.kernel import Group, Kernel, KernelCode, WrittenCode
from anyshape.lower.lowering import lower_group
from anyshape.lower.structural_key import Form, StructuralKeyWriter
from anyshape.lower.target import Target

MADE_BY = tuple(
    f"anyshape.{name}"
    for name in (
        "lower",
        "dims",
        "dtypes",
        "equations",
        "failure_report",
        "kernel_model",
        "precision",
        "rules",
        "wording",
    )
)
"""Packages and modules on whose code the kernel of a form depends."""


@dataclass(frozen=True, slots=True)
class StoredCode:
    """The key of an object; the text is that of the group, lowered again."""

    key: str
    target: Target
    group: Group | None = None

    @property
    def text(self) -> str:
        assert self.group is not None, "code is asked for its text once it is of a group"
        return lower_group(self.group, self.target).text

    def object_key(self, target: Target) -> str:
        assert target == self.target
        return self.key

    def of_group(self, group: Group) -> KernelCode:
        return replace(self, group=group)


class KernelCache:
    """Kernels in a folder of the object cache."""

    def __init__(self, disk: DiskCache) -> None:
        self._disk = disk

    def read(self, key: str, writer: StructuralKeyWriter, target: Target) -> Kernel | None:
        """Reads the kernel under a key; None if there is none, or what is there cannot be read."""
        data = self._disk.get(key)
        if data is None:
            return None
        try:
            kernel = _KernelUnpickler(io.BytesIO(data), writer, target).load()
        except (pickle.UnpicklingError, LookupError, TypeError, ValueError, AttributeError, ImportError, EOFError):
            return None
        return kernel if isinstance(kernel, Kernel) else None

    def write(self, key: str, kernel: Kernel, writer: StructuralKeyWriter, target: Target) -> None:
        """Writes a kernel without the contents of its constants, unless it mentions a tensor or a symbol that its group does not."""
        if self._disk.directory is None:
            return
        text = io.BytesIO()
        try:
            _KernelPickler(text, writer, target).dump(kernel)
        except pickle.PicklingError:
            return
        self._disk.put(key, text.getvalue())


@cache
def kernel_cache() -> KernelCache:
    """The cache of this process: the folder `kernels` of the object cache."""
    return KernelCache(DiskCache.standard("kernels", limit_bytes=128 << 20))


def key_of(form: Form, messages: Form = ()) -> str:
    """The key of a form, which begins with the target, and of the messages of kernels that can refuse data."""
    return hashlib.sha256(f"{_made_by()}\0{form!r}\0{messages!r}".encode()).hexdigest()


@cache
def _made_by() -> str:
    return " ".join([*map(code_version, MADE_BY), llvmlite.__version__])


class _KernelPickler(pickle.Pickler):
    """Writes a kernel with tensors by number, and sizes as the form of the group has them."""

    def __init__(self, file: io.BytesIO, writer: StructuralKeyWriter, target: Target) -> None:
        super().__init__(file, protocol=5)
        self._form, self._target = writer, target

    def persistent_id(self, obj: Any) -> Form | None:
        match obj:
            case Tensor():
                number = self._form.tensors.get(obj)
                if number is None:
                    raise pickle.PicklingError(f"{obj.name} is no tensor of the group")
                return "tensor", number
            case Dim() | Cond():
                symbols = len(self._form.symbols)
                size = self._form.size(obj)
                if len(self._form.symbols) > symbols:
                    raise pickle.PicklingError(f"{obj} has a symbol that the group has not")
                return "size", size
            case np.ndarray():
                return ("constant",)
            case Target():
                return ("target",) if obj == self._target else None
            case WrittenCode():
                return "code", obj.object_key(self._target)
        return None


class _KernelUnpickler(pickle.Unpickler):
    """Reads what a `_KernelPickler` wrote, for a group of the same form. No class but the run time's own is looked up."""

    def __init__(self, file: io.BytesIO, writer: StructuralKeyWriter, target: Target) -> None:
        super().__init__(file)
        self._tensors, self._dims, self._target = tuple(writer.tensors), writer.dims, target

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith("anyshape."):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a kernel")
        return super().find_class(module, name)

    def persistent_load(self, pid: Form) -> Any:
        match pid:
            case ("tensor", number):
                return self._tensors[number]
            case ("size", size):
                return _size(size, self._dims)
            case ("target",):
                return self._target
            case ("code", key):
                return StoredCode(key, self._target)
        return np.empty(0)


def _size(form: Any, dims: Sequence[Dim]) -> Any:
    """The size or condition of a form, as `StructuralKeyWriter.size` writes it."""
    if not isinstance(form, tuple):
        return form
    if isinstance(form[0], str):
        return REBUILD[form[0]](*(_size(a, dims) for a in form[1:]))
    total: Size = 0
    for *monomial, factor in form:
        product: Size = factor
        for atom in monomial:
            product = product * (dims[atom[0]] if isinstance(atom[0], int) else _size(atom, dims))
        total = total + product
    return total
