"""Laws 1 to 4 of every op, from its spec alone, on random calls.

1. kernel == equation interpreter == reference
2. the relation on numbers gives the shape that comes out; of a composed op, what its body makes
3. symbolic inference with numbers substituted == inference on the numbers; what is refused is refused by a check
4. dyn == static on the same values; dyn-to-static keeps the result and only refines the type
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Cond, Dim
from anyshape.errors import ShapeError, TypeRelationError
from anyshape.expansion.composition import body
from anyshape.graph.call import call_node
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.passes import dyn_to_static
from anyshape.types import TensorType
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import dyn_node, static_node
from anyshape_testing.calls.operands import ByName, Symbols, flat_values, typed
from anyshape_testing.compare.results import has_types_of, same, same_as_reference
from anyshape_testing.compare.wording import broken, is_of, is_one, is_one_early
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.execution.native import run_native
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.process.profile import usual
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
MANY, KERNEL_DTYPES = 20, 3
"""Calls for each law from which on kernels are compiled for each dtype of an op; with fewer, as in `make test`, for one in so many of the
dtypes that random calls do not have, which the interpreter tries in law 1a all the same"""


# --- 1


def test_interpreter_is_reference(op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        node = valid_node(c)
        return same_as_reference(
            run_equations(c, node), run_reference(c, node), c, node, "interpreter against reference"
        )

    on_random_calls(op, "1a interpreter == reference", record_property, body, dtypes=1)


def test_kernel_is_interpreter(op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        node = valid_node(c)
        return same(run_native(c, static=True), run_equations(c, node), c, node, "native against interpreter")

    dtypes = 1 if usual() >= MANY else KERNEL_DTYPES
    on_random_calls(op, "1b kernel == interpreter", record_property, body, dtypes=dtypes)


# --- 2


def test_relation_gives_the_shape_that_comes_out(op: str, record_property: Any) -> None:
    def body(c: Call) -> None:
        node = valid_node(c)
        has_types_of(node, run_reference(c, node))

    on_random_calls(op, "2 relation == shape that came out", record_property, body, dtypes=1)


def test_the_body_has_the_types_of_the_rule(composed_op: str, record_property: Any) -> None:
    def check(c: Call) -> None:
        has_types_of_the_rule(valid_node(c), Symbols({}))

    on_random_calls(composed_op, "2b types of the body == types of the rule", record_property, check)


def test_the_body_has_the_types_of_the_rule_on_symbols(composed_op: str, record_property: Any) -> None:
    def check(c: Call) -> bool:
        valid_node(c)
        make = Symbols({})
        node = call_node(c.op, c.values(make), c.params)
        if node.bound is None:
            return False
        has_types_of_the_rule(node, make)
        return True

    on_random_calls(composed_op, "2c the same on symbols", record_property, check)


def has_types_of_the_rule(node: Node, make: Symbols) -> None:
    for got, want in zip(body(node), node.outputs, strict=True):
        if got.type.shape is not None:
            numbers = f" at {make.numbers}" if make.numbers else ""
            assert fits(put_in(got.type, make), put_in(want.type, make)), (
                f"the body makes {got.type}, and the rule says {want.type}{numbers}"
            )


def fits(got: TensorType, want: TensorType) -> bool:
    """Whether they are equal as far as both are known."""
    pairs = zip(got.shape or (), want.shape or ())
    same = len(got.shape or ()) == len(want.shape or ()) and all(n == m or DATA_DEPENDENT in (n, m) for n, m in pairs)
    return got.dtype is want.dtype and same


# --- 3


def test_symbols_with_numbers_put_in(op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        make = Symbols({})
        return agree(c, lambda: call_node(c.op, c.values(make), c.params), make)

    on_random_calls(op, "3a symbolic inference == numeric", record_property, body, refused=True)


def test_operand_symbols_with_numbers_put_in(dyn_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        make = Symbols({})

        def operand(array: Any, name: str) -> Value:
            """Makes an operand of known length and unknown contents."""
            v = typed(array, name)
            for s, n in zip(v.elements() or (), array.reshape(-1).tolist()):
                assert isinstance(s, Dim)
                make.numbers[s] = n
            return v

        return agree(c, lambda: dyn_node(c, make, operand), make)

    on_random_calls(dyn_op, "3b symbolic operands == numeric", record_property, body, refused=True)


def agree(c: Call, symbolic: Callable[[], Node], make: Symbols) -> bool:
    """Asserts that symbolic inference, or one of its checks, refuses what inference on numbers refuses, and that otherwise all checks hold
    and the types are equal. Returns False where symbolic inference leaves a rank open, so that there is nothing to compare."""
    numeric: Node | None
    try:
        numeric = static_node(c)
    except ShapeError as e:
        numeric, why = None, e
    try:
        node = symbolic()
    except TypeRelationError as e:
        assert numeric is None, f"valid on numbers, refused on symbols: {e}"
        assert is_reason(str(e), str(why), c), f"refused for different reasons: on numbers {why}, on symbols {e}"
        return True
    if any(v.type.shape is None for v in node.outputs):
        return False
    if node.bound is None and numeric is None:
        return False  # the refusal may be about an axis that symbols leave open
    held = [k for k in node.checks if isinstance(k.cond, Cond)]
    outcomes = [bool(dims.evaluate(k.cond, make.numbers)) for k in held]
    if numeric is None:
        assert not all(outcomes), f"refused on numbers ({why}), and no check of {node.checks} fails"
        return True
    failed = [str(k) for k, ok in zip(held, outcomes) if not ok]
    assert not failed, f"valid on numbers, and these checks fail: {failed}"
    assert len(node.outputs) == len(numeric.outputs)
    same = is_or_is_open if node.bound is None else operator.eq
    for got, want in zip(node.outputs, numeric.outputs):
        assert same(put_in(got.type, make), put_in(want.type, make)), (
            f"{got.type} at {make.numbers} against {want.type}"
        )
    return True


def is_reason(message: str, why: str, c: Call) -> bool:
    """Whether a call that is refused on numbers may be refused with this message on symbols or for a list: with the message on numbers, or
    that of an assert which contradicts the asserts before it, whichever of them the numbers break."""
    texts = (why, *broken(c.op, c.values(typed), c.params)[0])
    return any(is_one(message, s) or is_one_early(message, s) for s in texts) or any(
        is_of(r, message) for r in c.property.asserts
    )


def is_or_is_open(got: TensorType, want: TensorType) -> bool:
    """Whether the types agree as far as symbolic inference with an open axis knows them."""
    return is_or_computes(want, got)


DATA_DEPENDENT = dims.symbol("unbacked")
"""Stands for any data-dependent size"""


def put_in(t: TensorType, make: Symbols) -> TensorType:
    assert t.shape is not None
    known = set(make.numbers)
    sizes = (int(dims.evaluate(n, make.numbers)) if dims.free_symbols(n) <= known else DATA_DEPENDENT for n in t.shape)
    return TensorType(t.dtype, tuple(sizes))


# --- 4


def test_dyn_is_static(dyn_op: str, record_property: Any) -> None:
    def body(c: Call) -> None:
        node = valid_node(c)
        params = flat_values(c.values(typed))
        dyn = dyn_node(c, ByName(params))
        same_types(dyn.outputs, node.outputs, "dyn against static")
        static = dyn_to_static(Function(params, dyn.outputs))
        assert {n.op.variant for n in static.nodes} <= {"static"}, f"not static after the pass:\n{static}"
        same_types(static.results, node.outputs, "dyn made static against static")

    on_random_calls(dyn_op, "4a dyn becomes static", record_property, body)


def same_types(got: Sequence[Value], want: Sequence[Value], what: str) -> None:
    """Asserts that two calls on numbers have the same types, where only data-dependent sizes are symbols."""
    numbers = Symbols({})
    types = [[v.type if v.type.shape is None else put_in(v.type, numbers) for v in values] for values in (got, want)]
    spelled = [", ".join(str(v.type) for v in values) for values in (got, want)]
    assert len(got) == len(want) and all(map(is_or_computes, *types)), f"{what}: {spelled[0]} against {spelled[1]}"


def is_or_computes(got: TensorType, want: TensorType) -> bool:
    """Whether the types are the same, except that `got` may have a number for a data-dependent size."""
    if got.shape is None or want.shape is None or len(got.shape) != len(want.shape):
        return got == want
    sizes = tuple(DATA_DEPENDENT if w == DATA_DEPENDENT else g for g, w in zip(got.shape, want.shape))
    return TensorType(got.dtype, sizes) == want


def test_dyn_at_run_time_is_static(dyn_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        node = valid_node(c)
        try:
            got = run_native(c)
        except TypeRelationError as e:
            if "number of outputs" in str(e):
                return False
            raise
        return same(got, run_equations(c, node), c, node, "dyn against static")

    on_random_calls(dyn_op, "4b dyn == static at run time", record_property, body)
