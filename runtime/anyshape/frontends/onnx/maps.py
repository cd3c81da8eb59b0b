"""Lists of maps at the outputs of a model, which ZipMap makes: here the tensor that it reads, and the labels of its columns.

In: a graph. Out: for each such output, the tensor's name and the labels, and the graph's other nodes. `as_maps` makes the list of a result,
for those who call a model as onnxruntime is called.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anyshape.errors import ModelError, ShapeError
from anyshape.frontends.onnx.control import free_names
from anyshape.frontends.onnx.order import spell_node
from anyshape.graph.value import Value
from anyshape.types import ListType
from anyshape.wording import counted

ZIP_MAP = ("ai.onnx.ml", "ZipMap")
SESSION = "InferenceSession makes a list of maps of it"
Labels = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """An output that is a list of maps: the tensor whose rows they are, and the label of each column."""

    source: str
    tensor: str
    labels: Labels

    def checked(self, v: Value | None, where: str) -> Value | None:
        """Raises ModelError for a tensor that has no such columns, as far as its type says."""
        if v is None:
            return None
        last = v.type.shape[-1] if v.type.shape else None
        if (
            isinstance(v.type, ListType)
            or v.type.rank not in (None, 1, 2)
            or (isinstance(last, int) and last != len(self.labels))
        ):
            labels = counted(len(self.labels), "label")
            raise ModelError(
                f"{where}: {self.source} has {labels}, and reads {v.type}, which is no rows of so many columns"
            )
        return v

    def said(self, output: str) -> str:
        """Words for the report of a compile."""
        labels = ", ".join(map(str, self.labels[:8])) + " …" * (len(self.labels) > 8)
        return f"output {output!r} is the tensor {self.tensor!r}, whose columns are of {labels}; {SESSION}"


def columns_of(graph: Any, where: str) -> dict[str, Columns]:
    """Collects {output: its columns}. A ZipMap of which another node reads the result is left to be refused. Raises ModelError for labels
    that are none."""
    zip_maps = {
        n.output[0]: n for n in graph.node if (n.domain, n.op_type) == ZIP_MAP and len(n.output) == 1 == len(n.input)
    }
    read = set(free_names(graph.node)) if zip_maps else set()
    outputs = {o.name for o in graph.output} - read
    return {
        name: Columns(spell_node(n), n.input[0], _labels(n, where)) for name, n in zip_maps.items() if name in outputs
    }


def _labels(node: Any, where: str) -> Labels:
    said = {a.name: a for a in node.attribute}
    texts, numbers = (said.pop(f"classlabels_{kind}", None) for kind in ("strings", "int64s"))
    if said:
        raise ModelError(f"{where}: {spell_node(node)} has no attribute {sorted(said)[0]}")
    words: Labels = (
        tuple(s.decode("utf-8", "replace") for s in texts.strings) if texts is not None and texts.strings else ()
    )
    listed = tuple(numbers.ints) if numbers is not None else ()
    if bool(words) == bool(listed):
        raise ModelError(f"{where}: {spell_node(node)} must have either classlabels_strings or classlabels_int64s")
    labels: Labels = words or listed
    if len(set(labels)) < len(labels):
        raise ModelError(f"{where}: {spell_node(node)} has one label twice")
    return labels


def left_out(nodes: Sequence[Any], columns: Collection[str]) -> list[Any]:
    """The nodes without those that make lists of maps."""
    return [n for n in nodes if not ((n.domain, n.op_type) == ZIP_MAP and n.output[0] in columns)]


def as_maps(output: str, rows: NDArray[Any], labels: Sequence[Any]) -> list[dict[Any, Any]]:
    """A map from labels to elements for each row; of a vector, for it alone. Raises ShapeError for rows of another length."""
    if rows.ndim not in (1, 2) or rows.shape[-1] != len(labels):
        raise ShapeError(
            f"output {output!r} has {counted(len(labels), 'label')} for columns, and its shape is {list(rows.shape)}"
        )
    return [dict(zip(labels, row)) for row in rows.reshape(-1, len(labels)).tolist()]


def with_maps(names: Sequence[str], results: Sequence[Any], columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Results as ONNX's other runtimes give them: lists of maps where the model has these."""
    return [as_maps(n, r, columns[n]) if n in columns else r for n, r in zip(names, results, strict=True)]
