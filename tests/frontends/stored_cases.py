"""The cases of ONNX's suite that are stored as files in the wheel: small models, what torch once exported, and the structures of nine
networks for images, "light" since ConstantOfShape makes their weights. Read when asked for."""

from __future__ import annotations

import math
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
    """A case of the suite, read from a folder."""

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


@dataclass(frozen=True)
class LightCase(StoredCase):
    """A network of which the wheel has the model and the output for elements that grow from 0 towards 1."""

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.folder)

    @cached_property
    def data_sets(self) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        held = {t.name for t in self.model.graph.initializer}
        shapes = [
            [d.dim_value for d in i.type.tensor_type.shape.dim] for i in self.model.graph.input if i.name not in held
        ]
        arrays = [(np.arange(math.prod(s)).reshape(s) / math.prod(s)).astype(np.float32) for s in shapes]
        path = self.folder.with_name(f"{self.folder.stem}_output_0.pb")
        return [(arrays, [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))])]


def light_cases() -> dict[str, Any]:
    root = Path(onnx.__file__).parent.parent
    cases = [c for c in load_model_tests(kind="real") if (root / (c.url or "")).is_file()]
    return {f"real:{c.name}": LightCase(f"real:{c.name}", root / c.url, c.rtol, c.atol) for c in cases}


def stored_cases() -> dict[str, Any]:
    """{kind:name: case}."""
    cases = [(kind, c) for kind in KINDS for c in load_model_tests(kind=kind)]
    stored = {f"{k}:{c.name}": StoredCase(f"{k}:{c.name}", Path(c.model_dir), c.rtol, c.atol) for k, c in cases}
    return stored | light_cases()
