"""Schemas of torch from the signatures of ops.

In: the variants of an op. Out: its arguments, in order, and the text of its schema; or why torch cannot have it.

A tensor is `Tensor`, an optional one `Tensor?`, a variadic one `Tensor[]`. A parameter is a number, a text, a list or a dtype; an integer
that the dyn variant takes as an operand is a `SymInt`, so that it may be a size. What has no default literal in the spec, but may be left
out, may be None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anyshape.dtypes import CHAR
from anyshape.graph.opdef import InputDef, OpDef, ParamDef

KINDS = {
    "bool": "bool", "int": "int", "axis": "int", "float": "float", "number": "float", "str": "str", "dtype": "ScalarType",
    "ints": "int[]", "axes": "int[]", "floats": "float[]", "strs": "str[]",
}  # fmt: skip
"""The type in a schema for each kind of parameter"""
SIZES = ("SymInt", "SymInt[]")
"""Types of integers that may be sizes, if the dyn variant has them as operands: of one, and of several"""
LITERALS = ("bool", "int", "float", "str", "SymInt")
"""Types whose defaults a schema can say"""


@dataclass(frozen=True)
class Argument:
    """One argument of an operator. `type`: that in the schema, without its `?`."""

    name: str
    type: str
    required: bool = True
    default: bool | int | float | str | None = None
    """the default of an argument that is not required; None: it may be None"""
    by_name: bool = False
    """whether it is passed by name only"""
    preset: Any = field(default=None, kw_only=True)
    """what None stands for: the default of the spec, also where a schema cannot say it"""

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
        return self.type in SIZES

    def text(self, with_default: bool) -> str:
        shown = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{self.type}{'?' if self.optional else ''} {self.name}{f'={shown}' if with_default else ''}"


SEEDS, NEEDED = Argument("seeds", "Tensor[]"), Argument("needed", "bool[]")
"""What the operator of a gradient takes before the arguments of the call: a seed for each float result, and which tensors are asked for"""


@dataclass(frozen=True)
class Variants:
    """One op: its static variant, or the only one, and its dyn variant."""

    static: OpDef
    dyn: OpDef | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The inputs, then the parameters."""
        operands = {p.name for p in self.dyn.operands} if self.dyn else frozenset()
        inputs = [_input(i) for i in self.static.inputs]
        params = [_param(p, p.name in operands) for p in self.static.params]
        return (*inputs, *_named(params, any(not a.required for a in inputs)))

    @property
    def refusal(self) -> str | None:
        """Why torch cannot have the op; None if it can."""
        dtypes = {i.name: i.dtype for i in self.static.inputs} | {o.name: o.dtype for o in self.static.outputs}
        texts = [name for name, dtype in dtypes.items() if dtype == CHAR]
        return f"{texts[0]} is of strings, which torch has no tensors of ({self.static.source})" if texts else None


def variants_of(ops: Mapping[str, OpDef]) -> dict[str, Variants]:
    """The ops of a package by their plain names."""
    names = dict.fromkeys(op.name for op in ops.values())
    return {n: Variants(ops[n]) if n in ops else Variants(ops[f"static.{n}"], ops[f"dyn.{n}"]) for n in names}


def gradient_name(op: Variants) -> str:
    """The name of the operator of an op's gradient."""
    return f"{op.static.name}__gradient"


def _input(i: InputDef) -> Argument:
    if i.variadic:
        return Argument(i.name, "Tensor[]")
    return Argument(i.name, "Tensor", not i.optional)


def _param(p: ParamDef, operand: bool) -> Argument:
    type = SIZES[p.is_vector] if operand and p.is_size else KINDS.get(p.kind, "str")
    preset = tuple(p.default) if isinstance(p.default, (list, tuple)) else p.default
    return Argument(p.name, type, p.required, p.default if type in LITERALS else None, preset=preset)


def _named(params: Sequence[Argument], after_default: bool) -> Iterator[Argument]:
    """The parameters; from the first one on that is required, and stands behind a default, they are passed by name only."""
    by_name = False
    for p in params:
        by_name = by_name or (p.required and after_default)
        after_default = after_default or not p.required
        yield replace(p, by_name=by_name)


def completed(arguments: Sequence[Argument], passed: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call in order, with those that torch leaves out, as they are the defaults."""
    return [
        passed[k] if k < len(passed) and not a.by_name else named.get(a.name, a.default)
        for k, a in enumerate(arguments)
    ]


def as_passed(arguments: Sequence[Argument], values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call by position, and those by name."""
    pairs = list(zip(arguments, values, strict=True))
    return [v for a, v in pairs if not a.by_name], {a.name: v for a, v in pairs if a.by_name}


def schema_text(arguments: Sequence[Argument], results: str) -> str:
    """The schema without the operator's name. Torch demands a default of all that follows one, unless it is passed by name: what stands
    before a tensor that is required has none either, and is passed as None."""
    last = max((k for k, a in enumerate(arguments) if a.required and not a.by_name), default=-1)
    texts = [a.text(not a.required and k > last) for k, a in enumerate(arguments)]
    first = next((k for k, a in enumerate(arguments) if a.by_name), len(texts))
    named = ["*", *texts[first:]] if texts[first:] else []
    return f"({', '.join([*texts[:first], *named])}) -> {results}"


def results_text(op: OpDef) -> str:
    """The results in the schema of an op."""
    types = ["Tensor[]" if o.variadic else "Tensor" for o in op.outputs]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"
