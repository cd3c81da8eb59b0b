"""The cases of ONNX's suite that are stored as files in the wheel: small models, and what torch once exported. Read when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

KINDS = ("simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class StoredCase:
    """As the suite's own case, from a folder."""

    name: str
    folder: Path
    rtol: float
    atol: float

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.folder / "model.onnx")

    @cached_property
    def data_sets(self) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        return [(_arrays(d, "input"), _arrays(d, "output")) for d in sorted(self.folder.glob("test_data_set_*"))]


def _arrays(folder: Path, side: str) -> list[np.ndarray]:
    paths = [folder / f"{side}_{k}.pb" for k in range(len(list(folder.glob(f"{side}_*.pb"))))]
    return [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(p.read_bytes())) for p in paths]


def stored_cases() -> dict[str, Any]:
    """{kind:name: case}."""
    found = [(kind, c) for kind in KINDS for c in load_model_tests(kind=kind)]
    return {f"{k}:{c.name}": StoredCase(f"{k}:{c.name}", Path(c.model_dir), c.rtol, c.atol) for k, c in found}
