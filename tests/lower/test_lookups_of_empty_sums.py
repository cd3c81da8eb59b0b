"""A lookup that all terms of a sum share is made where there is a term: of an empty sum no index is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import ShapeError
from anyshape.graph.call import call
from anyshape_testing.matrix.making import make

HEAD = """
ops:
  an_op:
    summary: An op.
    inputs: {t: "f32[q]", at: "i64[n]", x: "f32[m]", w: "f32[m, n]"}
"""
KERNELS = {
    "sum": '{y: "f32[n]"}\n    kernel: "y[i] = sum(x[k] * t[wrap(at[i], q)] for k in m)"',
    "any": '{y: "bool[n]"}\n    kernel: "y[i] = any(x[k] > t[wrap(at[i], q)] for k in m)"',
    "argmax": '{y: "i64[n]"}\n    kernel: "y[i] = argmax(x[k] * t[wrap(at[i], q)] for k in m)"',
    "one for all": '{y: "f32[n]"}\n    kernel: "y[i] = 1 + sum(w[k, i] * t[wrap(at[n - 1], q)] for k in m)"\n    shape: assert n > 0, "n"',
    "of a sum": '{y: "f32[n]"}\n    kernel: "y[i] = sum(sum(x[k] * t[wrap(at[l], q)] for k in m) for l in n)"',
    "beside others": '{y: "f32[n]"}\n    kernel: "y[i] = x_of[i] + 1\\nx_of[i] = max(x[k] + t[wrap(at[i], q)] for k in m)"',
    "of a product": '{y: "f32[n, n]"}\n    kernel: "y[i, j] = sum(w[k, i] * w[k, j] * t[wrap(at[i], q)] for k in m)"',
    "of a row": '{y: "f32[n, m]", z: "f32[n]"}\n    kernel: |\n      y[i, k] = x[k] * t[wrap(at[i], q)]\n      z[i]    = f32(at[i])',
    "filtered": '{y: "f32[n]"}\n    kernel: "y[i] = sum(x[k] * t[wrap(at[i], q)] for k in m if x[k] > 0)"',
}


@pytest.mark.parametrize("kernels", ["native", "interpret"])
@pytest.mark.parametrize("case", KERNELS)
def test_an_index_is_wrong_where_something_is_looked_up(case: str, kernels: Any) -> None:
    op = make(f"{HEAD}    outputs: {KERNELS[case]}\n    reference: None\n    examples: []\n", "an_op")
    shapes = {"t": "f32[q]", "at": "i64[n]", "x": "f32[m]", "w": "f32[m, n]"}
    with op.in_place():
        inputs = [anyshape.input(name, t) for name, t in shapes.items()]
        exe = anyshape.compile(anyshape.function(inputs, list(call(op.defs[0], inputs, {}))), kernels=kernels)
        for n in (2, 40):
            right, wrong = np.zeros(n, np.int64), np.arange(n) + 3
            for m in (3, 0, 50):
                arrays = np.ones(m, np.float32), np.ones((m, n), np.float32)
                exe(np.ones(4, np.float32), right, *arrays)
                if m == 0:
                    exe(np.ones(4, np.float32), wrong, *arrays)
                    exe(np.ones(0, np.float32), right, *arrays)
                    continue
                for t in (np.ones(4, np.float32), np.ones(0, np.float32)):
                    with pytest.raises(ShapeError, match="is out of range for axis 0 of t"):
                        exe(t, wrong, *arrays)
