"""What programs import from `onnxruntime.capi._pybind_state`: the names of `onnxruntime_pybind11_state`."""

from __future__ import annotations

from typing import Any

from anyshape.onnxruntime.capi import onnxruntime_pybind11_state


def __getattr__(name: str) -> Any:
    return getattr(onnxruntime_pybind11_state, name)
