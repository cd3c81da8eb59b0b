"""What a row of a table has and gets: the types of a model's inputs and outputs without the dim of the rows.

In: an executable, and the ranks of the columns. Out: a `BatchDim` that says which axes have the rows, and the types of one row. Where no
batch dim is proved, calls are of one row each, and the axis is read off the ranks: columns of one dim less than the inputs lack the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.batching import BatchDim, RowAxis, batch_dim
from anyshape.dims import Size, fresh
from anyshape.dtypes import CHAR
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.types import ListType, TensorType
from anyshape.vm.executable.executable import Executable


@dataclass(frozen=True, kw_only=True)
class RowTypes:
    """Types of one row by name. `dropped`: outputs whose axis of rows has one position for each row, and goes; other outputs that have
    such an axis keep it, with the positions of the row."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    dropped: frozenset[str]


def demand_tensors(executable: Executable) -> None:
    """Raises UnsupportedError for a model with strings or lists, and for one without inputs, which has nothing to do with rows."""
    if not executable.input_names:
        raise UnsupportedError(f"{executable!r} has no inputs, so that it gives nothing for a row of a table")
    names = (*executable.input_names, *executable.output_names)
    for name, t in zip(names, (*executable.input_types, *executable.output_types)):
        if isinstance(t, ListType) or t.dtype is CHAR:
            raise UnsupportedError(f"{name} is {t}; of a table only tensors of numbers and bools can be computed")


def row_layout(executable: Executable, ranks: Mapping[str, int | None], name: str | None = None) -> BatchDim:
    """The axes that have the rows: of the dim of that name, else of the batch dim that is proved, else first axes. `ranks`: of the values
    of each input's column, None where there is no row to know it by. Raises ArgumentError for a name that no dim of the inputs has, and
    where rows along the proved dim would have the form of rows along a first axis."""
    types = dict(zip(executable.input_names, executable.input_types))
    proved = batch_dim(executable.function)
    if isinstance(proved, BatchDim) and name in (None, proved.name):
        if name is None:
            _demand_unambiguous(proved, types)
        return proved
    axes = {n: _first_axis(t, ranks.get(n)) for n, t in types.items()} if name is None else _axes_of(name, types)
    sizes = [shape[axis] for n, axis in axes.items() if axis is not None and (shape := types[n].shape)]
    outputs = zip(executable.output_names, executable.output_types)
    return BatchDim(
        name or "",
        tuple(RowAxis(n, axis) for n, axis in axes.items()),
        tuple(
            RowAxis(n, next((k for k, m in enumerate(t.shape or ()) if _is_among(m, sizes)), None)) for n, t in outputs
        ),
        1,
    )


def _demand_unambiguous(proved: BatchDim, types: Mapping[str, TensorType]) -> None:
    for i in proved.inputs:
        shape = types[i.name].shape
        if i.axis and shape and _may_be_one(shape[0]):
            raise ArgumentError(
                f"rows may be along {proved}, where they are proved to stay apart, or along {shape[0]}, one in each call: name one of the "
                f"two as batch_dim (--batch-dim)"
            )


def _axes_of(name: str, types: Mapping[str, TensorType]) -> dict[str, int | None]:
    """The axis of each input that has a dim's name. Raises ArgumentError where none has."""
    axes = {
        n: next(
            (k for k, m in enumerate(t.shape or ()) if not isinstance(m, int) and m.is_symbol and m.name == name), None
        )
        for n, t in types.items()
    }
    if all(axis is None for axis in axes.values()):
        listed = ", ".join(f"{n}: {t}" for n, t in types.items())
        raise ArgumentError(f"batch_dim: no input has a dim {name}; they are {listed}")
    return axes


def _first_axis(t: TensorType, rank: int | None) -> int | None:
    """Axis 0 where values of a rank lack a first dim of one position."""
    return 0 if t.shape and rank == len(t.shape) - 1 and _may_be_one(t.shape[0]) else None


def _may_be_one(n: Size) -> bool:
    return n == 1 if isinstance(n, int) else n.is_symbol


def _is_among(n: Size, sizes: list[Size]) -> bool:
    return any(n is s or (isinstance(n, int) and isinstance(s, int) and n == s) for s in sizes)


def row_types(executable: Executable, layout: BatchDim) -> RowTypes:
    """The types of one row."""
    inputs = dict(zip(executable.input_names, executable.input_types))
    outputs = dict(zip(executable.output_names, executable.output_types))
    rows = [t.shape[i.axis] for i in layout.inputs if i.axis is not None and (t := inputs[i.name]).shape]
    dropped = frozenset(
        o.name
        for o in layout.outputs
        if o.axis is not None and (shape := outputs[o.name].shape) is not None and _is_among(shape[o.axis], rows)
    )
    return RowTypes(
        inputs={i.name: _without(inputs[i.name], i.axis) for i in layout.inputs},
        outputs={o.name: _output_type(outputs[o.name], o, dropped) for o in layout.outputs},
        dropped=dropped,
    )


def _output_type(t: TensorType, output: RowAxis, dropped: frozenset[str]) -> TensorType:
    """The type of a row's result. An axis of rows that stays has a size that the whole output's type does not say."""
    if output.name in dropped:
        return _without(t, output.axis)
    if output.axis is None or t.shape is None:
        return t
    return TensorType(t.dtype, (*t.shape[: output.axis], fresh(), *t.shape[output.axis + 1 :]))


def _without(t: TensorType, axis: int | None) -> TensorType:
    if axis is None or t.shape is None:
        return t
    return TensorType(t.dtype, t.shape[:axis] + t.shape[axis + 1 :])
