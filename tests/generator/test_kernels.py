"""Every kernel of every spec, read as its equations say, agrees with the spec's reference on its examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import parse_dtype
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Call, Name
from anyshape_gen.model.spec import Example
from tests.generator.evaluate import DataSize
from tests.generator.evaluate_kernel import KernelEvaluation
from tests.generator.test_examples import CASES, dtype_of, inputs, listed, reference, shape_of

DECIDED = [(op, example) for op, example in CASES if "random" not in op.spec.traits]


KERNELS = [(op, example) for op, example in DECIDED if op.kernel is not None and example.error is None]


@pytest.mark.parametrize(("op", "example"), KERNELS, ids=[f"{op.spec.name}-{k}" for k, (op, _) in enumerate(KERNELS)])
def test_kernel_agrees_with_reference(op: OpAnalysis, example: Example) -> None:
    arrays = inputs(op, example)
    params = {n: listed(v.value) for n, v in example.arguments if op.spec.param(n) is not None}
    evaluation = KernelEvaluation(op)
    shapes = evaluation.run({name: shape_of(tensor) for name, tensor in arrays.items()}, params)
    results = reference(op, example, evaluation, shapes)
    expected: dict[str, Any] = {o.name: result for o, result in zip(op.spec.outputs, results, strict=True)}
    outputs: dict[str, Any] = {}
    for name, shape in shapes.items():
        parts = expected[name] if isinstance(expected[name], list) else None
        if parts is None:
            actual = expected[name].shape if any(isinstance(n, DataSize) for n in shape) else shape
            outputs[name] = np.full(actual, 77, expected[name].dtype)
        else:
            outputs[name] = [np.full(s, 77, part.dtype) for s, part in zip(shape, parts, strict=True)]
    dtypes = {operand.signature.dtype: dtype_of(op, operand) for operand in op.spec.inputs}
    dtypes |= {o.signature.dtype: _first(expected[o.name]).dtype.type for o in op.spec.outputs}
    for rule in op.spec.dtypes:
        match rule.expr:
            case Call("accum", (Name(var),)):
                dtypes[rule.var] = dtypes[var]
            case Call("promote", (Name(var), Name(other))):
                dtypes[rule.var] = np.promote_types(
                    dtypes[var], dtypes[other] if other in dtypes else parse_dtype(other).numpy
                ).type
    with np.errstate(all="ignore"):
        evaluation.kernel(arrays, outputs, dtypes)
    for name, actual in outputs.items():
        if isinstance(actual, list):
            for one, other in zip(actual, expected[name], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_allclose(actual, expected[name], rtol=1e-4, atol=1e-5)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) else result
