"""Names of onnxruntime that nothing here stands for: they can be imported, and using one is refused by name.

In: LACKING, a reason for each name. Out: `RefusedName` objects. docs/onnxruntime.md lists the names, and a test compares them with those of
the installed onnxruntime.
"""

from __future__ import annotations

from typing import Any, NoReturn

from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented, error

_DEVICES = "there is one device, the CPU"
_PLUGINS = "there are no execution providers to load or to choose among"
_PACKAGES = "models are compiled when they are loaded; Executable.save writes a compiled one"
_SPARSE = "tensors are dense"
LACKING = {
    **dict.fromkeys(("AdapterFormat", "LoraAdapter"), "adapters are not applied to weights"),
    **dict.fromkeys(
        ("ModelCompiler", "ModelPackage", "ModelPackageComponentContext", "ModelPackageContext", "ModelPackageOptions",
         "ModelPackageWriteMode", "OrtCompileApiFlags", "OrtEpContextData", "OrtEpContextDataBuffer"), _PACKAGES,
    ),
    **dict.fromkeys(
        ("OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtEpDevice", "OrtHardwareDevice",
         "OrtHardwareDeviceType", "OrtMemoryInfoDeviceType", "OrtSyncStream", "copy_tensors", "cuda_version",
         "get_ep_devices", "preload_dlls"), _DEVICES,
    ),
    **dict.fromkeys(
        ("OrtExecutionProviderDevicePolicy", "register_execution_provider_library", "unregister_execution_provider_library"), _PLUGINS,
    ),
    **dict.fromkeys(("OrtSparseFormat", "SparseTensor"), _SPARSE),
    "OrtExternalInitializerInfo": "weights in other files are read by the paths that the model says",
    "SessionIOBinding": "IOBinding is what binds",
    "import_capi_exception": "there is no C library that may fail to load",
    "onnxruntime_validation": "there is no C library whose build is to be validated",
    "has_collective_ops": "no operator communicates",
    "package_name": "anyshape.__version__ says what is installed", "version": "anyshape.__version__ says what is installed",
    "print_debug_info": "anyshape.__version__ says what is installed",
    "set_default_logger_callback": "messages go to Python's log, anyshape.onnxruntime",
}  # fmt: skip
"""Reasons why there is nothing for a name, by name"""


class RefusedName:
    """Stands for a name: calling it, or reading an attribute of it, raises NotImplemented."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise refusal(self._name)

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise refusal(self._name)

    def __repr__(self) -> str:
        return f"<{self._name}, which anyshape.onnxruntime does not have>"


def refusal(name: str) -> Exception:
    """The error for the use of a name."""
    return error(NotImplemented, f"anyshape.onnxruntime has no {name}: {LACKING[name]}")
