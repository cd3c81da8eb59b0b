"""Inputs, outputs and the model of a session, as onnxruntime describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Size, free_symbols
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.graph.text import is_anonymous
from anyshape.onnxruntime.values import spelled_dtype
from anyshape.types import ListType, TensorType


@dataclass(frozen=True)
class NodeArg:
    """An input or output as onnxruntime describes it: dims are numbers, names, or None where nothing names them."""

    name: str
    type: str
    shape: list[int | str | None] | None


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """What the model's file says of itself."""

    custom_metadata_map: dict[str, str]
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


def described_maps(name: str, t: TensorType, labels: Sequence[Any]) -> NodeArg:
    return NodeArg(name, f"seq(map({'string' if isinstance(labels[0], str) else 'int64'},{_spelled(t)}))", [])


def described(name: str, t: TensorType, spelled: Sequence[str] = ()) -> NodeArg:
    """`spelled`: the names of the dims in the model's file, which programs read as formulas over those of the inputs."""
    dims = declared_dims(t)
    names = spelled if dims is not None and len(spelled) == len(dims) else [""] * len(dims or ())
    return NodeArg(name, _spelled(t), None if dims is None else [_dim(d, n) for d, n in zip(dims, names)])


def _spelled(t: TensorType) -> str:
    if isinstance(t, ListType):
        return f"{'optional' if t.optional else 'seq'}({_spelled(t.element)})"
    return f"tensor({spelled_dtype(t.dtype)})"


def _dim(d: Size, spelled: str) -> int | str | None:
    if isinstance(d, int) or spelled:
        return d if isinstance(d, int) else spelled
    return None if any(map(is_anonymous, free_symbols(d))) else str(d)
