"""Answers of commands: a text for people, and the same as data, which `--json` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyshape.vm import Executable

MOST_VALUES = 1000
"""Arrays of more elements are described without them"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command has to say, and its exit code."""

    text: str
    data: Mapping[str, Any]
    code: int = 0


def as_json(data: Mapping[str, Any]) -> str:
    """Spells data as JSON, which has no infinities and no NaN: those are texts."""
    return json.dumps(_plain(data), indent=1, ensure_ascii=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)


def described(a: Any, elements: bool = True) -> Any:
    """Describes a result or an argument: dtype, shape and, of a small array, elements; a list member by member; None for nothing."""
    if a is None or isinstance(a, list):
        return None if a is None else [described(e, elements) for e in a]
    described_array: dict[str, Any] = {"dtype": str(a.dtype), "shape": list(a.shape)}
    if elements and a.size <= MOST_VALUES:
        described_array["values"] = _values(a)
    return described_array


def _values(a: NDArray[Any]) -> Any:
    """Lists elements; those of dtypes that Python has no numbers for, as floats."""
    return a.tolist() if a.dtype.kind in "biufUSO" else a.astype(np.float64).tolist()


def signature(exe: Executable) -> dict[str, Any]:
    """Describes the inputs and outputs of a compiled model by their types, in which each size has the name that its graph prints."""
    from anyshape.graph.text import size_names, spelled_type

    f = exe.function
    shown = size_names(f)
    return {
        "inputs": {p.name: spelled_type(p.type, shown) for p in f.params},
        "outputs": {n: spelled_type(v.type, shown) for n, v in zip(f.result_names, f.results)},
    }


def report(exe: Executable) -> dict[str, Any]:
    """Lists counts, reasons and seconds of a compile."""
    known = {name: value for name, value in vars(exe.report).items() if name != "finished" and name[0] != "_"}
    return {**known, "variants": [str(v) for v in exe.report.variants]}
