"""What `quantise` did, for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anyshape.wording import counted


@dataclass(frozen=True, kw_only=True)
class WeightReport:
    """A weight that became narrow. `operator` is what reads it now; `decodes`: whether it stays narrow in memory. Errors are relative root
    mean squares, of the weight and of what the node computes on the inputs; None if that was not measured."""

    node: str
    weight: str
    operator: str
    decodes: bool
    shape: tuple[int, ...]
    before: int
    after: int
    error: float
    output_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class KeptReport:
    """A weight that stays as it is, and why."""

    node: str
    weight: str
    bytes: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class QuantisationReport:
    """All weights, the bytes of all tensors before and after, and how far each output of the model is from before, as a share of its root
    mean square; None without inputs. `notes` is what else there is to know."""

    weights: str
    group: int | None
    symmetric: bool
    method: str
    activations: str
    narrowed: Sequence[WeightReport]
    kept: Sequence[KeptReport]
    before: int
    after: int
    outputs: Mapping[str, float] | None = None
    notes: Sequence[str] = ()

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        measured = any(w.output_error is not None for w in self.narrowed)
        if self.narrowed:
            heads = ["weight", "node", "shape", "bytes", "now", "error", *["of output"] * measured, "as"]
            yield from _table(heads, [_row(w, measured) for w in self.narrowed])
        for k in self.kept:
            yield f"kept: {k.weight} of {k.node}, {_spell_bytes(k.bytes)}: {k.reason}"
        yield f"{counted(len(self.narrowed), 'weight')} in {self._format()}, {len(self.kept)} kept"
        share = self.after / self.before if self.before else 1.0
        yield f"tensors: {_spell_bytes(self.before)} before, {_spell_bytes(self.after)} after ({share:.1%})"
        for name, error in (self.outputs or {}).items():
            yield f"output {name}: relative RMS error {error:.2g}"
        yield from self.notes

    def _format(self) -> str:
        if self.group is None:
            return self.weights
        zeros = "symmetric" if self.symmetric else "with zero points"
        data = ", activations in 8 bits" if self.activations == "int8" else ""
        return f"{self.weights} in groups of {self.group}, {zeros}, {self.method}{data}"


def _row(w: WeightReport, measured: bool) -> list[str]:
    output = ["-" if w.output_error is None else f"{w.output_error:.2g}"] * measured
    shape = "x".join(map(str, w.shape))
    return [
        w.weight,
        w.node,
        shape,
        _spell_bytes(w.before),
        _spell_bytes(w.after),
        f"{w.error:.2g}",
        *output,
        w.operator,
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lays out columns, those of numbers at the right; names longer than MOST_NAME are cut in the middle."""
    lines = [[_cut(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            c.ljust(w) if k < 3 or k == len(line) - 1 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))
        ]
        yield "  ".join(cells).rstrip()


MOST_NAME = 44
"""The longest name in a table"""


def _cut(text: str) -> str:
    return text if len(text) <= MOST_NAME else f"{text[: MOST_NAME // 2 - 1]}…{text[-MOST_NAME // 2 :]}"


def _spell_bytes(n: int) -> str:
    """Spells a number of bytes in the largest unit of which there is one."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 1000 * size else f"{n // size} {unit}"
    return f"{n} B"
