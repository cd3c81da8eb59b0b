"""anyshape: compile tensor programs of any shape. Everything here is loaded when it is first used (PEP 562)."""

from __future__ import annotations

import mmap
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshape.code_version import VERSION
from anyshape.errors import OUT_OF_MEMORY, library_error

if TYPE_CHECKING:
    from anyshape import control, errors, lists, onnx_backend, onnxruntime, ops, passes, policies, precision, ray
    from anyshape.equations.entropy import seed
    from anyshape.errors import AnyshapeError
    from anyshape.expansion.gradient import gradients
    from anyshape.frontends.onnx.simplified import simplify
    from anyshape.frontends.symbolic_shapes import shapes
    from anyshape.graph.building import function, input
    from anyshape.graph.function import Function
    from anyshape.graph.parse import parse
    from anyshape.graph.value import Value, constant
    from anyshape.onnxruntime.session import InferenceSession
    from anyshape.quantisation import quantise
    from anyshape.subscripts import einsum
    from anyshape.types import TensorType
    from anyshape.vm import Executable, compile
    from anyshape.vm.executable.affinity import set_affinity
    from anyshape.vm.executable.profile import profile
    from anyshape.vm.executable.saved import load
    from anyshape.vm.run.limits import Cancellation

__version__ = VERSION

_MODULES = {
    "AnyshapeError": "anyshape.errors", "Cancellation": "anyshape.vm.run.limits",
    "Executable": "anyshape.vm", "Function": "anyshape.graph.function", "InferenceSession": "anyshape.onnxruntime.session",
    "TensorType": "anyshape.types", "Value": "anyshape.graph.value", "compile": "anyshape.vm",
    "constant": "anyshape.graph.value", "function": "anyshape.graph.building", "input": "anyshape.graph.building",
    "gradients": "anyshape.expansion.gradient",
    "einsum": "anyshape.subscripts", "load": "anyshape.vm.executable.saved", "parse": "anyshape.graph.parse",
    "profile": "anyshape.vm.executable.profile", "quantise": "anyshape.quantisation", "seed": "anyshape.equations.entropy",
    "set_affinity": "anyshape.vm.executable.affinity",
    "shapes": "anyshape.frontends.symbolic_shapes", "simplify": "anyshape.frontends.onnx.simplified",
}  # fmt: skip
_ROOMS = {
    "errors": "anyshape.errors", "ops": "anyshape.ops", "passes": "anyshape.passes",
    "control": "anyshape.control", "lists": "anyshape.lists",
    "onnx_backend": "anyshape.onnx_backend", "onnxruntime": "anyshape.onnxruntime", "policies": "anyshape.policies",
    "precision": "anyshape.precision", "ray": "anyshape.ray",
}  # fmt: skip

__all__ = [
    "AnyshapeError",
    "Cancellation",
    "Executable",
    "Function",
    "InferenceSession",
    "TensorType",
    "Value",
    "compile",
    "constant",
    "control",
    "einsum",
    "errors",
    "function",
    "gradients",
    "input",
    "lists",
    "load",
    "onnx_backend",
    "onnxruntime",
    "ops",
    "parse",
    "passes",
    "policies",
    "precision",
    "profile",
    "quantise",
    "ray",
    "seed",
    "set_affinity",
    "shapes",
    "simplify",
]

_ROOM = 48 << 20
"""Bytes that must be free before a module is loaded: CPython 3.11 may crash where memory ends amid an import. All modules but LLVM, whose
failure the system's loader reports, need less than half of it."""


def __getattr__(name: str) -> Any:
    module = _ROOMS.get(name) or _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'anyshape' has no attribute {name!r}")
    try:
        if module not in sys.modules:
            mmap.mmap(-1, _ROOM).close()
        value: Any = import_module(module)
        if name in _MODULES:
            value = getattr(value, name)
    except (ImportError, OSError, *OUT_OF_MEMORY) as e:
        raise library_error(e) from e
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_MODULES})
