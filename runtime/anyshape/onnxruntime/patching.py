"""`patch`: `import onnxruntime` gives this interface, in code that is imported afterwards."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, TracebackType

NAME = "onnxruntime"
MODULES = (
    "", ".capi", ".capi._pybind_state", ".capi.onnxruntime_inference_collection", ".capi.onnxruntime_pybind11_state",
)  # fmt: skip
"""The modules that programs import; others of onnxruntime, such as its tools, are not there while it is patched"""


class Patch:
    """What `patch` changed, and how to take it back: by `undo`, or at the end of a `with`."""

    def __init__(self) -> None:
        self._before = {n: m for n, m in sys.modules.items() if n == NAME or n.startswith(f"{NAME}.")}
        self._own: dict[str, ModuleType] = {f"{NAME}{m}": import_module(f"anyshape.onnxruntime{m}") for m in MODULES}
        for name in self._before:
            del sys.modules[name]
        sys.modules.update(self._own)

    def undo(self) -> None:
        """Puts back what was there. Code that imported this interface meanwhile keeps it."""
        for name in [n for n in sys.modules if n == NAME or n.startswith(f"{NAME}.")]:
            del sys.modules[name]
        sys.modules.update(self._before)

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()


def patch() -> Patch:
    """Makes `import onnxruntime` import `anyshape.onnxruntime`, until `undo()`. Modules that imported onnxruntime before keep it."""
    return Patch()
