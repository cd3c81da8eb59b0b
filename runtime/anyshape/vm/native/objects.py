"""Layout of Python objects, as far as the direct entry reads them, and functions of Python and NumPy that it calls.

Out: offsets, checked once per process on arrays of several kinds, and addresses. Where anything is otherwise (another interpreter, another
build) there is no direct entry, and Python code does its work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

TYPE, DATA, RANK, DIMS, DTYPE, FLAGS, HANDLER = 8, 16, 24, 32, 56, 64, 88
"""Offsets in an array object: CPython's type pointer, then the fields of NumPy's published PyArrayObject."""
KIND = 24
"""Offset in a dtype object of a word of kind, type, byte order, flags and number, which equal dtypes share: arrays that were unpickled have
dtype objects of their own."""
DENSE = 0x0001 | 0x0100
"""Flags of arrays that kernels take without a copy: C-contiguous and aligned."""
OWNS = 0x0004
"""Flag of an array whose memory is freed with it, by the functions that its field HANDLER names."""
WRITABLE = DENSE | 0x0400
FASTCALL = 0x0080
"""The calling convention `(self, arguments, count)` of built-in functions."""
NEW_FROM_DESCR, GET_HANDLER = 94, 305
"""The places of PyArray_NewFromDescr and PyDataMem_GetHandler in NumPy's table of functions, which is part of its binary interface."""

Int64, Int32 = ctypes.c_int64, ctypes.c_int32
PYTHON = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyList_New", "PyList_SetItem", "Py_IncRef", "Py_DecRef",
    "PyErr_Clear", "PyMem_RawMalloc", "PyMem_RawCalloc", "PyMem_RawRealloc", "PyMem_RawFree", "PyTraceMalloc_Track"
)  # fmt: skip


class Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def _trials() -> list[np.ndarray[Any, Any]]:
    base = np.zeros((4, 6), np.float32)
    locked = np.frombuffer(b"12345678", np.int64)
    odd = np.zeros(33, np.uint8)[1:].view(np.int64)
    return [
        base,
        base[1:, ::2],
        base.T,
        np.zeros(()),
        np.zeros((3, 0, 2), np.int64),
        odd,
        np.zeros(5, np.bool_),
        np.zeros(2, np.dtype(np.int32).newbyteorder()),
        locked,
    ]


def layout_is_as_published() -> bool:
    """Tests whether arrays of this process keep their fields at the offsets above."""
    try:
        return all(_is_laid_out(a) for a in _trials())
    except Exception:
        return False


def _is_laid_out(a: np.ndarray[Any, Any]) -> bool:
    at = id(a)
    rank = Int32.from_address(at + RANK).value
    if Int64.from_address(at + TYPE).value != id(np.ndarray) or rank != a.ndim:
        return False
    dims = tuple((Int64 * rank).from_address(Int64.from_address(at + DIMS).value)) if rank else ()
    flags = Int32.from_address(at + FLAGS).value
    return (
        dims == a.shape
        and Int64.from_address(at + DATA).value == a.ctypes.data
        and Int64.from_address(at + DTYPE).value == id(a.dtype)
        and _is_described(a.dtype)
        and (flags & DENSE == DENSE) == (a.flags.c_contiguous and a.flags.aligned)
        and (flags & WRITABLE == WRITABLE) == a.flags.carray
    )


def _is_described(dtype: np.dtype[Any]) -> bool:
    letters = ctypes.string_at(id(dtype) + KIND, 3).decode("latin-1")
    number = Int32.from_address(id(dtype) + KIND + 4).value
    return letters == dtype.kind + dtype.char + dtype.byteorder and number == dtype.num


def _is_handled(get_handler: int) -> bool:
    """Tests whether an array that owns its memory has its handler at the offset HANDLER."""
    handler = ctypes.PYFUNCTYPE(ctypes.py_object)(get_handler)()
    owner = np.zeros(3)
    return Int64.from_address(id(owner) + HANDLER).value == id(handler)


@cache
def functions() -> dict[str, int] | None:
    """Addresses by name, `anyshape_new_array` among them; None where the direct entry is not to be used."""
    try:
        if not layout_is_as_published():
            return None
        api = ctypes.pythonapi
        addresses = {name: ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0 for name in PYTHON}
        module = "numpy._core._multiarray_umath" if np.__version__ >= "2" else "numpy.core._multiarray_umath"
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
        table = pointer(import_module(module)._ARRAY_API, None)
        entries = (ctypes.c_void_p * (GET_HANDLER + 1)).from_address(table)
        if entries[2] != id(np.ndarray):  # the type of arrays is at place 2 of the same table
            return None
        if not _is_handled(entries[GET_HANDLER] or 0):
            return None
        advise = ctypes.cast(ctypes.CDLL(None).madvise, ctypes.c_void_p).value or 0
        return {**addresses, "anyshape_new_array": entries[NEW_FROM_DESCR] or 0, "madvise": advise}
    except Exception:
        return None


class Methods:
    """Maker of Python functions from an address: `function(state)` calls it with the array `state` as its self."""

    def __init__(self, address: int, allocator: int, keep: object) -> None:
        """`allocator`: address of the result allocator, or 0; `keep`: objects that the code needs to stay loaded."""
        self.allocator, self._keep = allocator, keep
        self._method = Method(b"anyshape_call", address, FASTCALL, None)
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        self._make = make(("PyCFunction_NewEx", ctypes.pythonapi))

    def function(self, state: np.ndarray[Any, Any]) -> Any:
        return self._make(ctypes.addressof(self._method), state, None)
