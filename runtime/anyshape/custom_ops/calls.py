"""The calls of an op that a library has kernels for: element types, ranks, inputs that are present, values of parameters.

In: an op, and what a user chose of these. Out: calls, each of which becomes an exported function; or why onnxruntime cannot have the op.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from anyshape.custom_ops.c_interface import ELEMENT_TYPES
from anyshape.dtypes import CHAR, is_dtype_name
from anyshape.errors import AnyshapeError, ArgumentError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.opdef import InputDef, OpDef, ParamDef
from anyshape.vm.export.interface import interface
from anyshape.vm.export.op_function import ANY_RANK, of_op, of_rank

USUAL = ("f32", "i64")
"""The element types that a variable of an op has if it allows them and a user says none; else it has the first that it allows."""
RANKS = (0, 4)
"""The ranks of inputs that are tried if a user says none"""
MOST_ITEMS = 4
"""The most tensors of an input that is a row of them, unless a user says their types"""
MOST_CALLS = 256
"""The most calls of one op that are found by trying ranks: more are a mistake, or should be said one by one"""


@dataclass(frozen=True)
class Choice:
    """What a user chose: values of parameters, each of which makes a choice of attributes, element types, and ranks of inputs; or the types
    of the inputs of one call."""

    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dtypes: Sequence[str] = ()
    ranks: tuple[int, int] = RANKS
    types: Mapping[str, str] = field(default_factory=dict)


class NodeOp(Protocol):
    """What a node of onnxruntime calls: an op of a spec, or a function."""

    @property
    def name(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def full_name(self) -> str: ...
    @property
    def inputs(self) -> tuple[InputDef, ...]: ...
    @property
    def attributes(self) -> tuple[ParamDef, ...]: ...
    @property
    def operands(self) -> tuple[ParamDef, ...]:
        """Parameters that follow the inputs."""

    @property
    def dtypes(self) -> Mapping[str, tuple[str, ...]]:
        """The element types that each variable among the inputs may stand for."""


class KernelCall(Protocol):
    """A call that a library has a kernel for."""

    @property
    def op(self) -> NodeOp: ...
    @property
    def params(self) -> Mapping[str, Any]:
        """The values of attributes."""

    @property
    def described(self) -> str: ...
    @property
    def function(self) -> Function:
        """What is exported."""


@dataclass(frozen=True)
class OpCall:
    """One call: the types of the inputs that are present, as `f32[x_0, x_1]`, in the order of the op, and values of parameters."""

    op: OpDef
    types: Mapping[str, str]
    params: Mapping[str, Any]

    @property
    def described(self) -> str:
        """`softmax(x: f32[x_0, x_1], axis=-1)`."""
        parts = [*(f"{n}: {t}" for n, t in self.types.items()), *(f"{n}={v}" for n, v in self.params.items())]
        return f"{self.op.full_name}({', '.join(parts)})"

    @cached_property
    def function(self) -> Function:
        """Raises what the op raises for such a call."""
        return of_op(self.op, self.types, self.params)


def refusal(op: OpDef) -> str | None:
    """Why onnxruntime cannot have an op, whatever the call is; None if it can."""
    if op.structure is not None or op.control is not None:
        return "it is of control flow or lists, which an exported function has no memory for"
    dtypes = {i.name: i.dtype for i in op.inputs} | {o.name: o.dtype for o in op.outputs}
    if texts := [name for name, dtype in dtypes.items() if dtype == CHAR]:
        return f"{texts[0]} is of strings, which an exported function has no tensors of"
    if op.is_random:
        return "it draws random numbers without a seed, and an exported function keeps no state; use an op with a seed"
    if strange := [i.name for i in op.inputs if not _allowed(op, i)]:
        return f"{strange[0]} is of elements that are packed, or that onnxruntime has not"
    return None


def demand_comparable(call: KernelCall) -> None:
    """Raises UnsupportedError for a value of a parameter that a kernel cannot compare with the attribute of a node."""
    for p in call.op.attributes:
        if p.kind == "strs" and call.params.get(p.name) is not None:
            raise UnsupportedError(
                f"{call.op.full_name}: {p.name} is a list of texts, which a kernel cannot compare with an attribute; leave it out"
            )


def calls_of(op: OpDef, choice: Choice) -> list[OpCall]:
    """The calls of an op. Raises UnsupportedError for an op that onnxruntime cannot have, and ArgumentError where no call is left, or
    too many are."""
    if (why := refusal(op)) is not None:
        raise UnsupportedError(f"{op.full_name} cannot be a custom op of onnxruntime: {why} ({op.source})")
    calls = []
    for params in _products(op, choice):
        for types in _said(op, choice) if choice.types else _types(op, choice, params):
            calls.append(OpCall(op, types, params))
            if len(calls) > MOST_CALLS:
                raise ArgumentError(
                    f"{op.full_name}: there are more than {MOST_CALLS} calls of ranks {choice.ranks[0]} to {choice.ranks[1]}; say fewer "
                    "--ranks, or the types of one call by --input"
                )
    return calls


def _said(op: OpDef, choice: Choice) -> list[dict[str, str]]:
    """The types that a user said, of each rank where they are of any, in the order of the op."""
    places = {n: k for k, n in enumerate([*(i.name for i in op.inputs), *(p.name for p in op.operands)])}

    def place(name: str) -> tuple[int, int]:
        row, _, number = name.rpartition(".")
        return places.get(row or name, len(places)), int(number) if row and number.isdecimal() else 0

    types = {n: choice.types[n] for n in sorted(choice.types, key=place)}
    if not any(ANY_RANK in text for text in types.values()):
        return [types]
    return [of_rank(types, r) for r in range(choice.ranks[0], choice.ranks[1] + 1)]


def _products(op: OpDef, choice: Choice) -> Iterator[dict[str, Any]]:
    chosen = {p.name: choice.params[p.name] for p in op.attributes if p.name in choice.params}
    for values in itertools.product(*chosen.values()):
        yield dict(zip(chosen, values))


def _allowed(op: OpDef, i: InputDef) -> list[str]:
    """The element types of an input that onnxruntime has too."""
    names = [i.dtype] if is_dtype_name(i.dtype) else op.dtypes.get(i.dtype, ())
    return [n for n in names if n in ELEMENT_TYPES]


def dtype_choices(op: OpDef, chosen: Sequence[str]) -> Iterator[dict[str, str]]:
    """The element types of an op's variables: those chosen, where it allows any of them."""
    variables = dict.fromkeys(i.dtype for i in op.inputs if not is_dtype_name(i.dtype))
    options = []
    for v in variables:
        allowed = [n for n in op.dtypes[v] if n in ELEMENT_TYPES]
        options.append([n for n in allowed if n in chosen] or [next((n for n in USUAL if n in allowed), allowed[0])])
    for names in itertools.product(*options):
        yield dict(zip(variables, names))


