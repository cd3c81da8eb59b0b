"""The calls of an op that a library has kernels for: element types, ranks, inputs that are present, values of parameters.

In: an op, what a user chose of these, and the element types that callers of the library have. Out: calls, each of which becomes an
exported function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from anyshape.dtypes import CHAR, is_dtype_name, parse_dtype
from anyshape.errors import AnyshapeError, ArgumentError
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


def unexportable(op: OpDef) -> str | None:
    """Why an op cannot be exported, whatever the call is; None if it can."""
    if op.structure is not None or op.control is not None:
        return "it is of control flow or lists, which an exported function has no memory for"
    dtypes = {i.name: i.dtype for i in op.inputs} | {o.name: o.dtype for o in op.outputs}
    if texts := [name for name, dtype in dtypes.items() if dtype == CHAR]:
        return f"{texts[0]} is of strings, which an exported function has no tensors of"
    if op.is_random:
        return "it draws random numbers without a seed, and an exported function keeps no state; use an op with a seed"
    return None


def demand_choice(ops: Sequence[OpDef], choice: Choice) -> None:
    """Raises ArgumentError for a choice of parameters that no op has, and for the types of one call of several ops; DtypeError for the name
    of no element type."""
    for name in choice.dtypes:
        parse_dtype(name)
    known = {p.name for op in ops for p in op.attributes}
    if wrong := sorted(set(choice.params) - known):
        raise ArgumentError(
            f"no op of {', '.join(op.full_name for op in ops)} has a parameter {', '.join(wrong)}; they have "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    if choice.types and len(ops) > 1:
        raise ArgumentError("--input says the types of one op's call; export other ops apart")


def calls_of(op: OpDef, choice: Choice, elements: Collection[str]) -> list[OpCall]:
    """The calls of an op that can be exported; `elements`: the element types that callers have. Integers that are operands are of any
    values, and as many as there may be dims. Raises ArgumentError where no call is left, or too many are."""
    calls = []
    for params in _products(op, choice):
        for types in _said(op, choice, params) if choice.types else _types(op, choice, params, elements):
            calls.append(OpCall(op, types, params))
            if len(calls) > MOST_CALLS:
                raise ArgumentError(
                    f"{op.full_name}: there are more than {MOST_CALLS} calls of ranks {choice.ranks[0]} to {choice.ranks[1]}; say fewer "
                    "--ranks, or the types of one call by --input"
                )
    return calls


def _said(op: OpDef, choice: Choice, params: Mapping[str, Any]) -> list[dict[str, str]]:
    """The types that a user said, in the order of the op; where they are of any rank, of each rank that the op takes. Raises what the op
    raises if it takes none of these ranks."""
    places = {n: k for k, n in enumerate([*(i.name for i in op.inputs), *(p.name for p in op.operands)])}

    def place(name: str) -> tuple[int, int]:
        row, _, number = name.rpartition(".")
        return places.get(row or name, len(places)), int(number) if row and number.isdecimal() else 0

    types = {n: choice.types[n] for n in sorted(choice.types, key=place)}
    if not any(ANY_RANK in text for text in types.values()):
        return [types]
    taken, refusal = list[dict[str, str]](), None
    for rank in range(choice.ranks[0], choice.ranks[1] + 1):
        ranked = of_rank(types, rank)
        try:
            of_op(op, ranked, params)
        except AnyshapeError as e:
            refusal = e
        else:
            taken.append(ranked)
    if refusal is not None and not taken:
        raise refusal
    return taken


def _products(op: OpDef, choice: Choice) -> Iterator[dict[str, Any]]:
    names = [p.name for p in op.params if p.name in choice.params and not (p.operand and p.is_size)]
    for values in itertools.product(*(choice.params[n] for n in names)):
        yield dict(zip(names, values))


def allowed_types(op: OpDef, i: InputDef, elements: Collection[str]) -> list[str]:
    """The element types of an input that callers have."""
    names = [i.dtype] if is_dtype_name(i.dtype) else op.dtypes.get(i.dtype, ())
    return [n for n in names if n in elements]


def dtype_choices(op: OpDef, chosen: Sequence[str], elements: Collection[str]) -> Iterator[dict[str, str]]:
    """The element types of an op's variables: those chosen, where it allows any of them."""
    variables = {i.dtype: allowed_types(op, i, elements) for i in op.inputs if not is_dtype_name(i.dtype)}
    options = [
        [n for n in allowed if n in chosen] or [next((n for n in USUAL if n in allowed), allowed[0])]
        for allowed in variables.values()
    ]
    for names in itertools.product(*options):
        yield dict(zip(variables, names))


def _types(
    op: OpDef, choice: Choice, params: Mapping[str, Any], elements: Collection[str]
) -> Iterator[Mapping[str, str]]:
    """The types of all calls of the ranks chosen that the op takes. Raises ArgumentError if it takes none."""
    for dtypes in dtype_choices(op, choice.dtypes, elements):
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

    @cached_property
    def operands(self) -> list[InputDef | ParamDef]:
        """The inputs, then the operands that sizes may stand for."""
        return [*self.op.inputs, *(p for p in self.op.operands if p.is_size)]

    def types(self, k: int, chosen: dict[str, str]) -> Iterator[Mapping[str, str]]:
        if k == len(self.operands):
            if self.has_ranks(chosen):
                yield chosen
            return
        for more in self.alternatives(self.operands[k]):
            types = chosen | more
            if self.accepts(types | self.undecided(k + 1)):
                yield from self.types(k + 1, types)

    def dtype(self, i: InputDef) -> str:
        return self.dtypes.get(i.dtype, i.dtype)

    def alternatives(self, i: InputDef | ParamDef) -> Iterator[dict[str, str]]:
        """The types of an operand: of each rank, of each number of tensors if it is a row of them; none, if it may be absent."""
        if _may_be_absent(i):
            yield {}
        counts = range(self.ranks[0], self.ranks[1] + 1)
        if isinstance(i, ParamDef):
            yield from ({i.name: f"i64[{n}]"} for n in counts) if i.is_vector else [{i.name: "i64[]"}]
            return
        for rank in counts:
            for count in range(1, MOST_ITEMS + 1 if i.variadic else 2):
                names = [f"{i.name}.{n}" for n in range(count)] if i.variadic else [i.name]
                yield {n: f"{self.dtype(i)}[{', '.join(_dims(n, rank))}]" for n in names}

    def undecided(self, first: int) -> dict[str, str]:
        """Types of unknown rank for the operands from the first on that a call needs."""
        return dict(self._undecided(i) for i in self.operands[first:] if not _may_be_absent(i))

    def _undecided(self, i: InputDef | ParamDef) -> tuple[str, str]:
        if isinstance(i, ParamDef):
            return i.name, "i64[?]" if i.is_vector else "i64[]"
        return f"{i.name}.0" if i.variadic else i.name, self.dtype(i) + ANY_RANK

    def accepts(self, types: Mapping[str, str]) -> bool:
        return self._tried(lambda: of_op(self.op, types, self.params))

    def has_ranks(self, types: Mapping[str, str]) -> bool:
        return self._tried(lambda: interface(of_op(self.op, types, self.params), "op"))

    def _tried(self, attempt: Callable[[], Any]) -> bool:
        try:
            attempt()
        except AnyshapeError as e:
            self.reason = str(e)
            return False
        return True


def _may_be_absent(i: InputDef | ParamDef) -> bool:
    return not i.required and i.default is None if isinstance(i, ParamDef) else i.optional


def _dims(name: str, rank: int) -> list[str]:
    return [f"{name.replace('.', '_')}_{k}" for k in range(rank)]
