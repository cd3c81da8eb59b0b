"""IOBinding: inputs and outputs of a session in memory of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import NoValue
from anyshape.onnxruntime.translation import entry
from anyshape.onnxruntime.values import OrtValue, array_at, check_device

if TYPE_CHECKING:
    from anyshape.onnxruntime.session import InferenceSession


class IOBinding:
    """Values by the names of inputs and outputs, for `InferenceSession.run_with_iobinding`. A result is written into the memory that is
    bound to its output; an output that is bound without memory gets an OrtValue of its own."""

    @entry
    def __init__(self, session: Any) -> None:
        self._session: InferenceSession = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}

    @entry
    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._check_input(name)
        self._inputs[name] = arr_on_cpu

    @entry
    def bind_input(
        self, name: str, device_type: Any, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory at an address, which must live until the run is over."""
        self._check_input(name)
        check_device(device_type)
        self._inputs[name] = array_at(buffer_ptr, shape, element_type)

    @entry
    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check_input(name)
        self._inputs[name] = ortvalue

    @entry
    def bind_output(
        self, name: str, device_type: Any = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Binds memory at an address, or none."""
        check_device(device_type)
        if buffer_ptr is None or shape is None:
            self._outputs[name] = None
            return
        self._outputs[name] = OrtValue(
            array_at(buffer_ptr, shape, np.float32 if element_type is None else element_type)
        )

    @entry
    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._outputs[name] = ortvalue

    @entry
    def synchronize_inputs(self) -> None:
        """Returns at once: there is one device."""

    @entry
    def synchronize_outputs(self) -> None:
        """Returns at once: there is one device."""

    @entry
    def get_outputs(self) -> list[OrtValue]:
        """Values of the outputs in the order in which they were bound, those that are bound without memory from the last run."""
        return [v for v in self._outputs.values() if v is not None]

    @entry
    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    @entry
    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        return [v.numpy() for v in self.get_outputs()]

    @entry
    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    @entry
    def clear_binding_outputs(self) -> None:
        self._outputs.clear()

    def _check_input(self, name: str) -> None:
        names = self._session.feedable
        if name not in names:
            raise NoValue(
                f"Failed to find NodeArg with name: {name} in the def list; the inputs are {', '.join(names)}"
            )

    @property
    def inputs(self) -> dict[str, Any]:
        """What is bound to inputs."""
        return dict(self._inputs)

    @property
    def outputs(self) -> dict[str, OrtValue | None]:
        """What is bound to outputs."""
        return dict(self._outputs)

    def _take(self, results: dict[str, OrtValue]) -> None:
        """Keeps the values of outputs that are bound without memory."""
        self._outputs.update(results)
