"""Draws random calls of one op, and builds them as graph nodes: on numbers and on symbols, static and dyn."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from operator import itemgetter
from typing import Any, TypeVar, cast

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dims import Dim, bounds, symbol
from anyshape.dtypes import ALL, NARROW, DType, accum, is_dtype_name, parse_dtype
from anyshape.equations.builder import Equation, Run
from anyshape.errors import ShapeError
from anyshape.expansion.composition import body
from anyshape.graph.call import call_node
from anyshape.graph.function import topological
from anyshape.graph.infer import equations_of, flat, tensors_of
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value, constant
from anyshape.properties import BrokenReference, Case, Property
from anyshape.rules import Vec
from anyshape.types import TensorType
from anyshape_testing.draws import MOST_ELEMENTS, SEEDS, Choosing, HypothesisDraw, choosing
from anyshape_testing.profile import LONG
from anyshape_testing.values import RISING, STYLES, contents

Array = NDArray[Any]
T = TypeVar("T")
OUT_OF_RANGE = "an index out of range in the body"
"""The reason why a call of a composed op is rejected whose elements are wrong indices for an op in its body"""
MOST_STEPPED = 120
"""The most elements of operands and results of a procedure: the interpreter executes its steps one by one, in Python."""
MOST_ITEMS = 8
"""The most items of a parameter, and so of axes where a parameter has one item for each."""
COMMON = ("f32", "f64", "i32", "i64", "bool")
"""Half of all draws of a dtype are among these, where the op allows any of them."""


@dataclass(frozen=True)
class Recipe:
    """All that a call is built from: shapes and parameters, dtypes of the op's variables, and seed and style of contents."""

    case: Case
    dtypes: Mapping[str, str]
    seed: int
    style: str


