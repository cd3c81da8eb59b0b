"""`load`: imports an ONNX model as a Function, and repairs it first on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape.frontends.onnx.edge import model_errors
from anyshape.frontends.onnx.importer import Import
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.mappings import Table, all_mappings
from anyshape.frontends.onnx.reader import Source, read_model
from anyshape.frontends.onnx.repaired import repaired
from anyshape.graph.function import Function


def load(
    source: Any,
    dims: Mapping[str, DimBinding] | None = None,
    table: Table | None = None,
    repair: bool = False,
    notes: list[str] | None = None,
    columns: dict[str, Sequence[Any]] | None = None,
) -> Function:
    """Imports the model at a path, in bytes or in an onnx.ModelProto, as a Function.

    `dims` binds or bounds named dims of the inputs: {"batch": 8, "seq": (1, 512)}. `table` replaces the mappings. `repair`: what the
    standard refuses is taken for what it most likely means (`repaired`). `notes` receives what was repaired, and what was assumed that
    the model does not say. `columns` receives the labels of outputs that are lists of maps in the model, and tensors here.

    Raises ModelError for a damaged or inconsistent model, one UnsupportedError for everything that is not
    supported, and no error but AnyshapeErrors and MemoryError.
    """
    said = notes if notes is not None else []
    read = read_source(source, dims, repair, said)
    with model_errors(read.name):
        importing = Import(read, dims, all_mappings() if table is None else table)
        function = importing.function()
    said += importing.resolver.assumed.values()
    said += [of.said(name) for name, of in importing.columns.items()]
    if columns is not None:
        columns.update((name, of.labels) for name, of in importing.columns.items())
    return function


def read_source(source: Any, dims: Mapping[str, DimBinding] | None, repair: bool, notes: list[str]) -> Source:
    """Parses a model and repairs it on demand; `notes` receives the changes."""
    if not repair:
        with model_errors("model"):
            return read_model(source)
    read, changes = repaired(source, dims)
    notes += [f"repaired: {change}" for change in changes]
    return read
