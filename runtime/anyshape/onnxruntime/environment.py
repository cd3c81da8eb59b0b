"""Functions of the module: what there is, and settings of the process."""

from __future__ import annotations

from anyshape.code_version import VERSION
from anyshape.equations.entropy import seed
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import NoValue
from anyshape.onnxruntime.log import LEVELS, LOGGER, ignored
from anyshape.onnxruntime.providers import PROVIDER
from anyshape.onnxruntime.translation import entry

API_VERSION = "1.32.0"
"""The version of onnxruntime whose interface this is"""


def get_available_providers() -> list[str]:
    return [PROVIDER]


def get_all_providers() -> list[str]:
    return [PROVIDER]


def get_device() -> str:
    return "CPU"


def get_version_string() -> str:
    return API_VERSION


def get_build_info() -> str:
    return f"ORT Build Info: anyshape {VERSION}, with the interface of onnxruntime {API_VERSION}"


@entry
def set_default_logger_severity(severity: int) -> None:
    """Sets the level of the log `anyshape.onnxruntime`: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    if not 0 <= severity < len(LEVELS):
        raise NoValue(f"Invalid logging severity {severity}: 0 to {len(LEVELS) - 1}")
    LOGGER.setLevel(LEVELS[severity])


@entry
def set_default_logger_verbosity(verbosity: int) -> None:
    ignored("set_default_logger_verbosity", "the log has levels alone")


@entry
def set_seed(number: int) -> None:
    """Makes operators that draw random numbers without a seed of their own reproducible."""
    seed(number)


@entry
def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    ignored(
        "set_global_thread_pool_sizes", "SessionOptions.intra_op_num_threads says how many threads a session may use"
    )


def enable_telemetry_events() -> None:
    """Returns at once: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Returns at once: there is no telemetry."""