@dataclass(frozen=True, repr=False)
class Call:
    """Arrays of the inputs by name (None: absent, a list for a variadic one) and params by name (None: default)."""

    property: Property
    inputs: Mapping[str, Any]
    params: Mapping[str, Any]
    recipe: Recipe | None = None
    _known: dict[str, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cached(self, what: str, of: object, compute: Callable[[], T]) -> T:
        """Caches a result of `compute` under a name, for the last `of` only."""
        if self._known.get(what, (None, None))[0] is not of:
            self._known[what] = (of, compute())
        return cast(T, self._known[what][1])

    @cached_property
    def identity(self) -> Hashable:
        """A key of dtypes, shapes, elements and parameters: equal for equal calls."""
        hashed = blake2b(repr(sorted(self.params.items())).encode(), digest_size=16)
        for name, v in self.inputs.items():
            arrays = [] if v is None else v if isinstance(v, list) else [v]
            hashed.update(f"{name} {len(arrays)}".encode())
            for a in arrays:
                hashed.update(f"{a.dtype} {a.shape}".encode())
                hashed.update(np.ascontiguousarray(a).tobytes())
        return tuple(sorted(self.dtypes.items(), key=itemgetter(0))), hashed.digest()

    def __repr__(self) -> str:
        return f"{self.property.op}({self.recipe})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Prints the call for the test library, which by default prints every field."""
        printer.text(repr(self))

    @builtins.property
    def op(self) -> OpDef:
        """The static variant, or the only one."""
        return variants(self.property.op)[0]

    @builtins.property
    def dtypes(self) -> dict[str, DType]:
        """The dtype of each dtype variable, as drawn."""
        return {} if self.recipe is None else {v: parse_dtype(d) for v, d in self.recipe.dtypes.items()}

    def flat_inputs(self) -> list[Array]:
        return [a for v in self.inputs.values() if v is not None for a in (v if isinstance(v, list) else [v])]

    def values(self, make: Any) -> list[Any]:
        """Makes the operands of a call; `make(array, name)` makes each."""
        operands: list[Any] = []
        for name, v in self.inputs.items():
            if isinstance(v, list):
                operands.append([make(a, f"{name}{k}") for k, a in enumerate(v)])
            else:
                operands.append(None if v is None else make(v, name))
        return operands


def variants(op: str) -> tuple[OpDef, ...]:
    """Looks up the variants of an op: static and dyn, or its only one."""
    ops = all_ops()
    return (ops[op],) if op in ops else (ops[f"static.{op}"], ops[f"dyn.{op}"])


def random_call(
    p: Property, draw: Any, dtypes: Mapping[str, str] | None = None, choices: Any = None, case: Case | None = None
) -> Call:
    """Draws shapes and params (unless it has a `case`), dtypes (except those in `dtypes`) and contents. Too many elements, or an index into
    nothing, reject a draw."""
    choose = choosing(draw)
    case = case or random_case(p, choices or HypothesisDraw(choose))
    op = variants(p.op)[0]
    chosen = {v: (dtypes or {}).get(v) or _dtype(choose, allowed) for v, allowed in op.dtypes.items()}
    return build_call(p, Recipe(_as_wide(op, case, chosen, choose), chosen, draw(SEEDS), choose.among(STYLES)))


def random_case(p: Property, choices: Any) -> Case:
    """Draws shapes and params, and draws them again with smaller sizes where they are too large, or have no element for an index."""
    said = ""
    for again in (lambda: None, *getattr(choices, "again", ())):
        again()
        try:
            case = p.case(choices)
        except ShapeError as e:  # an axis of nothing
            said = str(e)
            continue
        if any(n < 0 for s in input_shapes(case) for n in s):
            said = "a negative size"
        elif any(isinstance(v, (tuple, Vec)) and len(v) > MOST_ITEMS for v in case.params.values()):
            said = f"a parameter of more than {MOST_ITEMS} items"
        elif _elements(case) > (MOST_STEPPED if p.stepped else MOST_ELEMENTS):
            said = f"more than {MOST_ELEMENTS} elements"
        elif _has_no_index(case):
            said = "an index into nothing"
        else:
            return case
    raise UnsatisfiedAssumption(said)


def _as_wide(op: OpDef, case: Case, chosen: Mapping[str, str], choose: Choosing) -> Case:
    """Replaces a parameter that says as which dtype bits are read by a dtype of as many bits, which few random ones have. Vectors of
    parameters become tuples, as callers pass them."""
    read = [of for name, *of in op.computed.values() if name == "bitcast"]
    fitting = {
        param.removeprefix("param:"): [
            t for t in (*ALL, *NARROW) if t.code_bits == parse_dtype(chosen.get(var, var)).code_bits
        ]
        for var, param in read
    }
    params = {name: tuple(v) if isinstance(v, Vec) else v for name, v in case.params.items()}
    return replace(case, params={**params, **{p: choose.among(known) for p, known in fitting.items()}})


def computed(allowed: Sequence[str]) -> Sequence[str]:
    """Selects the dtypes that references compute with; all, where there is none."""
    return [c for c in allowed if not parse_dtype(c).is_narrow] or allowed


def has_integers(op: OpDef) -> bool:
    """Whether a parameter is an integer, or an operand allows integers only."""
    return any(p.kind in ("int", "ints") for p in op.params) or any(is_of_indices(op, i.name) for i in op.inputs)


def is_of_indices(op: OpDef, name: str) -> bool:
    (i,) = (i for i in op.inputs if i.name == name)
    return not i.variadic and set(op.dtypes.get(i.dtype, (i.dtype,))) <= {"i64", "i32"}


def narrow_dtypes(op: OpDef) -> list[dict[str, str]]:
    """Lists dtypes of the op's variables for each narrow float that one may be: a variable that does not allow it has its first dtype.
    Without `LONG` only the first float, f16, is listed."""
    choices = []
    for narrow in dict.fromkeys(d for allowed in op.dtypes.values() for d in computed(allowed)):
        dtype = parse_dtype(narrow)
        if dtype.is_float and accum(dtype) is not dtype:
            choices.append({v: narrow if narrow in allowed else allowed[0] for v, allowed in op.dtypes.items()})
    return choices if LONG else choices[:1]


def _dtype(choose: Choosing, allowed: Sequence[str]) -> str:
    """Draws a dtype that the op allows and references compute with; a common one, unless `LONG`."""
    allowed = computed(allowed)
    common = [c for c in allowed if c in COMMON] or allowed
    return choose.among(allowed if LONG and choose.among((False, True)) else common)


def build_call(p: Property, r: Recipe) -> Call:
    """Builds the call of a recipe."""
    op = variants(p.op)[0]
    dtypes = {v: parse_dtype(d) for v, d in r.dtypes.items()}
    return Call(p, _arrays(op, r.case, dtypes, r.seed, r.style), dict(r.case.params), r)


def _arrays(op: OpDef, case: Case, dtypes: Mapping[str, DType], seed: int, style: str) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    most = _largest([input_dtype(i, dtypes) for i in op.inputs if case.shapes[i.name] is not None])
    for k, i in enumerate(op.inputs):
        shape, dtype = case.shapes[i.name], input_dtype(i, dtypes)
        within = case.ranges.get(i.name)
        if shape is None:
            arrays[i.name] = None
        elif i.variadic:
            arrays[i.name] = [contents(tuple(s), dtype, seed + k + 7 * j, style) for j, s in enumerate(shape)]
        else:
            own, ends = RISING if i.name in case.rising else style, case.ends.get(i.name, (None, None))
            arrays[i.name] = contents(tuple(shape), dtype, seed + k, own, within, ends, most)
    return arrays


MANY = 2**13


def _largest(operands: Sequence[DType]) -> float:
    """Returns the largest number for operands of a call: for one operand of floats, a number of which the sum of MANY fits in the dtype;
    for several, one of which the product of all of them, and of one once more, fits in the dtype of each."""
    ends = [float(finfo(d.numpy).max) for d in operands if d.is_float]
    return min(ends) ** (1 / (len(ends) + 1)) if len(ends) > 1 else min(ends, default=0.0) / MANY


def input_dtype(i: InputDef, dtypes: Mapping[str, DType]) -> DType:
    return parse_dtype(i.dtype) if is_dtype_name(i.dtype) else dtypes[i.dtype]


def _elements(case: Case) -> int:
    return sum(map(math.prod, input_shapes(case)))


def input_shapes(case: Case) -> Iterator[Sequence[int]]:
    """Lists the shapes of all inputs that are present."""
    return (s for v in case.shapes.values() if v is not None for s in (v if isinstance(v, list) else [v]))


def _has_no_index(case: Case) -> bool:
    ranges = [(case.shapes[name], low, high) for name, (low, high) in case.ranges.items()]
    return any(shape is not None and math.prod(shape) > 0 and low >= high for shape, low, high in ranges)


def typed(array: Array, name: str) -> Value:
    """Makes an operand of this array's type, with unknown contents."""
    from anyshape.dtypes import from_numpy

    return Value(TensorType(from_numpy(array.dtype), array.shape), name)


def static_node(c: Call) -> Node:
    """Builds the call of the static variant on operands of known shapes. Raises what inference raises."""
    return call_node(c.op, c.values(typed), c.params)


def valid_node(c: Call) -> Node:
    """Builds the call of the static variant, which is cached; a draw that the rule refuses is rejected."""
    node = c.cached("node", c.op, lambda: _valid_node(c))
    if isinstance(node, str):
        raise UnsatisfiedAssumption(node)
    return node


def _valid_node(c: Call) -> Node | str:
    """Builds the call of the static variant, or says why it is rejected."""
    try:
        node = static_node(c)
    except ShapeError as e:
        return str(e)
    elements = sum(bounds(v.type.count())[1] or 0 for v in node.outputs)
    stepped = elements + sum(a.size for a in c.flat_inputs())
    if elements > 4 * MOST_ELEMENTS:
        return f"results of more than {4 * MOST_ELEMENTS} elements"
    if stepped > MOST_STEPPED and _is_procedure(node):
        return f"a procedure of more than {MOST_STEPPED} elements"
    return node if _holds_its_indices(c, node) else OUT_OF_RANGE


def _is_procedure(node: Node) -> bool:
    return node.op.composition is None and any(isinstance(q.form, Run) for q in equations_below(node))


def _holds_its_indices(c: Call, node: Node) -> bool:
    """Whether the reference of a composed op accepts these elements: its signature has no ranges for indices, so draws may leave them."""
    from anyshape_testing.execution import run_reference

    if node.op.composition is None:
        return True
    try:
        run_reference(c, node)
    except BrokenReference as e:
        if isinstance(e.__cause__, IndexError):
            return False
        raise
    return True


@dataclass
class Symbols:
    """Operands whose dims are symbols, and the numbers they stand for."""

    numbers: dict[Dim, int]
    prefix: str = "n"

    def __call__(self, array: Array, name: str) -> Value:
        from anyshape.dtypes import from_numpy

        dims = []
        for k, n in enumerate(array.shape):
            s = symbol(f"{self.prefix}_{name}_{k}")
            self.numbers[s] = n
            dims.append(s)
        return Value(TensorType(from_numpy(array.dtype), tuple(dims)), name)


def operand_arrays(c: Call) -> dict[str, Array]:
    """Makes arrays of the parameters that the dyn variant takes as operands."""
    dyn = variants(c.property.op)[1]
    arrays = {}
    for p in dyn.operands:
        value = c.params.get(p.name)
        if value is not None:
            kind = np.bool_ if p.kind == "bool" else np.float32 if p.kind in ("float", "floats") else np.int64
            arrays[p.name] = np.asarray(value, kind)
    return arrays


def dyn_node(c: Call, make: Any = typed, operand: Any = None) -> Node:
    """Builds the call of the dyn variant; its operands are constants unless `operand(array, name)` makes them."""
    dyn = variants(c.property.op)[1]
    operands = {
        name: operand(a, name) if operand is not None else constant(a, name) for name, a in operand_arrays(c).items()
    }
    return call_node(dyn, c.values(make), {**c.params, **operands})


def equations(node: Node) -> tuple[Any, list[Any], list[Any]]:
    """States the node's equations over fresh tensors; returns them, and the input and output tensors, flattened."""
    ins, outs = tensors_of(node)
    return equations_of(node, ins, outs), flat(ins), flat(outs)


def equations_below(node: Node) -> list[Equation]:
    """Collects the equations of a call, with those in bodies of composed ops and of loops."""
    collected: list[Equation] = []
    waiting = [node]
    while waiting:
        n = waiting.pop()
        if n.op.composition is not None and n.bound is not None:
            waiting += topological(body(n))
        elif n.op.kernel is not None and n.bound is not None:
            collected += equations(n)[0].equations
        waiting += [inner for region in n.regions for inner in region.nodes]
    return collected


def resolved(node: Node) -> dict[str, Any]:
    """Converts params as the rule resolved them to what a reference takes."""
    values = {}
    for d in node.op.params:
        v = getattr(node.bound, d.name)
        values[d.name] = v.numpy if isinstance(v, DType) else tuple(v) if isinstance(v, Vec) else v
    return values


def flat_values(values: list[Any]) -> list[Value]:
    return [v for x in values if x is not None for v in (x if isinstance(x, list) else [x])]


class ByName:
    """A factory of operands that returns the same Value for the same name."""

    def __init__(self, params: list[Value]) -> None:
        self.params = {p.name: p for p in params}

    def __call__(self, array: Any, name: str) -> Value:
        return self.params[name]
