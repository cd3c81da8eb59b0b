"""Schemas of torch from the signatures of ops.

In: the variants of an op. Out: its arguments, in order, and the text of its schema; or why torch cannot have it.

A tensor is `Tensor`, an optional one `Tensor?`, a variadic one `Tensor[]`. A parameter is a number, a text, a list or a dtype; an integer that
the dyn variant takes as an operand is a `SymInt`, so that it may be a size. What has no default literal in the spec, but may be left out, may be
None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dtypes import CHAR
from anyshape.graph.opdef import InputDef, OpDef, ParamDef

KINDS = {
    "bool": "bool", "int": "int", "axis": "int", "float": "float", "number": "float", "str": "str", "dtype": "ScalarType",
    "ints": "int[]", "axes": "int[]", "floats": "float[]", "strs": "str[]",
}  # fmt: skip
"""The type in a schema for each kind of parameter"""
SIZES = {"int": "SymInt", "ints": "SymInt[]"}
"""Those that may be sizes, if the dyn variant has them as operands"""
LITERALS = ("bool", "int", "float", "str", "SymInt")
"""Types whose defaults a schema can say"""


@dataclass(frozen=True)
class Argument:
    """One argument of an operator. `type`: that in the schema, without its `?`."""

    name: str
    type: str
    required: bool = True
    default: bool | int | float | str | None = None
    """of one that is not required; None: it may be None"""

    @property
    def optional(self) -> bool:
        return not self.required and self.default is None

    @property
    def is_tensor(self) -> bool:
        return self.type == "Tensor"

    @property
    def is_tensors(self) -> bool:
        return self.type == "Tensor[]"

    @property
    def is_size(self) -> bool:
        """Whether it is an integer, or are integers, that may be sizes."""
        return self.type in SIZES.values()

    def text(self, with_default: bool) -> str:
        shown = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{self.type}{'?' if self.optional else ''} {self.name}{f'={shown}' if with_default else ''}"


@dataclass(frozen=True)
class Variants:
    """One op: its static variant, or the only one, and its dyn variant."""

    static: OpDef
    dyn: OpDef | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The inputs, then the parameters."""
        operands = {p.name for p in self.dyn.operands} if self.dyn else frozenset()
        return (*map(_input, self.static.inputs), *(_param(p, p.name in operands) for p in self.static.params))

    @property
    def refusal(self) -> str | None:
        """Why torch cannot have the op; None if it can."""
        for i in (*self.static.inputs, *self.static.outputs):
            if i.dtype == CHAR:
                return f"{i.name} is of strings, which torch has no tensors of ({self.static.source})"
        return None


def _input(i: InputDef) -> Argument:
    if i.variadic:
        return Argument(i.name, "Tensor[]")
    return Argument(i.name, "Tensor", not i.optional)


def _param(p: ParamDef, operand: bool) -> Argument:
    kind = KINDS.get(p.kind, "str")
    type = SIZES.get(p.kind, kind) if operand else kind
    return Argument(p.name, type, p.required, p.default if type in LITERALS else None)


def completed(arguments: Sequence[Argument], passed: Sequence[Any]) -> list[Any]:
    """The arguments of a call, those too that torch leaves out, as they are the defaults."""
    return [*passed, *(a.default for a in arguments[len(passed) :])]


def schema_text(arguments: Sequence[Argument], results: str) -> str:
    """The schema without the operator's name. Torch demands a default of all that follows one: what stands before an argument without a
    default has none either, and is passed as None."""
    last = max((k for k, a in enumerate(arguments) if a.required), default=-1)
    return f"({', '.join(a.text(k > last) for k, a in enumerate(arguments))}) -> {results}"


def results_text(op: OpDef) -> str:
    """The results in the schema of an op."""
    types = ["Tensor[]" if o.variadic else "Tensor" for o in op.outputs]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"
