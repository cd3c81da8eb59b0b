"""XNNPACK through LiteRT behind the words of `engines.py`: a model of TensorFlow Lite, written from an ONNX model by `layers.py`.

Pictures have their channels last there: arguments and results are transposed outside of what is measured. A model of other sizes is laid
out anew when its arguments are bound, which is not measured either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from benchmarks.layers import Layer, Network, network
from benchmarks.lines import Array


def compiled(model: ModelProto, threads: int) -> Callable[[Mapping[str, Array]], Callable[[], list[Any]]]:
    """A function that binds arguments, and gives a call without any. Raises ValueError for a layer that is not written here."""
    from ai_edge_litert.interpreter import Interpreter

    layers = network(model)
    interpreter = Interpreter(model_content=_Writer(layers).model(), num_threads=threads)
    places = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    results = {d["name"]: d["index"] for d in interpreter.get_output_details()}

    def bind(arguments: Mapping[str, Array]) -> Callable[[], list[Any]]:
        last = {n: np.ascontiguousarray(arguments[n].transpose(0, 2, 3, 1)) for n in layers.inputs}
        for name, array in last.items():
            interpreter.resize_tensor_input(places[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in last.items():
            interpreter.set_tensor(places[name], array)

        def call() -> list[Any]:
            interpreter.invoke()
            return [lambda n=name: interpreter.get_tensor(results[n]) for name in layers.outputs]

        return call

    return bind


def arrays(results: Sequence[Any]) -> list[Array]:
    """Results with their channels first."""
    read = (r() for r in results)
    return [np.ascontiguousarray(a.transpose(0, 3, 1, 2)) if a.ndim == 4 else a for a in read]


class _Writer:
    """A model of TensorFlow Lite under construction."""

    def __init__(self, of: Network) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema, self.of = schema, of
        self.tensors: list[Any] = []
        self.buffers: list[Any] = [schema.BufferT()]  # the first one is empty, for what has no values
        self.operators: list[Any] = []
        self.codes: dict[int, int] = {}
        self.numbers: dict[str, int] = {}

    def model(self) -> bytes:
        import flatbuffers

        s, of = self.schema, self.of
        for name in of.inputs:
            self.numbers[name] = self._value(name, (1, 8, 8, of.channels[name]))
        for layer in of.layers:
            self._layer(layer)
        graph, model = s.SubGraphT(), s.ModelT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = ([self.numbers[n] for n in names] for names in (of.inputs, of.outputs))
        model.version, model.subgraphs, model.buffers = 3, [graph], self.buffers
        model.operatorCodes = [self._code(code) for code in self.codes]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _code(self, builtin: int) -> Any:
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
        return code

    def _value(self, name: str, shape: Sequence[int]) -> int:
        """A tensor that is computed, or an argument, of unknown sizes but the last one."""
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, [*shape], self.schema.TensorType.FLOAT32, 0
        tensor.shapeSignature = [-1, -1, -1, shape[-1]] if len(shape) == 4 else [-1, shape[-1]]
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _constant(self, array: Array) -> int:
        s = self.schema
        buffer, tensor = s.BufferT(), s.TensorT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        tensor.name, tensor.shape, tensor.buffer = f"constant {len(self.tensors)}", [*array.shape], len(self.buffers)
        tensor.type = s.TensorType.INT32 if array.dtype == np.int32 else s.TensorType.FLOAT32
        self.buffers.append(buffer)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _put(self, code: str, inputs: Sequence[int], output: int, kind: str = "", **options: Any) -> None:
        s, operator = self.schema, self.schema.OperatorT()
        builtin = getattr(s.BuiltinOperator, code)
        operator.opcodeIndex = self.codes.setdefault(builtin, len(self.codes))
        operator.inputs, operator.outputs = [*inputs], [output]
        if kind:
            operator.builtinOptionsType = getattr(s.BuiltinOptions, kind)
            operator.builtinOptions = getattr(s, f"{kind}T")()
            for name, value in options.items():
                setattr(operator.builtinOptions, name, value)
        self.operators.append(operator)

    def _layer(self, layer: Layer) -> None:
        inputs = [self.numbers[n] for n in layer.inputs]
        channels = [self.tensors[n].shape[-1] for n in inputs]
        match layer.operator:
            case "Conv":
                self._convolution(layer, inputs[0], channels[0])
            case "Gemm":
                assert layer.weights is not None and layer.bias is not None
                output = self._result(layer, (1, len(layer.weights)))
                constants = [self._constant(layer.weights), self._constant(layer.bias)]
                self._put("FULLY_CONNECTED", [*inputs, *constants], output, "FullyConnectedOptions")
            case "MaxPool" if layer.dilations == (1, 1):
                padded = self._padded(layer, inputs[0], channels[0], -np.inf)
                (kh, kw), (sh, sw) = layer.kernel, layer.strides
                output = self._result(layer, (1, 8, 8, channels[0]))
                self._put(
                    "MAX_POOL_2D", [padded], output, "Pool2DOptions",
                    padding=self.schema.Padding.VALID, strideH=sh, strideW=sw, filterHeight=kh, filterWidth=kw,
                )  # fmt: skip
            case "GlobalAveragePool":
                output = self._result(layer, (1, 1, 1, channels[0]))
                axes = self._constant(np.array([1, 2], np.int32))
                self._put("MEAN", [inputs[0], axes], output, "ReducerOptions", keepDims=True)
            case "Flatten":
                shape = self._constant(np.array([-1, channels[0]], np.int32))
                self._put("RESHAPE", [inputs[0], shape], self._result(layer, (1, channels[0])), "ReshapeOptions")
            case "Add" | "Mul" if len(inputs) == 2:
                code = layer.operator.upper()
                output = self._result(layer, self.tensors[inputs[0]].shape)
                self._put(code, inputs, output, f"{layer.operator}Options")
            case "Relu":
                self._put("RELU", inputs, self._result(layer, self.tensors[inputs[0]].shape))
            case "Clip" if layer.range == (0.0, 6.0):
                self._put("RELU6", inputs, self._result(layer, self.tensors[inputs[0]].shape))
            case "Sigmoid":
                self._put("LOGISTIC", inputs, self._result(layer, self.tensors[inputs[0]].shape))
            case "Concat":
                output = self._result(layer, (1, 8, 8, sum(channels)))
                self._put("CONCATENATION", inputs, output, "ConcatenationOptions", axis=3)
            case _:
                raise ValueError(f"{layer.operator} of this form is not written for TensorFlow Lite")

    def _result(self, layer: Layer, shape: Sequence[int]) -> int:
        self.numbers[layer.output] = number = self._value(layer.output, shape)
        return number

    def _convolution(self, layer: Layer, source: int, channels: int) -> None:
        """Writes a convolution. Raises ValueError for groups of several channels each, which XNNPACK is not source."""
        s, w = self.schema, layer.weights
        assert w is not None and layer.bias is not None
        depthwise = layer.groups > 1
        if depthwise and (layer.groups != channels or w.shape[1] != 1):
            raise ValueError("groups of several channels are not written for TensorFlow Lite")
        activation = {None: s.ActivationFunctionType.NONE, (0.0, float("inf")): s.ActivationFunctionType.RELU}
        activation[0.0, 6.0] = s.ActivationFunctionType.RELU6
        if layer.range not in activation:
            raise ValueError(f"results within {layer.range} are not written for TensorFlow Lite")
        same = (
            layer.strides == (1, 1)
            and layer.pads == tuple((k - 1) // 2 * d for k, d in zip(layer.kernel, layer.dilations)) * 2
        )
        same = same and all(k % 2 == 1 for k in layer.kernel)
        padded = source if same else self._padded(layer, source, channels, 0.0)
        options = {
            "padding": s.Padding.SAME if same else s.Padding.VALID,
            "strideH": layer.strides[0],
            "strideW": layer.strides[1],
            "dilationHFactor": layer.dilations[0],
            "dilationWFactor": layer.dilations[1],
            "fusedActivationFunction": activation[layer.range],
        }
        output = self._result(layer, (1, 8, 8, len(w)))
        if depthwise:
            weights = w.reshape(1, *w.shape[:1], *w.shape[2:]).transpose(0, 2, 3, 1)
            options["depthMultiplier"] = len(w) // channels
            code, kind = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        else:
            weights, code, kind = w.transpose(0, 2, 3, 1), "CONV_2D", "Conv2DOptions"
        self._put(code, [padded, self._constant(weights), self._constant(layer.bias)], output, kind, **options)

    def _padded(self, layer: Layer, source: int, channels: int, value: float) -> int:
        """A picture with its pads around it, if there are any."""
        top, left, bottom, right = layer.pads
        if not any(layer.pads):
            return source
        pads = self._constant(np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32))
        output = self._value(f"{layer.output}, padded", (1, 8, 8, channels))
        if value == 0.0:
            self._put("PAD", [source, pads], output, "PadOptions")
        else:
            self._put("PADV2", [source, pads, self._constant(np.array(value, np.float32))], output, "PadV2Options")
        return output
