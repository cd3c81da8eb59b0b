"""Type inference of one call: dtypes, shapes, checks and symbolic contents, all from the generated relation and kernel.

The relation runs on the dims of the operands as they are, numbers or symbols. What it cannot decide becomes checks of the node;
where it needs a value that only the run tells, it is not bound, and the reason is kept (`Inference.undetermined`). Of axes every
position is tried, and what all agree in is known; of anything else the output has an unknown rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshape.dims import Dim, Facts, NestedTooDeep, anonymous_names, is_reworded, last_fresh
from anyshape.dtypes import DType, lowest
from anyshape.equations import Equations, Tensor
from anyshape.equations.accumulation import accumulate
from anyshape.equations.exact_floats import PRECISIONS, ExactFloat
from anyshape.equations.expr import const
from anyshape.equations.interpret import interpret
from anyshape.equations.refusing import Refused
from anyshape.equations.undefined import define_the_rest
from anyshape.equations.unknown import NOTHING, UnknownElement
from anyshape.errors import AnyshapeError, ShapeError, TypeRelationError, UnsupportedError
from anyshape.graph.counts import known_sizes
from anyshape.graph.dtype_rules import output_dtypes, solve_dtypes
from anyshape.graph.inference_cache import InferenceCache, question_of
from anyshape.graph.opdef import OpDef
from anyshape.graph.relating import ranks_anyway, related, shapes_of, shapes_without_floats
from anyshape.graph.sequences import spread, walk_of
from anyshape.graph.sizes import remember
from anyshape.graph.value import SIZES, SMALL, Contents, Floats, Node, Value, element_symbol
from anyshape.rules import Bound, Check, Elements, Rule, Undetermined
from anyshape.types import TensorType
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.graph.function import Function


@dataclass(frozen=True, slots=True)
class Inference:
    """What is known of a call's outputs, flattened; `bound` is None where that needs values that only the run tells."""

    types: tuple[TensorType, ...]
    contents: tuple[Contents | None, ...]
    checks: tuple[Check, ...]
    bound: Bound | None
    _: KW_ONLY
    dtypes: Mapping[str, DType]
    undetermined: str = ""
    regions: tuple[Function, ...] = ()
    floats: tuple[Floats | None, ...] = ()
    """the elements of float outputs that sizes decide; none are said where there are none"""


class Restated(Exception):
    """A call that is another one, of the same results: a loop whose first iteration has a form of its own."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


_MEMORY = InferenceCache[Inference]()


def infer(node: Node, facts: Facts | None = None) -> Inference:
    """Infers the types of a call. Raises TypeRelationError (ShapeError, DtypeError), with the node's source, where operands cannot fit."""
    op = node.op
    if op.control is not None:
        return op.control.infer(node, facts)
    if op.structure is not None:
        return op.structure.infer(node)
    dtypes = solve_dtypes(node)
    kinds = output_dtypes(node, dtypes)
    rule = _rule(node, facts)
    try:
        shapes = shapes_of(node)
        bound = related(node, rule, shapes)
        if rule.data_dependent:
            counted_before = _counted_before(node, bound, rule, kinds, dtypes)
            if counted_before:
                rule = _rule(node, facts)
                rule.sizes = counted_before
                bound = related(node, rule, shapes)
    except Undetermined as e:
        each = _for_each_output(node, kinds, e)
        known = ranks_anyway(node, facts) or shapes_without_floats(node, facts) or [None] * len(each)
        unknown = tuple(TensorType(k, s) for k, s in zip(each, known, strict=True))
        return Inference(unknown, (None,) * len(unknown), tuple(rule.checks), None, dtypes=dtypes, undetermined=str(e))
    types = _types(node, bound, kinds)
    if node.count not in (None, len(types)):
        raise ShapeError(f"{op.full_name}: it has {counted(len(types), 'output')}, but the call asks for {node.count}")
    if node.sequence is not None and op.sequence is not None:
        walk, checks = walk_of(node.sequence, shapes[op.inputs[op.sequence].name], rule.checks)
        vars(bound).update(walk=walk, unbacked=dict.fromkeys(walk.data_dependent, (0, 0)))
        return Inference(tuple(types), (None,) * len(types), checks, bound, dtypes=dtypes)
    contents = _contents(node, bound, types, dtypes)
    floats = _floats(node, bound, types, dtypes)
    return Inference(tuple(types), contents, tuple(rule.checks), bound, dtypes=dtypes, floats=floats)


