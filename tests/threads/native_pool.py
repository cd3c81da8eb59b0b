"""The pool's generated code, each function of it to be called by itself."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from anyshape.failure_report import AREA
from anyshape.lower.llvm import polling
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import PTR, VOID
from anyshape.lower.target import host_target
from anyshape.vm.native.pool import Pool
from anyshape.vm.native.pool_code import SHARE, add_pool
from anyshape.vm.native.pool_layout import PoolWord

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)


@cache
def _code() -> Loaded:
    """The public functions of the pool, and internal ones under names of their own."""
    module = Module(host_target())
    add_pool(module)
    with module.function("pool_look_itself", VOID, [("pool", PTR)], noalias=False) as f:
        f.call("pool_look", VOID, list(f.args))
        f.ret()
    library = ctypes.CDLL(None)
    names = (n for n in module.imports if n != polling.SYMBOL)
    imports = {n: ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names}
    return compile_module(module, {**imports, polling.SYMBOL: polling.ADDRESS})


def native(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    loaded = _code()
    address = loaded.address(name if name in loaded.addresses else f"{name}_itself")
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return function


def words() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Makes the words of a pool without workers."""
    return np.zeros(int(PoolWord.COUNT), np.int64)


def share(pool: int, kernel: Any, parts: int) -> int:
    """The status of a `KERNEL`, which is called with no scalars and no buffers."""
    address, scalars = ctypes.cast(kernel, ctypes.c_void_p).value, np.zeros(AREA, np.int64)
    shared = native("anyshape_share", ctypes.c_int32, *[ctypes.c_int64] * len(SHARE))
    status: int = shared(pool, address, scalars.ctypes.data + scalars.nbytes, 0, 0, 0, parts, 0, 1)
    return status


@contextmanager
def working_pool() -> Iterator[Pool]:
    """Runs a pool whose first worker takes parts; all others sleep."""
    end = threading.Event()
    work = native("anyshape_work", None, ctypes.c_int64, ctypes.c_int64)

    def life(address: int, number: int) -> None:
        if number == 0:
            work(address, number)
        else:
            end.wait()

    def dismiss(address: int) -> None:
        end.set()
        native("anyshape_dismiss", None, ctypes.c_int64)(address)

    pool = Pool(life, dismiss)
    try:
        yield pool
    finally:
        pool.stop()
