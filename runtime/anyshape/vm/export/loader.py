"""JavaScript module of an exported model for wasm32: the tables that its functions work with, and `loader.mjs` behind them.

In: what callers see of each model of the object. Out: the text of `NAME.mjs`, which browsers and Node import. It calls the functions for
tensors of DLPack, whose layout, dtypes and statuses are those that the exported code and the C header have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshape.vm.export.interface import Interface, InterfaceTensor
from anyshape.vm.export.status_code import BYTES, LENGTH, NEEDED, TEXT, Code
from anyshape.vm.export.tensor_code import StructLayout, code_of, has_codes
from anyshape.vm.run.arena import ALIGNMENT

_TEXT = Path(__file__).with_name("loader.mjs")
_OUTPUT = 4
"""The byte of a status at which the number of the output is"""


@dataclass(frozen=True)
class RankedModel:
    """A model of several ranks, of which one is chosen by the rank of input number `ranked`; `ranks`: the name of the model of each."""

    name: str
    ranked: int
    ranks: Mapping[int, str]


def loader(
    name: str, models: Sequence[Interface], has_weights: bool, pointer_bytes: int, by_rank: RankedModel | None = None
) -> str:
    """The text of the module; empty where no model has functions for tensors."""
    tables = {m.name: _table(m) for m in models if has_codes(m)}
    if not tables:
        return ""
    described: dict[str, Any] = dict(tables)
    if by_rank is not None:
        ranks = {str(r): tables[model] for r, model in by_rank.ranks.items()}
        described[by_rank.name] = {"ranked": by_rank.ranked, "ranks": ranks}
    offsets, size = StructLayout(pointer_bytes).offsets()
    weights = _url(f"{name}.weights") if has_weights else "null"
    status = {"bytes": BYTES, "output": _OUTPUT, "needed": 8 * NEEDED, "length": 8 * LENGTH, "text": TEXT}
    constants = {
        "STATUSES": [f"ANYSHAPE_{code.name}" for code in Code],
        "STATUS": status,
        "TENSOR": {"bytes": size, **offsets},
        "ALIGNMENT": ALIGNMENT,
        "MODELS": described,
    }
    lines = [
        f"// {name}, exported by anyshape for wasm32. Do not edit.",
        *(f"const {constant} = {json.dumps(value)};" for constant, value in constants.items()),
        f"const FILES = {{module: {_url(f'{name}.wasm')}, weights: {weights}}};",
    ]
    return "\n".join([*lines, _TEXT.read_text()])


def _url(file: str) -> str:
    """The expression of a file beside the module, in the form that bundlers look for."""
    return f'new URL("./{file}", import.meta.url)'


def _table(m: Interface) -> dict[str, list[dict[str, Any]]]:
    return {"inputs": [_tensor(t) for t in m.inputs], "outputs": [_tensor(t) for t in m.outputs]}


def _tensor(t: InterfaceTensor) -> dict[str, Any]:
    code = code_of(t.dtype)
    assert code is not None
    return {"name": t.name, "dtype": t.dtype, "rank": t.rank, "code": code[0], "bits": code[1]}
