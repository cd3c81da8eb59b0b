"""`quantise`: a model with weights in few bits, of any ONNX model with constant weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from anyshape.errors import ArgumentError
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.loading import read_source
from anyshape.frontends.onnx.named_values import check_mergeable
from anyshape.public import edge
from anyshape.quantisation.measuring import errors_on
from anyshape.quantisation.narrow_nodes import FORMATS, GROUPS
from anyshape.quantisation.narrowing import NarrowedModel, NarrowedWeight, Selection, narrowed_model
from anyshape.quantisation.report import QuantisationReport
from anyshape.quantisation.rounding import METHODS, Rounding
from anyshape.wording import counted

LEAST = 16384
"""The bytes of a weight from which it becomes narrow"""

GROUP = 32
"""The elements of a group where none is asked for"""

MOST_LISTED = 10
"""The most names in a message"""
ACTIVATIONS = ("float", "int8")
"""What products multiply codes with"""


@edge
def quantise(
    model: Any,
    weights: str = "int4",
    group: int | None = None,
    symmetric: bool = False,
    method: str = "rtn",
    keep: Sequence[str] = (),
    least: int = LEAST,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    dims: Mapping[str, DimBinding] | None = None,
    activations: str = "float",
) -> tuple[Any, QuantisationReport]:
    """Writes constant weights of a model (a path, its bytes or an onnx.ModelProto) in few bits; returns an onnx.ModelProto, and a report.

    `weights`: int4, int8 or f8e4m3. `group`: how many elements of a column have one scale, 16, 32, 64, 128 or 256 (32). `symmetric`:
    groups without zero points. `method`: "rtn" rounds to nearest, "mse" also clips each group where that makes the squared error less.
    `keep` has patterns, as of files, of names of weights and nodes that stay as they are; weights of less than `least` bytes do, too.
    `activations`: "int8" permits products to round what they multiply the codes with to 8 bits, in the same groups, as this library and
    onnxruntime do; they take a half to a quarter of the time. `inputs`: the errors of nodes and outputs are measured on these. `dims` binds
    or bounds named dims of the inputs, as of `compile`.

    Raises ArgumentError for options that cannot be, ModelError for a weight with elements that are not finite, and a subclass of
    AnyshapeError for a model that is damaged. The original is not changed.
    """
    selection = _selection(weights, group, symmetric, method, keep, least, activations)
    read = read_source(model, dims, False, [])
    check_mergeable(read)
    narrow = narrowed_model(read, dims, selection)
    _demand_matched(narrow, least)
    of_nodes, outputs = errors_on(read, narrow, inputs, dims) if inputs is not None else ({}, None)
    grouped = FORMATS[weights].grouped
    report = QuantisationReport(
        weights=weights,
        group=selection.how.group if grouped else None,
        symmetric=symmetric,
        method=method,
        activations=activations,
        narrowed=[
            replace(w.report, output_error=None if w.inside else of_nodes.get(w.result)) for w in narrow.narrowed
        ],
        kept=narrow.kept,
        before=narrow.before,
        after=narrow.after,
        outputs=outputs,
        notes=tuple(_notes(narrow.narrowed)),
    )
    return narrow.model, report


def _selection(
    weights: str,
    group: int | None,
    symmetric: bool,
    method: str,
    keep: Sequence[str],
    least: int,
    activations: str,
) -> Selection:
    """Checks the options. Raises ArgumentError."""
    if weights not in FORMATS:
        raise ArgumentError(f"weights must be one of {', '.join(FORMATS)}, got {weights!r}")
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if activations not in ACTIVATIONS:
        raise ArgumentError(f"activations must be one of {', '.join(ACTIVATIONS)}, got {activations!r}")
    if least < 0:
        raise ArgumentError(f"least is a number of bytes, got {least}")
    if isinstance(keep, str):
        raise ArgumentError(f"keep is a list of patterns, got {keep!r}; pass [{keep!r}]")
    of = FORMATS[weights]
    if not of.grouped and (group is not None or symmetric or method != "rtn"):
        raise ArgumentError(
            f"{weights} has one scale for each column and no zero points: leave group, symmetric and method out, or use "
            f"{' or '.join(name for name, f in FORMATS.items() if f.grouped)}"
        )
    if not of.grouped and activations != "float":
        raise ArgumentError(
            f"activations are multiplied in 8 bits with codes in groups, and {weights} has none: leave activations out, or use "
            f"{' or '.join(name for name, f in FORMATS.items() if f.grouped)}"
        )
    if group is not None and group not in GROUPS:
        raise ArgumentError(
            f"group must be one of {', '.join(map(str, GROUPS))}, the groups that runtimes have, got {group}"
        )
    how = Rounding(bits=of.bits, group=int(group or GROUP), symmetric=symmetric, method=method)
    return Selection(weights=weights, how=how, least=int(least), keep=tuple(keep), of_bytes=activations == "int8")


def _demand_matched(narrow: NarrowedModel, least: int) -> None:
    """Raises ArgumentError for a pattern that keeps nothing: a weight that was to stay would be narrow."""
    if not narrow.unmatched:
        return
    names = dict.fromkeys([*(w.report.weight for w in narrow.narrowed), *(k.weight for k in narrow.kept)])
    listed = ", ".join([*list(names)[:MOST_LISTED], *["…"] * (len(names) > MOST_LISTED)]) or "none"
    raise ArgumentError(
        f"keep: {', '.join(map(repr, narrow.unmatched))} matches no weight of at least {least} bytes, and no node that uses one; "
        f"weights are {listed}"
    )


def _notes(narrowed: Sequence[NarrowedWeight]) -> Iterator[str]:
    wide = sum(not w.report.decodes for w in narrowed)
    if wide:
        verb = "is" if wide == 1 else "are"
        yield f"{counted(wide, 'weight')} before a DequantizeLinear {verb} narrow in the file, and floats once the model is loaded"