def _rule(node: Node, facts: Facts | None) -> Rule:
    """A run of the call's rule, on a copy of the facts: a node learns for itself."""
    return Rule(node.op.full_name, node.source, facts.under(True) if facts is not None else None)


def _types(node: Node, bound: Bound, kinds: Mapping[str, DType]) -> list[TensorType]:
    types: list[TensorType] = []
    for o in node.op.outputs:
        shape = bound.outputs[o.name]
        types += [TensorType(kinds[o.name], tuple(s)) for s in (shape if o.variadic else [shape])]
    return types


def _counted_before(
    node: Node, bound: Bound, rule: Rule, kinds: Mapping[str, DType], dtypes: Mapping[str, DType]
) -> dict[str, Dim]:
    """The sizes of the call that an earlier one counted, by name."""
    if node.sequence is not None:
        return {}
    tensors: dict[Value, Tensor] = {}
    equations = []
    if node.op.kernel is not None:
        trial = _trial(node, bound, _types(node, bound, kinds), dtypes)
        equations = equations_of(trial, *tensors_of(trial, tensors)).equations
    return known_sizes(node, rule, equations, tensors)


def _trial(node: Node, bound: Bound, types: Sequence[TensorType], dtypes: Mapping[str, DType]) -> Node:
    """A copy of the call that has its outputs."""
    trial = Node(node.op, node.inputs, node.attrs, node.source)
    trial.bound, trial.dtypes = bound, dtypes
    trial.outputs = tuple(Value(t) for t in types)
    return trial


def _inferred(node: Node, facts: Facts | None) -> Inference:
    """`infer` with a cache, for calls without checks (they mention the call's source) and without new symbols (each call has its own)."""
    question = question_of(node, facts)
    if question is None:
        return infer(node, facts)
    inference = _MEMORY.get(question)
    if inference is None:
        symbols = last_fresh()
        inference = infer(node, facts)
        if inference.bound is not None and not inference.checks and last_fresh() == symbols:
            _MEMORY.put(question, inference)
    return inference


def _for_each_output(node: Node, kinds: Mapping[str, DType], why: Undetermined) -> list[DType]:
    """The dtypes of outputs of which nothing else is known; of a variadic one as many as the call says there are."""
    dtypes: list[DType] = []
    for o in node.op.outputs:
        if not o.variadic:
            dtypes.append(kinds[o.name])
            continue
        if node.count is None:
            raise UnsupportedError(
                f"{node.op.full_name}: the number of outputs depends on a value that is not known: {why}; "
                "pass it, as in outputs=3"
            )
        dtypes += [kinds[o.name]] * (node.count - (len(node.op.outputs) - 1))
    return dtypes


def build(
    op: OpDef,
    inputs: Sequence[Value | None],
    attrs: Mapping[str, Any],
    source: str = "",
    facts: Facts | None = None,
    regions: tuple[Function, ...] = (),
    count: int | None = None,
) -> Node:
    """A node with its outputs typed, of another op where the call is stated as one. `inputs` are flattened; raises what `infer` raises.

    `count` says how many outputs there are, for an op of which only the run tells; any other number is a ShapeError then.
    """
    node = untyped(op, inputs, attrs, source, regions)
    node.count = count
    try:
        with anonymous_names() as printed:
            result = _inferred(node, facts)
    except Restated as e:
        return e.node
    except (RecursionError, NestedTooDeep):
        raise UnsupportedError(
            f"{op.full_name}{f' (at {source})' if source else ''}: the dims of its operands are nested too deeply to be compared; "
            "constrain the inputs, as by dims={'n': (1, None)} for sizes that are never 0"
        ) from None
    except AnyshapeError as e:
        from anyshape.graph.origins import reworded

        said = reworded(str(e), node, frozenset() if is_reworded() else printed)
        if source and source not in said:
            said = f"{said} (at {source})"
        error = e if said == str(e) else type(e)(said)
        if isinstance(error, TypeRelationError):
            error.call = node
        if error is e:
            raise
        raise error from e
    node.checks, node.bound, node.dtypes = result.checks, result.bound, result.dtypes
    node.regions = result.regions
    node.outputs = tuple(
        Value(t, node=node, index=k, contents=c)
        for k, (t, c) in enumerate(zip(result.types, result.contents, strict=True))
    )
    for v, floats in zip(node.outputs, result.floats):
        v.floats = floats
    for v in node.outputs:
        remember(v)
    return node


