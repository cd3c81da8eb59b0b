"""What a server needs of a model, and a compiled one as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from anyshape.batching import BatchDim, Unbatched, batch_dim
from anyshape.dims import Dim, Size
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.serving.datatypes import DATATYPES
from anyshape.serving.request import Array
from anyshape.types import TensorType
from anyshape.vm.executable.executable import Executable


class Model(Protocol):
    """A model with a name. `batching` says whether requests can be joined; `inputs` and `outputs` are types by name."""

    @property
    def name(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, TensorType]: ...
    @property
    def outputs(self) -> Mapping[str, TensorType]: ...
    @property
    def batching(self) -> BatchDim | Unbatched: ...

    def run(self, inputs: Mapping[str, Array], deadline: float) -> list[Array]:
        """The outputs in order. Raises DeadlineExceeded once that many seconds are over, and AnyshapeError for inputs that do not fit."""


class CompiledModel:
    """An executable as a model of a server."""

    platform = "anyshape"

    def __init__(self, name: str, executable: Executable) -> None:
        self.name, self.executable = name, executable
        self.inputs = dict(zip(executable.input_names, executable.input_types))
        self.outputs = dict(zip(executable.output_names, executable.output_types))
        for side in (self.inputs, self.outputs):
            for n, t in side.items():
                if not isinstance(t, TensorType) or t.dtype not in DATATYPES:
                    raise UnsupportedError(f"{name}: {n} is {t}, which the protocol has no datatype for")
        self.batching = batch_dim(executable.function)

    def run(self, inputs: Mapping[str, Array], deadline: float) -> list[Array]:
        return self.executable.run(inputs, deadline=deadline)


def model_names(words: Sequence[str]) -> dict[str, str]:
    """Splits models NAME=FILE or FILE, which is called as its stem. Raises ArgumentError for a name twice."""
    files: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals:
            name, path = Path(word).stem, word
        if not name or not path or "/" in name:
            raise ArgumentError(f"a model must be FILE or NAME=FILE, got {word!r}")
        if name in files:
            raise ArgumentError(f"two models have the name {name}; write NAME={path}")
        files[name] = path
    return files


def described(types: Mapping[str, TensorType]) -> list[dict[str, Any]]:
    """Metadata of inputs or outputs: a size that is not a number is -1, and `parameters` has all of them in words."""
    return [
        {
            "name": name,
            "datatype": DATATYPES[t.dtype],
            "shape": [n if isinstance(n, int) else -1 for n in t.shape or (-1,)] if t.shape != () else [],
            "parameters": {"dims": ", ".join(map(_spelled, t.shape)) if t.shape is not None else "..."},
        }
        for name, t in types.items()
    ]


def _spelled(n: Size) -> str:
    return "?" if isinstance(n, Dim) and n.is_symbol and n.name.startswith("?") else str(n)


def metadata(model: Model) -> dict[str, Any]:
    """Metadata of a model."""
    b = model.batching
    said = {"batch_dim": str(b)} if isinstance(b, BatchDim) else {"unbatched": str(b)}
    return {
        "name": model.name,
        "versions": ["1"],
        "platform": model.platform,
        "inputs": described(model.inputs),
        "outputs": described(model.outputs),
        "parameters": said,
    }
