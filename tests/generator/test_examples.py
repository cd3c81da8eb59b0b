"""Every example of every spec is true: the rule gives its shapes or its error, and the reference agrees with the rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

from anyshape.dtypes import ALL, CHAR, NARROW, from_numpy, highest, lowest, parse_dtype
from anyshape.strings import as_chars, as_strings
from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.emit.rules.relations import is_constant
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Call, Expr
from anyshape_gen.model.spec import Example, ExampleValue, Operand
from tests.generator.evaluate import DataSize, Evaluation, Refused
from tests.generator.evaluate_kernel import KernelEvaluation
from tests.specs import all_specs

ROOT = Path(__file__).parents[2]
OPS = (*all_specs().ops, *analyse(read_specs([ROOT / "tests/generator/data/new_user.yaml"], ROOT)).ops)


def is_narrow(example: Example) -> bool:
    """Whether it is of floats of 8 bits or 4, which the laws try: here an op has the first dtypes of its signature."""
    values = [v for _, v in (*example.arguments, *example.expected)]
    return any(v.dtype is not None and parse_dtype(v.dtype).is_narrow_float for v in values)


CASES = [(op, example) for op in OPS for example in op.spec.examples if not is_narrow(example)]
NUMPY = {t.name: t.computed.type for t in (*ALL, *NARROW, CHAR)}
"""NumPy's types by dtype; characters are their code points."""


def dtype_of(op: OpAnalysis, operand: Operand) -> Any:
    """The first dtype that the signature allows."""
    var = operand.signature.dtype
    rule = next((rule for rule in op.spec.dtypes if rule.var == var), None)
    return NUMPY[rule.choices[0] if rule is not None and rule.choices else var]


def array(value: ExampleValue, dtype: Any, seed: int, variadic: bool = False) -> Any:
    """An array of an example's shape, or its literal; of a variadic a list of them."""
    rng = np.random.default_rng(seed)
    if value.literal and variadic:
        return [array(part, dtype, seed) for part in parts(value)]
    if value.literal and np.array(value.value).dtype.kind == "U":
        return as_chars(np.array(value.value)).view(np.uint32)
    if value.literal:
        return np.array(value.value, NUMPY[value.dtype] if value.dtype else dtype)
    shape: Any = value.value
    if shape and isinstance(shape[0], tuple):
        return [rng.uniform(0.5, 2.0, part).astype(dtype) for part in shape]
    return np.asarray(rng.uniform(0.5, 2.0, shape)).astype(dtype)


def parts(value: ExampleValue) -> list[ExampleValue]:
    """The literals of a variadic."""
    assert isinstance(value.value, tuple)
    return [replace(value, value=part) for part in value.value]


def inputs(op: OpAnalysis, example: Example) -> dict[str, Any]:
    values = dict(example.arguments)
    return {
        operand.name: array(values[operand.name], dtype_of(op, operand), seed, operand.signature.variadic is not None)
        for seed, operand in enumerate(op.spec.inputs)
        if operand.name in values
    }


def shape_of(tensor: Any) -> Any:
    return [list(part.shape) for part in tensor] if isinstance(tensor, list) else list(tensor.shape)


def listed(value: object) -> object:
    return [listed(item) for item in value] if isinstance(value, tuple) else value


def evaluated(op: OpAnalysis, example: Example) -> tuple[Evaluation, dict[str, Any]]:
    tensors = {operand.name for operand in op.spec.inputs}
    params = {name: listed(value.value) for name, value in example.arguments if name not in tensors}
    shapes = {name: shape_of(tensor) for name, tensor in inputs(op, example).items()}
    evaluation = KernelEvaluation(op)
    return evaluation, evaluation.run(shapes, params)


