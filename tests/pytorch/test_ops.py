"""Every op as an operator of torch, on the examples of its spec: results, `torch.library.opcheck`, gradients, refusals.

ANYSHAPE_LONG=1 checks all examples, and all dtypes that an op allows; else the first example with a result, and one other dtype of each op.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from anyshape.errors import AnyshapeError, ShapeError, UnsupportedError
from anyshape.frontends.torch.dtypes import ELEMENT_TYPES, array_of, torch_of_dtype
from anyshape.torch import ops
from anyshape.torch.schema import as_passed
from anyshape_testing.laws.catalogue import SPEAKS_OF
from anyshape_testing.laws.examples import expected
from anyshape_testing.process.profile import LONG
from tests.pytorch.op_calls import PROPERTIES, calls, finite, flat, floats_of, on_floats, run, wide

NO_GRADIENT = r"no gradient of .*\(specs/\w+\.yaml:\d+\)"
OUTSIDE = r"index .* is out of range for axis"
"""How an op refuses random floats in place of those that decide what it reads"""
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
CLASSES = [name for name in ops.OPERATORS if SPEAKS_OF["smooth_op"](PROPERTIES[name]) is None]
"""Ops with a gradient in f64"""
TORCH_DTYPES = {str(d): torch_of_dtype(d) for d in ELEMENT_TYPES}

pytestmark = pytest.mark.filterwarnings("ignore")


def held(name: str) -> list[tuple[Any, list[Any]]]:
    """The examples of an op that have results."""
    examples = [(e, args) for e, args in calls(name) if e.error is None]
    return examples if LONG else examples[:1]


def checked(name: str, args: list[Any]) -> None:
    """Checks the registrations of an operator by a call. Raises OpCheckError. What is drawn at random differs from call to call."""
    utils = CHECKS[:-1] if ops.VARIANTS[name].static.is_random else CHECKS
    positional, named = as_passed(ops.VARIANTS[name].arguments, args)
    torch.library.opcheck(ops.OPERATORS[name], tuple(positional), named, test_utils=utils)


def other_dtypes(name: str) -> Iterator[tuple[str, str]]:
    """The choices that an op allows for each of its dtype variables, and that torch has, but for the first one, that of examples."""
    for var, choices in ops.VARIANTS[name].static.dtypes.items() if name in ops.OPERATORS else ():
        yield from ((var, c) for c in choices[1:] if c in TORCH_DTYPES)


def in_dtype(name: str, args: list[Any], var: str, dtype: str) -> list[Any] | None:
    """The arguments of a call with inputs of another dtype; None if the op refuses them: a negative index has no counterpart."""
    changed = list(args)
    for k, i in enumerate(ops.VARIANTS[name].static.inputs):
        if i.dtype == var:
            changed[k] = on_tensors(args[k], TORCH_DTYPES[dtype])
    try:
        run(name, changed)
    except AnyshapeError:
        return None
    return changed


def on_tensors(value: Any, dtype: torch.dtype) -> Any:
    """Tensors in another dtype, of a list or alone; None where an input is absent."""
    return (
        [on_tensors(v, dtype) for v in value]
        if isinstance(value, list)
        else value
        if value is None
        else value.to(dtype)
    )


def prepared(name: str, args: list[Any]) -> list[Any]:
    """The arguments for a check, whose floats require gradients if the op has one. The check adds up results in the dtype of the first one,
    and cannot do so where floats come after integers."""
    floats = [t.is_floating_point() for t in flat([run(name, args)])]
    try:
        return finite(name, args, gradients=floats == sorted(floats, reverse=True))
    except UnsupportedError as e:
        assert re.search(NO_GRADIENT, str(e)), e
        return finite(name, args, gradients=False)


def test_every_op_is_an_operator_or_refused_with_the_line_of_its_spec() -> None:
    assert ops.OPERATORS.keys() | ops.refused().keys() == ops.VARIANTS.keys() >= PROPERTIES.keys()
    assert not ops.OPERATORS.keys() & ops.refused().keys()
    assert len(ops.OPERATORS) > 250
    for name, reason in ops.refused().items():
        assert ops.VARIANTS[name].static.source in reason
        with pytest.raises(AttributeError, match=r"strings.*specs/\w+\.yaml:\d+"):
            getattr(ops, name)
    with pytest.raises(AttributeError, match="did you mean softmax"):
        _ = ops.sofmax


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_results_and_registrations(name: str) -> None:
    examples = held(name)
    assert examples, "it has no example of dtypes that torch has"
    for e, args in examples:
        results = run(name, args)
        outputs = ops.VARIANTS[name].static.outputs
        for o, value in zip(outputs, [results] if len(outputs) == 1 else results, strict=True):
            if o.name in e.outputs:
                expected(e.outputs[o.name], [array_of(t) for t in flat([value])], o.variadic)
        checked(name, prepared(name, args))


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_registrations_of_each_dtype(name: str) -> None:
    choices = list(other_dtypes(name))
    chosen = choices if LONG else choices[len(name) % len(choices) :][:1] if choices else []
    for var, dtype in chosen:
        results = [c for _, args in calls(name) if (c := in_dtype(name, args, var, dtype)) is not None]
        assert results, f"no example of {name} has a result where {var} is {dtype}"
        checked(name, prepared(name, results[0]))


def test_dtypes_that_are_chosen() -> None:
    assert set(other_dtypes("softmax")) == {("F", "f16"), ("F", "bf16"), ("F", "f64")}
    assert {d for _, d in other_dtypes("add")} >= {"f64", "i8", "i32", "i64", "u8", "bf16"} and not list(
        other_dtypes("nonsense")
    )
    (_, args), *_ = calls("gather")
    index_vars = [i.dtype for i in ops.VARIANTS["gather"].static.inputs]
    changed = in_dtype("gather", args, index_vars[1], "i32")
    assert changed is not None and [t.dtype for t in changed[:2]] == [args[0].dtype, torch.int32]


@pytest.mark.parametrize("name", CLASSES)
def test_gradients_are_limits_of_differences(name: str) -> None:
    for _, args in held(name):
        try:
            floats = finite(name, wide(args), gradients=True)
        except UnsupportedError as e:
            assert re.search(NO_GRADIENT, str(e)), e
            continue
        except ShapeError as e:
            assert re.search(OUTSIDE, str(e)), e
            continue

        if not all(t.numel() for t in [*floats_of(floats), *floats_of([run(name, floats)])]) or not floats_of(floats):
            continue  # there is no slope to compare

        def of_floats(*values: Any, args: list[Any] = args) -> Any:
            remaining = iter(values)
            return tuple(floats_of([run(name, on_floats(args, lambda _: next(remaining)))]))

        assert torch.autograd.gradcheck(of_floats, floats_of(floats), fast_mode=True)


def test_random_floats_that_decide_what_is_read() -> None:
    """A tree that its bounds lead through: with others a leaf is none of them. Floats of other ops decide no index."""
    with pytest.raises(ShapeError, match=OUTSIDE):
        for _, args in (c for c in calls("tree_sums") if c[0].error is None):
            finite("tree_sums", wide(args), gradients=True)
    (_, args), *_ = held("gather")
    finite("gather", wide(args), gradients=True)
    with pytest.raises(ShapeError) as refusal:
        run("matmul", [torch.ones(2, 3), torch.ones(4, 5)])
    assert not re.search(OUTSIDE, str(refusal.value))


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_calls_that_a_spec_refuses_are_refused(name: str) -> None:
    for e, args in calls(name):
        if e.error is not None:
            with pytest.raises(AnyshapeError, match=e.error):
                run(name, args)
