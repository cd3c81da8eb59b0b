"""A function as the one kernel of a custom op of its own, beside the calls of ops.

In: a function, and the name by which nodes call it. Out: a `KernelCall`, with an input for each parameter and no attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from anyshape.graph.function import Function
from anyshape.graph.opdef import InputDef, ParamDef


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionOp:
    """The op that nodes call: inputs of fixed element types."""

    name: str
    inputs: tuple[InputDef, ...]
    variant: str = ""
    attributes: tuple[ParamDef, ...] = ()
    operands: tuple[ParamDef, ...] = ()
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return self.name


@dataclass(frozen=True)
class FunctionCall:
    """The only call of such an op."""

    name: str
    function: Function
    params: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def op(self) -> FunctionOp:
        return FunctionOp(
            name=self.name, inputs=tuple(InputDef(p.name, str(p.type.dtype)) for p in self.function.params)
        )

    @property
    def described(self) -> str:
        """`subgraph_1f(x: f32[n, 4])`."""
        return f"{self.name}({', '.join(f'{p.name}: {p.type}' for p in self.function.params)})"
