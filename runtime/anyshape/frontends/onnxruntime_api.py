"""`InferenceSession`: onnxruntime's interface on a compiled model, for programs that are written for onnxruntime.

Options, providers and run options are accepted and have no effect: there is one provider, and it needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from anyshape.dims import Size, free_symbols
from anyshape.errors import ArgumentError
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.frontends.onnx.maps import with_maps
from anyshape.graph.text import is_anonymous
from anyshape.public import edge, public
from anyshape.strings import as_objects
from anyshape.types import ListType, TensorType
from anyshape.vm import compile
from anyshape.vm.compiling.options import CompileOptions

PROVIDER = "CPUExecutionProvider"
_ELEMENT = {"f16": "float16", "bf16": "bfloat16", "f32": "float", "f64": "double", "bool": "bool", "char": "string"}


@dataclass(frozen=True)
class NodeArg:
    """An input or output as onnxruntime describes it: dims are numbers, names, or None where nothing names them."""

    name: str
    type: str
    shape: list[int | str | None] | None


class InferenceSession:
    """A model ready to run; thread-safe, as onnxruntime's is."""

    @edge
    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        **options: Unpack[CompileOptions],
    ) -> None:
        """`path_or_bytes`, `dims` and `options` are those of `anyshape.compile`. Raises ModelError or UnsupportedError."""
        self.executable = compile(path_or_bytes, dims, **options)
        self._columns = dict(self.executable.report.columns)

    @public
    def get_inputs(self) -> list[NodeArg]:
        return [_described(*pair) for pair in zip(self.executable.input_names, self.executable.input_types)]

    @public
    def get_outputs(self) -> list[NodeArg]:
        types = zip(self.executable.output_names, self.executable.output_types)
        return [
            _maps(name, t, self._columns[name]) if name in self._columns else _described(name, t) for name, t in types
        ]

    @public
    def get_providers(self) -> list[str]:
        return [PROVIDER]

    @public
    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """The outputs named, or all of them, in order: arrays, lists, and lists of maps where the model has a ZipMap at an output."""
        names = self.executable.output_names
        unknown = [n for n in output_names or () if n not in names]
        if unknown:
            raise ArgumentError(f"there is no output {', '.join(unknown)}; the outputs are {', '.join(names)}")
        results = with_maps(names, [as_objects(r) for r in self.executable.run(input_feed)], self._columns)
        return results if not output_names else [results[names.index(n)] for n in output_names]


def _maps(name: str, t: TensorType, labels: Sequence[Any]) -> NodeArg:
    return NodeArg(name, f"seq(map({'string' if isinstance(labels[0], str) else 'int64'},{_spelled(t)}))", [])


def _described(name: str, t: TensorType) -> NodeArg:
    return NodeArg(name, _spelled(t), None if (dims := declared_dims(t)) is None else [_dim(d) for d in dims])


def _spelled(t: TensorType) -> str:
    if isinstance(t, ListType):
        return f"{'optional' if t.optional else 'seq'}({_spelled(t.element)})"
    return f"tensor({_ELEMENT.get(t.dtype.name) or f'{t.dtype.kind}{t.dtype.bits}'})"


def _dim(d: Size) -> int | str | None:
    if isinstance(d, int):
        return d
    return None if any(map(is_anonymous, free_symbols(d))) else str(d)
