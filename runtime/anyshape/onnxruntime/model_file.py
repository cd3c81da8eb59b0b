"""The file of a session's model: reading it with onnxruntime's errors, free dimensions, and the model without some of its initializers."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from anyshape.errors import ModelError, UnsupportedError
from anyshape.files import is_saved
from anyshape.frontends.onnx.mappings import normal_domain
from anyshape.frontends.onnx.reader import Source, read_model
from anyshape.frontends.onnx.tensors import whole_tensor
from anyshape.graph.function import Function
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import (
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
    WrongKind,
    error,
)
from anyshape.onnxruntime.log import ignored
from anyshape.onnxruntime.options import SessionOptions


def read_source(model: Any) -> Source | None:
    """Parses a model; None for a saved one and for a Function, which have no file that says more."""
    if isinstance(model, Function):
        return None
    is_path = isinstance(model, str | os.PathLike)
    is_data = isinstance(model, bytes | bytearray | memoryview)
    if not (is_path or is_data or hasattr(model, "SerializeToString") or hasattr(model, "model_proto")):
        raise WrongKind(f"Unable to load from type '{type(model)}': a model is a path, bytes or an onnx.ModelProto")
    if is_path and "\0" not in str(model) and not os.path.exists(model):
        raise error(NoSuchFile, f"Load model from {model} failed. File doesn't exist")
    if is_path and is_saved(model):
        return None
    if is_data and not memoryview(model).nbytes:
        raise error(InvalidArgument, "No graph was found in the protobuf.")
    try:
        return read_model(model)
    except UnsupportedError:
        raise
    except ModelError as e:
        raise error(InvalidProtobuf, e) from e


def free_dimensions(settings: SessionOptions, source: Source | None) -> dict[str, int]:
    """Numbers for named dims of inputs; overrides of names that no input has are logged."""
    if source is None:
        return {}
    dims = [d for i in source.model.graph.input for d in i.type.tensor_type.shape.dim]
    numbers = {d.dim_param: settings._by_name[d.dim_param] for d in dims if d.dim_param in settings._by_name}
    for d in dims:
        if d.denotation in settings._by_denotation and not d.HasField("dim_value"):
            if not d.dim_param:
                raise error(
                    NotImplemented, f"an override of the dims {d.denotation!r}: one of them has no name in the model"
                )
            numbers[d.dim_param] = settings._by_denotation[d.denotation]
    for name in settings._by_name.keys() - numbers.keys():
        ignored(f"the override of the free dimension {name!r}", "no input has a dim of this name")
    return numbers


def without_defaults(source: Source, names: frozenset[str]) -> Any:
    """Copies a model without these initializers, so that their inputs have to be passed."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(source.model)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(
        whole_tensor(t, source.weights.get(k), source.folder, source.name)
        for k, t in enumerate(source.model.graph.initializer)
        if t.name not in names
    )
    del copy.graph.sparse_initializer[:]
    copy.graph.sparse_initializer.extend(s for s in source.model.graph.sparse_initializer if s.values.name not in names)
    return copy


def with_independent_dims(source: Source, bound: Collection[str]) -> Source:
    """A model whose inputs may have other sizes where their dims have one name, as onnxruntime lets them; the names in `bound` keep their
    meaning."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(source.model)
    seen: set[str] = set()
    for dim in (
        d for i in copy.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param and d.dim_param not in bound
    ):
        if dim.dim_param in seen:
            dim.ClearField("dim_param")
        seen.add(dim.dim_param)
    return replace(source, model=copy)


def declared_shapes(source: Source | None) -> dict[str, list[str]]:
    """The names of dims of inputs and outputs as the file spells them, empty where a dim has none; nothing where there is no shape."""
    if source is None:
        return {}
    infos = [i for i in (*source.model.graph.input, *source.model.graph.output) if i.type.tensor_type.HasField("shape")]
    return {i.name: [d.dim_param for d in i.type.tensor_type.shape.dim] for i in infos}


def is_undeclared(e: UnsupportedError) -> bool:
    """Whether an operator of ONNX's own domain is in none of its versions."""
    import onnx

    return any(
        normal_domain(r.domain) == "" and not onnx.defs.has(r.op, "")
        for r in getattr(e, "entries", ())
        if r.op and r.op[0].isupper()
    )
