"""onnxruntime's Python interface on anyshape: `import anyshape.onnxruntime as ort`.

Scripts that are written for onnxruntime run unchanged on the CPU; `patch()` serves code that imports onnxruntime itself. Options that
nothing here heeds are logged once, by name. docs/onnxruntime.md lists what there is, and what is refused.
"""

from __future__ import annotations

from typing import Any

from anyshape.onnxruntime import capi
from anyshape.onnxruntime.allocators import (
    OrtArenaCfg,
    OrtMemoryInfo,
    create_and_register_allocator,
    create_and_register_allocator_v2,
)
from anyshape.onnxruntime.binding import IOBinding
from anyshape.onnxruntime.description import ModelMetadata, NodeArg
from anyshape.onnxruntime.environment import (
    API_VERSION,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from anyshape.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from anyshape.onnxruntime.patching import patch
from anyshape.onnxruntime.refused import LACKING, RefusedName
from anyshape.onnxruntime.session import InferenceSession
from anyshape.onnxruntime.values import OrtAllocatorType, OrtDevice, OrtMemType, OrtValue

__version__ = API_VERSION
__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg",
    "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtMemType", "OrtMemoryInfo", "OrtValue", "RunOptions", "SessionOptions", "capi",
    "create_and_register_allocator", "create_and_register_allocator_v2", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_build_info", "get_device", "get_version_string", "patch",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in LACKING:
        return RefusedName(name)
    raise AttributeError(f"module 'anyshape.onnxruntime' has no attribute {name!r}")
