"""Functions that programs call: declared by what they take and give, defined later, so that they can call themselves and each other.

    function_ref(; callee=f)                   a function as a value
    call(values…, function)                    what a function gives for these; which one may be known only at run time

A call has types from the declaration alone. What the declaration says of the results is ensured where the function is defined, and what it
says of the parameters is checked by each call, as for an executable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from anyshape.dims import Dim, Size, definitions, eq, free_symbols, fresh, substitute
from anyshape.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.infer import Inference
from anyshape.graph.joining import joined_list
from anyshape.graph.loops import no_relation
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.tuples import Form
from anyshape.graph.value import Node, Value
from anyshape.rules import Bound
from anyshape.types import DIFFERS, FunctionType, ListType, TensorType, function_type, list_of
from anyshape.wording import counted

_NUMBERS = count()


class Callee:
    """A declared function. `function` is None until it is defined."""

    def __init__(self, name: str, params: Mapping[str, TensorType], results: Sequence[TensorType]) -> None:
        self.name, self.names = name, tuple(params)
        self.type = function_type(tuple(params.values()), results)
        self.function: Function | None = None
        self.number = next(_NUMBERS)
        self.forms: tuple[Form, Form] = ((None,) * len(params), (None,) * len(self.type.results))
        """The parameters and results that are members of tuples"""
        _check_signature(self)

    def like(self) -> Callee:
        """A function declared as this one is, which nothing defines yet."""
        copy = Callee(self.name, dict(zip(self.names, self.type.params, strict=True)), self.type.results)
        copy.forms = self.forms
        return copy

    def __lt__(self, other: Callee) -> bool:
        """The order of definition, as attributes are sorted."""
        return self.number < other.number

    def __repr__(self) -> str:
        return self.name

    def defined(self) -> Function:
        if self.function is None:
            raise ArgumentError(f"the function {self.name} is called, but not defined")
        return self.function


def _check_signature(c: Callee) -> None:
    """Checks that ranks are known, and that a dim of a result follows from the parameters or is a name of its own."""
    known: set[Dim] = set(definitions((t, n) for t in c.type.params for n in _dims(t)))
    for t in (*c.type.params, *c.type.results):
        if not isinstance(t, ListType) and t.shape is None:
            raise UnsupportedError(
                f"the function {c.name} declares {t}: ranks of its parameters and results must be known; "
                f"what may have any rank is passed as the element of a list, list[{t}]"
            )
    for t in c.type.params:
        unknown = {s for n in _dims(t) for s in free_symbols(n)} - known - {DIFFERS}
        if unknown:
            raise ArgumentError(
                f"the function {c.name} declares {t}: no dim of a parameter defines {', '.join(map(str, unknown))}"
            )
    for t in c.type.results:
        for n in _dims(t):
            if not free_symbols(n) <= known | {DIFFERS} and (
                isinstance(t, ListType) or not (isinstance(n, Dim) and n.is_symbol)
            ):
                raise ArgumentError(
                    f"the function {c.name} declares {t}: {n} must follow from dims of the parameters, or be a name"
                )


def _dims(t: TensorType) -> tuple[Size, ...]:
    return t.tensor.shape or () if isinstance(t, ListType) else t.shape or ()


def callees_of(functions: Sequence[Function]) -> dict[Callee, int]:
    """Every function that may be called, with its number: in order of appearance, from the outside in."""
    numbers: dict[Callee, int] = {}
    waiting = list(functions)
    while waiting:
        for c in _mentioned(waiting.pop(0)):
            if c not in numbers:
                numbers[c] = len(numbers)
                waiting += [c.function] if c.function is not None else []
    return numbers


def _mentioned(f: Function) -> Iterator[Callee]:
    for node in f.all_nodes():
        if node.op is REF:
            yield node.attrs["callee"]


def referenced(function: Value) -> Callee | None:
    """Returns the function that a value is, if that is in sight."""
    node = function.node
    return node.attrs["callee"] if node is not None and node.op is REF else None


def calls_in_sight(node: Node) -> bool:
    """Whether a node is a call of which the function, its last input, is known."""
    function = node.inputs[-1] if node.op is CALL else None
    return function is not None and referenced(function) is not None


class _Ref:
    def infer(self, node: Node) -> Inference:
        callee = node.attrs["callee"]
        assert isinstance(callee, Callee)
        return Inference((callee.type,), (None,), (), Bound({}, {"unbacked": {}}), dtypes={})

    def simplify(self, node: Node) -> Sequence[Value] | None:
        return None


class _CallRules:
    def infer(self, node: Node) -> Inference:
        function = node.inputs[-1]
        assert function is not None
        t, known = function.type, referenced(function)
        if not isinstance(t, FunctionType):
            raise DtypeError(f"call: what is called must be a function, got {t}")
        name = known.name if known is not None else "call"
        values: dict[Dim, Size] = {}
        arguments = [v.type for v in node.inputs[:-1] if v is not None]
        if len(arguments) != len(t.params):
            raise ArgumentError(f"{name} takes {counted(len(t.params), 'argument')}, got {len(arguments)}")
        for k, (expected, got) in enumerate(zip(t.params, arguments, strict=True)):
            bind_argument(f"{name}: argument {k}", expected, got, values)
        return _results(t, values)

    def simplify(self, node: Node) -> Sequence[Value] | None:
        return None


def bind_argument(where: str, expected: TensorType, got: TensorType, values: dict[Dim, Size]) -> None:
    """Symbols of a parameter that its argument's dims are. Raises DtypeError and ShapeError where it cannot fit."""
    if isinstance(expected, ListType):
        if joined_list(expected, got, where) != expected:
            raise ShapeError(f"{where} must be {expected}, got {got}")
        return
    if isinstance(expected, FunctionType) or isinstance(got, ListType | FunctionType):
        if expected != got:
            raise DtypeError(f"{where} must be {expected}, got {got}")
        return
    if expected.dtype is not got.dtype:
        raise DtypeError(f"{where} must be {expected}, got {got}")
    if got.shape is None or expected.shape is None or len(got.shape) != len(expected.shape):
        raise ShapeError(f"{where} must be {expected}, got {got}")
    for s, d in definitions(zip(got.shape, expected.shape), values).items():
        values[s] = d.of(d.place, values)
    for axis, (n, m) in enumerate(zip(expected.shape, got.shape)):
        if eq(substitute(n, values) if isinstance(n, Dim) else n, m) is False:
            raise ShapeError(f"{where} must be {expected}, got {got}: dim {axis} is not {n}")


