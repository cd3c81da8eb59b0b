"""Implements ONNX's standard backend interface, for tools that test or compare backends.

Anything unsupported raises UnsupportedError, so that a refusal is never mistaken for a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend as BaseBackend
from onnx.backend.base import BackendRep

from anyshape.dtypes import from_numpy
from anyshape.errors import ArgumentError, DtypeError, UnsupportedError
from anyshape.frontends.onnx import load
from anyshape.frontends.onnx.dtypes import NUMBER_OF, STRING
from anyshape.frontends.onnx.maps import with_maps
from anyshape.public import edge, public, short
from anyshape.strings import as_objects, is_text
from anyshape.vm import Executable, compile
from anyshape.vm.compiling.options import CompileOptions
from anyshape.wording import counted

Array = NDArray[Any]


class Prepared(BackendRep):  # type: ignore[misc]  # onnx has no types
    """A compiled model. `run` takes a list in the order of the inputs, a dict, or one array."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    @edge
    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        results = [as_objects(r) for r in self.executable.run(self._by_name(inputs))]
        return tuple(with_maps(self.executable.output_names, results, dict(self.executable.report.columns)))

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        listed = _listed(inputs)
        names = self.executable.input_names
        if len(listed) != len(names):
            raise ArgumentError(f"the model has {counted(len(names), 'input')} ({', '.join(names)}), got {len(listed)}")
        return dict(zip(names, listed))


class Backend(BaseBackend):  # type: ignore[misc]  # onnx has no types
    """`onnx.backend.base.Backend` on anyshape."""

    @classmethod
    @edge
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be imported; a damaged one raises ModelError."""
        try:
            load(model)
        except UnsupportedError:
            return False
        return cls.supports_device(device)

    @classmethod
    @edge
    def prepare(
        cls, model: Any, device: str = "CPU", dims: Mapping[str, Any] | None = None, **kwargs: Unpack[CompileOptions]
    ) -> Prepared:
        """Compiles a model, given as for `anyshape.compile`; options of `compile` may follow."""
        if not cls.supports_device(device):
            raise UnsupportedError(f"device {device!r} is not supported; there is CPU")
        return Prepared(compile(model, dims, **kwargs))

    @classmethod
    @edge
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    @edge
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Runs one node on its own, under the opset `opset_version` (by default the newest)."""
        if not isinstance(node, onnx.NodeProto):
            raise ArgumentError(f"run_node: node must be an onnx.NodeProto, got {short(node)}")
        opset = kwargs.pop("opset_version", None) or onnx.defs.onnx_opset_version()
        if not isinstance(opset, int) or not 0 < opset < 2**31:
            raise ArgumentError(f"run_node: opset_version must be a positive integer, got {short(opset)}")
        arrays = _arrays(node, inputs)
        return cls.run_model(_model_of(node, arrays, opset), arrays, device, **kwargs)

    @classmethod
    @public
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0].upper() == "CPU"


def _arrays(node: Any, inputs: Any) -> dict[str, Array]:
    if isinstance(inputs, Mapping):
        if strange := [name for name in inputs if not isinstance(name, str)]:
            raise ArgumentError(f"{node.op_type}: names of inputs are strings, got {short(strange[0])}")
        return {name: np.asarray(a) for name, a in inputs.items()}
    listed = _listed(inputs)
    names = [name for name in node.input if name]
    if len(listed) != len(names):
        raise ArgumentError(
            f"{node.op_type} has {counted(len(names), 'input')} ({', '.join(names)}), got {len(listed)}"
        )
    return {name: np.asarray(a) for name, a in zip(names, listed)}


def _listed(inputs: Any) -> Sequence[Any]:
    if isinstance(inputs, np.ndarray):
        return [inputs]
    if not isinstance(inputs, Sequence) or isinstance(inputs, str | bytes):
        raise ArgumentError(f"inputs must be a mapping, a list of arrays or an array, got {short(inputs)}")
    return inputs


def _model_of(node: Any, arrays: Mapping[str, Array], opset: int) -> Any:
    try:
        kinds = {name: STRING if is_text(a) else NUMBER_OF[from_numpy(a.dtype)] for name, a in arrays.items()}
    except DtypeError as e:
        raise UnsupportedError(f"{node.op_type}: {e}") from None
    inputs = [onnx.helper.make_tensor_value_info(name, kinds[name], a.shape) for name, a in arrays.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
