"""`patch`: `import onnxruntime` gives this interface, in code that is imported afterwards."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, TracebackType

NAME = "onnxruntime"
MODULES = (
    "", ".capi", ".capi._pybind_state", ".capi.onnxruntime_inference_collection", ".capi.onnxruntime_pybind11_state",
)  # fmt: skip
"""The modules that programs import, but for the tools of an installed onnxruntime"""
COMPILED = f"{NAME}.capi"
"""The part of onnxruntime that is not Python: nothing of an installed one is imported from there while it is patched"""


class ToolFinder:
    """Finds the tools of an installed onnxruntime, which are Python (`quantization`, `transformers`, `tools`): they import `onnxruntime`,
    and so run with this interface. Modules of ours are not found as parts of onnxruntime."""

    def __init__(self) -> None:
        installed = PathFinder.find_spec(NAME)
        self._folders = list(installed.submodule_search_locations or ()) if installed is not None else []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, _ = name.rpartition(".")
        if parent not in (NAME, COMPILED):
            return None
        spec = PathFinder.find_spec(name, self._folders) if parent == NAME and name != COMPILED else None
        if spec is None:
            raise ModuleNotFoundError(
                f"no module {name!r} while anyshape.onnxruntime stands for onnxruntime (anyshape.onnxruntime.patch)",
                name=name,
            )
        return spec


class Patch:
    """What `patch` changed, and how to take it back: by `undo`, or at the end of a `with`."""

    def __init__(self) -> None:
        self._tools = ToolFinder()
        self._before = {n: m for n, m in sys.modules.items() if n == NAME or n.startswith(f"{NAME}.")}
        self._own: dict[str, ModuleType] = {f"{NAME}{m}": import_module(f"anyshape.onnxruntime{m}") for m in MODULES}
        for name in self._before:
            del sys.modules[name]
        sys.modules.update(self._own)
        sys.meta_path.insert(0, self._tools)

    def undo(self) -> None:
        """Puts back what was there. Code that imported this interface meanwhile keeps it."""
        if self._tools in sys.meta_path:
            sys.meta_path.remove(self._tools)
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
