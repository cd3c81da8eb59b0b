"""Stands in for llvmlite, as browsers have no LLVM: the text of kernels is made, and no machine code of it."""

from __future__ import annotations

from typing import Any, NoReturn

__version__ = "0 (a stand-in)"


class _Absent:
    """A function or class of llvmlite, named by its path; calling it is an error."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._path}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"browsers have no LLVM: {self._path} was called")


binding = _Absent("binding")