def _types(op: OpDef, choice: Choice, params: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """The types of all calls of the ranks chosen that the op takes. Raises ArgumentError if it takes none."""
    if op.operands:
        raise ArgumentError(
            f"{op.full_name}: --input must say the types of its inputs and of its operands {', '.join(p.name for p in op.operands)}"
        )
    for dtypes in dtype_choices(op, choice.dtypes):
        search = _RankSearch(op, dtypes, choice.ranks, params)
        calls = [*search.types(0, {})]
        if not calls:
            raise ArgumentError(
                f"{op.full_name}: no call with inputs of ranks {choice.ranks[0]} to {choice.ranks[1]}: {search.reason}; say other "
                "--ranks, or the types of the inputs by --input"
            )
        yield from calls


@dataclass
class _RankSearch:
    """Ranks are tried from the first input to the last, with unknown ones for those that follow, and left when the op refuses them."""

    op: OpDef
    dtypes: Mapping[str, str]
    ranks: tuple[int, int]
    params: Mapping[str, Any]
    reason: str = "it takes none"
    """What was refused last"""

    def types(self, k: int, chosen: dict[str, str]) -> Iterator[Mapping[str, str]]:
        if k == len(self.op.inputs):
            if self.has_ranks(chosen):
                yield chosen
            return
        for more in self.alternatives(self.op.inputs[k]):
            types = chosen | more
            if self.accepts(types | self.undecided(k + 1)):
                yield from self.types(k + 1, types)

    def dtype(self, i: InputDef) -> str:
        return self.dtypes.get(i.dtype, i.dtype)

    def alternatives(self, i: InputDef) -> Iterator[dict[str, str]]:
        """The types of an input: of each rank, of each number of tensors if it is a row of them; none, if it may be absent."""
        if i.optional:
            yield {}
        for rank in range(self.ranks[0], self.ranks[1] + 1):
            for count in range(1, MOST_ITEMS + 1 if i.variadic else 2):
                names = [f"{i.name}.{n}" for n in range(count)] if i.variadic else [i.name]
                yield {n: f"{self.dtype(i)}[{', '.join(_dims(n, rank))}]" for n in names}

    def undecided(self, first: int) -> dict[str, str]:
        """Types of unknown rank for the inputs from the first on that a call needs."""
        rest = [i for i in self.op.inputs[first:] if not i.optional]
        return {f"{i.name}.0" if i.variadic else i.name: self.dtype(i) + ANY_RANK for i in rest}

    def accepts(self, types: Mapping[str, str]) -> bool:
        return self._tried(lambda: of_op(self.op, types, self.params))

    def has_ranks(self, types: Mapping[str, str]) -> bool:
        return self._tried(lambda: interface(of_op(self.op, types, self.params), "op"))

    def _tried(self, attempt: Any) -> bool:
        try:
            attempt()
        except AnyshapeError as e:
            self.reason = str(e)
            return False
        return True


def _dims(name: str, rank: int) -> list[str]:
    return [f"{name.replace('.', '_')}_{k}" for k in range(rank)]
