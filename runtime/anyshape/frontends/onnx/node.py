"""What a generated ONNX mapping sees of the node it maps: inputs, attributes, and a way to say no.

A mapping is `reshape_14(n: OnnxNode) -> Sequence[Value]`. It reads the node through this protocol alone, so that generated
code does not depend on protobuf, and a test can hand it anything with these few methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from anyshape.dtypes import DType
from anyshape.graph.value import Value


class OnnxNode(Protocol):
    """One ONNX node, as a mapping may look at it."""

    @property
    def source(self) -> str:
        """Where the node stands in the model, for messages: Reshape 'encoder/Reshape_3'."""

    @property
    def output_count(self) -> int:
        """How many outputs the node has, up to the last one that somebody named."""

    def input(self, k: int) -> Value | None:
        """Input k; None where it is left out."""

    def inputs(self, start: int = 0) -> list[Value]:
        """All inputs from `start` on, for variadic ones."""

    def has_attr(self, name: str) -> bool:
        """Whether the node itself says the attribute."""

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute as a Python value (int, float, str, tuple of them, array); `default` where it is left out, and
        ONNX's own default where that is None too."""

    def dtype(self, name: str, default: DType | None = None) -> DType | None:
        """An attribute that names an element type by ONNX's number for it."""

    def refuse(self, reason: str) -> NoReturn:
        """Say that this use of the operator is not supported, and why."""


Mapping = Callable[[OnnxNode], Sequence[Value]]
"""From a node to its outputs in order"""