def _results(t: FunctionType, values: dict[Dim, Size]) -> Inference:
    types: list[TensorType] = []
    positions: dict[Dim, tuple[int, int]] = {}
    for k, r in enumerate(t.results):
        if isinstance(r, ListType):
            types.append(list_of(r.element.substitute(values), r.optional, r.never))
            continue
        for axis, n in enumerate(r.shape or ()):
            if isinstance(n, Dim) and n.is_symbol and n not in values:
                size = fresh("?", 0)
                values[n], positions[size] = size, (k, axis)
        types.append(r.substitute(values))
    return Inference(tuple(types), (None,) * len(types), (), Bound({}, {"unbacked": positions}), dtypes={})


REF = OpDef(
    name="function_ref",
    variant="",
    inputs=(),
    params=(ParamDef("callee", "callee"),),
    outputs=(OutputDef("function", "T"),),
    dtypes={},
    relation=no_relation,
    summary="A function as a value.",
    structure=_Ref(),
)
CALL = OpDef(
    name="call",
    variant="",
    inputs=(InputDef("values", "T", variadic=True), InputDef("function", "T")),
    params=(),
    outputs=(OutputDef("results", "T", variadic=True),),
    dtypes={},
    relation=no_relation,
    summary="What a function gives.",
    structure=_CallRules(),
)

CALL_OPS: Mapping[str, OpDef] = {op.full_name: op for op in (REF, CALL)}
