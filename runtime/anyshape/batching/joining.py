"""Which requests are one call, and what of its results is whose.

In: arrays of several requests and the batch dim of the model. Out: their arrays joined along it, and the results of each. Only requests
that agree in all other sizes, and in the inputs that have no rows, are joined: nothing is padded.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.batching.analysis import BatchDim

Array = NDArray[Any]


def rows_of(dim: BatchDim, inputs: Mapping[str, Array]) -> int | None:
    """The number of rows of a request; None for one that is to run alone: without rows, or of unequal numbers of them, which the model is
    left to refuse."""
    counts = {inputs[i.name].shape[i.axis] for i in dim.inputs if i.axis is not None and inputs[i.name].ndim > i.axis}
    return counts.pop() if len(counts) == 1 and 0 not in counts else None


def key_of(dim: BatchDim, inputs: Mapping[str, Array]) -> Hashable:
    """What requests must agree in to be joined."""
    return tuple(
        (a.shape, a.tobytes()) if axis is None else (*a.shape[:axis], -1, *a.shape[axis + 1 :])
        for a, axis in ((inputs[i.name], i.axis) for i in dim.inputs)
    )


def joined(dim: BatchDim, requests: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The inputs of one call for several requests."""
    return {
        i.name: requests[0][i.name] if i.axis is None else np.concatenate([r[i.name] for r in requests], i.axis)
        for i in dim.inputs
    }


def parted(dim: BatchDim, results: Sequence[Array], rows: Sequence[int]) -> list[list[Array]]:
    """The results of each request, of which these are the numbers of rows."""
    ends = np.cumsum(rows)
    parts: list[list[Array]] = [[] for _ in rows]
    for output, a in zip(dim.outputs, results, strict=True):
        if output.axis is None:
            pieces = [a] * len(rows)
        else:
            stride = a.shape[output.axis] // int(ends[-1])
            pieces = np.split(a, ends[:-1] * stride, output.axis)
        for part, piece in zip(parts, pieces, strict=True):
            part.append(piece)
    return parts
