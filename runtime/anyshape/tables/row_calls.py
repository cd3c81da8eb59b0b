"""Rows grouped by their shapes, and their calls: rows of one group are joined along the batch dim, nothing is padded.

In: arrays of each input, one for each row. Out: arrays of each output in the order of the rows. Groups run from the longest rows to the
shortest, so that memory for intermediate values grows once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from anyshape.batching import BatchDim
from anyshape.batching.joining import joined, key_of, parted
from anyshape.errors import AnyshapeError, Cancelled, RowError
from anyshape.tables.columns import Array

Call = Callable[[Mapping[str, Array]], list[Array]]


class RowCalls:
    """Calls of a model for rows. `most` bounds the rows of one call."""

    def __init__(self, call: Call, layout: BatchDim, dropped: frozenset[str], most: int) -> None:
        self._call, self._layout = call, layout
        self._most = most if layout.most is None else min(most, layout.most)
        self._squeezed = [o.axis if o.name in dropped else None for o in layout.outputs]

    def run(
        self, inputs: Mapping[str, Sequence[Array]], first: int = 0, where: str = "table"
    ) -> dict[str, list[Array]]:
        """The results of each row, by output. Raises RowError for a row that the model refuses; `first` is the number of the first row."""
        rows = [self._one_row(values) for values in zip(*(inputs[i.name] for i in self._layout.inputs), strict=True)]
        results: list[list[Array]] = [[] for _ in rows]
        for numbers in self._groups(rows):
            for k, row_results in zip(numbers, self._results(numbers, rows, first, where), strict=True):
                results[k] = row_results
        return {o.name: [r[k] for r in results] for k, o in enumerate(self._layout.outputs)}

    def _one_row(self, values: Sequence[Array]) -> dict[str, Array]:
        """The inputs of a call for one row."""
        return {i.name: a if i.axis is None else np.expand_dims(a, i.axis) for i, a in zip(self._layout.inputs, values)}

    def _groups(self, rows: Sequence[Mapping[str, Array]]) -> list[list[int]]:
        """The numbers of the rows of each call, the largest rows first."""
        groups: dict[Hashable, list[int]] = {}
        for k, row in enumerate(rows):
            groups.setdefault(key_of(self._layout, row) if self._most > 1 else k, []).append(k)
        calls = [g[at : at + self._most] for g in groups.values() for at in range(0, len(g), self._most)]
        return sorted(calls, key=lambda g: sum(a.nbytes for a in rows[g[0]].values()), reverse=True)

    def _results(
        self, numbers: Sequence[int], rows: Sequence[Mapping[str, Array]], first: int, where: str
    ) -> list[list[Array]]:
        """The results of rows by one call; of each row alone if that fails, to tell which of them the model refuses."""
        if len(numbers) > 1:
            try:
                return self._called([rows[k] for k in numbers])
            except Cancelled:
                raise
            except AnyshapeError:
                pass
        results = []
        for k in numbers:
            try:
                results += self._called([rows[k]])
            except Cancelled:
                raise
            except AnyshapeError as e:
                raise RowError(first + k, where, str(e)) from e
        return results

    def _called(self, rows: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        outputs = self._call(joined(self._layout, rows))
        return [
            [a if axis is None else np.squeeze(a, axis) for a, axis in zip(results, self._squeezed)]
            for results in parted(self._layout, outputs, [1] * len(rows))
        ]