@pytest.mark.parametrize(("op", "example"), CASES, ids=[f"{op.spec.name}-{k}" for k, (op, _) in enumerate(CASES)])
def test_example(op: OpAnalysis, example: Example) -> None:
    if example.error is not None:
        with pytest.raises(Refused, match=example.error):
            evaluation, _ = evaluated(op, example)
            assert isinstance(evaluation, KernelEvaluation)
            evaluation.demands(inputs(op, example))
        return
    evaluation, outputs = evaluated(op, example)
    variadic = {o.name for o in op.spec.outputs if o.signature.variadic is not None}
    for name, value in example.expected:
        if value.literal and name in variadic:
            assert outputs[name] == [list(np.shape(part.value)) for part in parts(value)], name
            continue
        expected = list(np.shape(value.value)) if value.literal else listed(value.value)
        assert (outputs[name][: len(expected)] if _spells(value) else outputs[name]) == expected, name
    results = reference(op, example, evaluation, outputs)
    for output, result in zip(op.spec.outputs, results, strict=True):
        assert shape_of(result) == outputs[output.name], output.name
        literal = dict(example.expected).get(output.name)
        if literal is not None and literal.literal:
            several = output.name in variadic
            for got, want in zip(result, parts(literal), strict=True) if several else [(result, literal)]:
                has_values(got, want)


def has_values(result: Any, expected: ExampleValue) -> None:
    if _spells(expected):
        np.testing.assert_array_equal(as_strings(result.view(CHAR.numpy)), np.array(expected.value))
    else:
        np.testing.assert_allclose(np.asarray(result, np.float64), np.array(expected.value, np.float64), rtol=5e-7)


def _spells(value: ExampleValue) -> bool:
    return value.literal and np.array(value.value).dtype.kind == "U"


def shown(operand: Operand, tensor: Any) -> Any:
    """Converts a tensor to what references take: characters are strings."""
    if operand.signature.dtype != CHAR:
        return tensor
    return [shown(operand, t) for t in tensor] if isinstance(tensor, list) else as_strings(tensor.view(CHAR.numpy))


def code_points(strings: Any, width: int | DataSize) -> Any:
    chars = as_chars(strings).view(np.uint32)
    if isinstance(width, DataSize):  # as wide as they are
        return chars
    assert not chars[..., width:].any(), f"strings of more than {width} characters"
    return np.pad(chars[..., :width], [(0, 0)] * strings.ndim + [(0, max(width - chars.shape[-1], 0))])


def constant(default: Expr, dtype: Any, evaluation: Evaluation) -> Any:
    """What an absent input reads as."""
    match default:
        case Call(func="lowest"):
            return lowest(from_numpy(dtype))
        case Call(func="highest"):
            return highest(from_numpy(dtype))
    return evaluation.expr(default, {}) if is_constant(default) else 0


def reference(op: OpAnalysis, example: Example, evaluation: Evaluation, shapes: dict[str, Any]) -> list[Any]:
    """What the oracle computes, with resolved parameters; absent optional inputs are their constant, or None. Strings are code points,
    as many as the shapes of the outputs have room for."""
    scope: dict[str, Any] = {"np": np, "scipy": scipy}
    assert op.spec.reference is not None
    for oracle in op.spec.reference.oracles:
        exec(oracle.text, scope)  # which sees no parameters: one may be called as a function of Python is
    names = dict(scope)
    for param in op.spec.params:
        value = evaluation.env[param.name]
        names[param.name] = NUMPY[value] if param.kind.base == "dtype" else value
    for operand in op.spec.inputs:
        if operand.signature.default is not None:
            dtype = dtype_of(op, operand)
            names[operand.name] = np.array(constant(operand.signature.default, dtype, evaluation), dtype)
        elif operand.signature.optional:
            names[operand.name] = None
    operands = inputs(op, example)
    names |= {o.name: shown(o, operands[o.name]) for o in op.spec.inputs if o.name in operands}
    with np.errstate(all="ignore"):
        result = eval(op.spec.reference.text, names)
    if op.spec.outputs[0].signature.variadic is not None:
        return [list(result)]
    results = list(result) if len(op.spec.outputs) > 1 else [result]
    arrays = [np.asarray(r) for r in results]
    widths = [shapes[o.name][-1] if a.dtype.kind == "U" else 0 for a, o in zip(arrays, op.spec.outputs, strict=True)]
    return [code_points(a, n) if a.dtype.kind == "U" else a for a, n in zip(arrays, widths)]