def untyped(
    op: OpDef,
    inputs: Sequence[Value | None],
    attrs: Mapping[str, Any],
    source: str = "",
    regions: tuple[Function, ...] = (),
) -> Node:
    """A node of which nothing is inferred yet."""
    if op.sequence is not None:
        inputs = spread(inputs, op.sequence)
    return Node(op, tuple(inputs), {p.name: attrs[p.name] for p in op.attributes if p.name in attrs}, source, regions)


def rebuild(node: Node, inputs: Sequence[Value | None], facts: Facts | None = None) -> Node:
    """A call of the node's op with its attributes on other operands."""
    return build(node.op, inputs, node.attrs, node.source, facts, node.regions, node.count)


def equations_of(node: Node, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Equations:
    """The kernel's equations of this call, over tensors given by name; absent optionals read as their constants."""
    assert node.op.kernel is not None and node.bound is not None
    eqs = Equations(node.op.full_name, inputs, outputs, node.dtypes)
    node.op.kernel(eqs, node.bound)
    define_the_rest(eqs)
    accumulate(eqs)
    return eqs


def tensors_of(node: Node, known: MutableMapping[Value, Tensor] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors for the inputs and outputs of a node, by name (tuples for variadic ones).

    `known` gives tensors of values and takes those made here, so that the equations of several nodes connect.
    """
    tensors = {} if known is None else known

    def tensor(name: str, v: Value) -> Tensor:
        if v not in tensors:
            assert v.type.shape is not None
            tensors[v] = Tensor(name, v.type.dtype, v.type.shape)
        return tensors[v]

    ins: dict[str, Any] = {}
    grouped = node.grouped_inputs()
    for i in node.op.inputs:
        value = grouped[i.name]
        if i.sequence and node.sequence is not None:
            walk = node.bound.walk
            each = tensor(f"{i.name}_", walk.value)
            known_of = walk.elements
            ins[i.name] = elements = Elements(each, each, known_of.index, known_of.count, known_of.own)
            elements.sums = known_of.sums
        elif isinstance(value, tuple):
            ins[i.name] = tuple(tensor(f"{i.name}{k}", v) for k, v in enumerate(value))
        elif value is None:
            dtype = absent_dtype(node, i.dtype)
            ins[i.name] = Tensor(i.name, dtype, (), const(i.absent(dtype), dtype))
        else:
            ins[i.name] = tensor(i.name, value)
    outs: dict[str, Any] = {}
    at = 0
    for o in node.op.outputs:
        if o.variadic:
            n = len(node.outputs) - (len(node.op.outputs) - 1)
            outs[o.name] = tuple(tensor(f"{o.name}{k}", v) for k, v in enumerate(node.outputs[at : at + n]))
            at += n
        else:
            outs[o.name] = tensor(o.name, node.outputs[at])
            at += 1
    return ins, outs


def absent_dtype(node: Node, dtype: str) -> DType:
    """The dtype of an absent input; any that its variable allows where no operand decides it, as only the input's constant is read."""
    from anyshape.dtypes import parse_dtype

    known: DType | None = node.dtypes.get(dtype)
    return known if known is not None else parse_dtype(next(iter(node.op.dtypes.get(dtype, ())), dtype))


def flat(tensors: Mapping[str, Any]) -> list[Tensor]:
    """The tensors as one flat list; for a list operand, the tensor that stands for any element."""
    groups = [(v.any,) if isinstance(v, Elements) else v if isinstance(v, tuple) else (v,) for v in tensors.values()]
    return [t for group in groups for t in group]


def _contents(
    node: Node, bound: Bound, types: Sequence[TensorType], dtypes: Mapping[str, DType]
) -> tuple[Contents | None, ...]:
    """Symbolic values: the kernel (or view) evaluated on what is known of the inputs' elements. Vectors and single numbers are what shapes
    are made of, so elements of those that nothing is known of get names; of tables, only what is known is followed."""
    nothing: tuple[Contents | None, ...] = (None,) * len(types)
    named = all(len(t.shape or ()) <= 1 for t in types)

    def known_of(v: Value) -> Sequence[Any] | None:
        return _numbers(v) if named else v.contents

    if not all(_carries_contents(t) for t in types):
        return nothing
    op = node.op
    if op.view:
        source = node.grouped_inputs()[next(iter(op.view.values()))]
        if not isinstance(source, Value):
            return nothing
        return (source.elements() if named else source.contents,)
    if op.kernel is None:
        return nothing
    trial = _trial(node, bound, types, dtypes)
    return tuple(
        None if elements is None else _named(elements, v)
        for elements, v in zip(_interpreted(trial, known_of), trial.outputs)
    )


def _interpreted(trial: Node, known_of: Callable[[Value], Any]) -> list[list[Any] | None]:
    """The elements of each output by the kernel on what is known of the inputs, NOTHING among them; None where that needs more."""
    ins, outs = tensors_of(trial)
    eqs = equations_of(trial, ins, outs)
    arrays = {}
    for t, v in zip(flat(ins), trial.data_inputs, strict=True):
        known = known_of(v) if v is not None else None
        if known is not None:
            a = np.empty(len(known), object)
            a[:] = known
            arrays[t] = a.reshape([n for n in t.shape if isinstance(n, int)])
    try:
        results = interpret(eqs.equations, arrays, symbolic=True)
    except UnknownElement:
        return [None] * len(trial.outputs)
    return [results[t].reshape(-1).tolist() if t in results else None for t in flat(outs)]


def _floats(
    node: Node, bound: Bound, types: Sequence[TensorType], dtypes: Mapping[str, DType]
) -> tuple[Floats | None, ...]:
    """The elements of small float outputs that sizes decide; none where no operand has elements that are sizes."""
    small = [t.dtype in PRECISIONS and len(t.shape or ()) <= 1 and _is_small(t) for t in types]
    if not all(small) or not any(v is not None and _has_sizes(v) for v in node.data_inputs):
        return ()
    if node.op.view:
        source = node.grouped_inputs()[next(iter(node.op.view.values()))]
        return (source.floats,) if isinstance(source, Value) else ()
    if node.op.kernel is None:
        return ()
    try:
        interpreted = _interpreted(_trial(node, bound, types, dtypes), _numbers)
    except Refused:  # by elements: a run says so
        return ()
    return tuple(None if elements is None else _exact(elements) for elements in interpreted)


def _has_sizes(v: Value) -> bool:
    return v.floats is not None or any(isinstance(e, Dim) for e in v.contents or ())


def _exact(elements: Sequence[Any]) -> Floats | None:
    known = tuple(e if isinstance(e, (float, ExactFloat)) else None for e in elements)
    return known if any(isinstance(e, ExactFloat) for e in known) else None


def _numbers(v: Value) -> Sequence[Any] | None:
    """The elements of a value, symbols or not; of floats those of a small constant, and those that sizes decide."""
    if v.floats is not None:
        return [NOTHING if e is None else e for e in v.floats]
    a = v.constant
    if v.type.dtype.is_float and a is not None and a.ndim <= 1 and a.size <= SMALL:
        return tuple(a.astype(np.float64).reshape(-1).tolist())
    return v.elements()


def _named(elements: list[Any], result: Value) -> Contents | None:
    """Elements of which nothing is known get symbols; None if there are no others."""
    if not any(e is not NOTHING for e in elements) and elements:
        return None
    return tuple(
        element_symbol(result, k) if e is NOTHING else _wrapped(e, result.type.dtype) for k, e in enumerate(elements)
    )


def _wrapped(e: Any, dtype: DType) -> Any:
    """A number as the dtype holds it: integers wrap. A dim stays as it is; one that does not fit is an error when it is known."""
    if isinstance(e, int) and not isinstance(e, bool) and dtype.is_integer:
        low = int(lowest(dtype))
        return (e - low) % (1 << dtype.bits) + low
    return e


def _carries_contents(t: TensorType) -> bool:
    return (t.dtype in SIZES or t.dtype.is_bool) and _is_small(t)


def _is_small(t: TensorType) -> bool:
    if not t.is_static:
        return False
    n = t.count()
    return isinstance(n, int) and n <= SMALL
