"""A lookup that all iterations of a loop share is made where there is an iteration, whatever the loop does: of none, no index is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ShapeError
from anyshape.graph.call import call
from anyshape_testing.matrix.making import make

INPUTS = {
    "t": "f32[q]",
    "p": "i64[q]",
    "at": "i64[]",
    "each": "i64[n]",
    "x": "f32[m]",
    "w": "f32[m, n]",
    "v": "f32[n, n]",
}
"""Inputs of loops over m and n: T, an element of t, is the same in all iterations, and T[i] in those over m; `p` has zeros"""
LOOKUPS = {"T[i]": "t[wrap(each[i], q)]", "T": "t[wrap(at[()], q)]"}
KERNELS = {
    "elementwise": ("f32[m]", "y[j] = x[j] * T"),
    "rows": ("f32[n, m]", "y[i, j] = x[j] * T"),
    "each row": ("f32[n, m]", "y[i, j] = x[j] * T[i]"),
    "each row of several": ("f32[n, m, n]", "y[i, j, k] = w[j, k] * T[i]"),
    "columns": ("f32[m, n]", "y[j, i] = w[j, i] * T"),
    "each column": ("f32[m, n]", "y[j, i] = w[j, i] * T[i]"),
    "transposed": ("f32[n, m]", "y[i, j] = w[j, i] * T"),
    "repeated": ("f32[2 * m, n]", "y[j, i] = w[j // 2, i] * T"),
    "normalised": ("f32[m]", "top[()] = max(x[k] * T for k in m)\ny[j] = exp(x[j] * T - top[()])"),
    "nested": ("f32[m]", "y[j] = x[j] * t[wrap(p[wrap(at[()], q)], q)]"),
    "sum": ("f32[n]", "y[i] = sum(w[j, i] * T for j in m)"),
    "each sum": ("f32[n]", "y[i] = sum(w[j, i] * T[i] for j in m)"),
    "sum over pairs": ("f32[]", "y[()] = sum(w[j, i] * T for i in n for j in m)"),
    "each sum over pairs": ("f32[]", "y[()] = sum(w[j, i] * T[i] for i in n for j in m)"),
    "all": ("bool[n]", "y[i] = all(w[j, i] < T for j in m)"),
    "argmin": ("i64[]", "y[()] = argmin(x[j] * T for j in m)"),
    "count": ("i64[]", "y[()] = count(x[j] < T for j in m)"),
    "last": ("f32[]", "y[()] = last(x[j] * T for j in m if x[j] > 0)"),
    "search": ("i64[n]", "y[i] = search(x[j] < T for j in m)"),
    "matrix product": ("f32[m, m]", "y[i, j] = sum(w[i, k] * w[j, k] for k in n) * T"),
    "product of each column": ("f32[m, n]", "y[j, i] = sum(w[j, k] * v[k, i] for k in n) * T[i]"),
    "product of each row": ("f32[n, m]", "y[i, j] = sum(v[i, k] * w[j, k] for k in n) * T[i]"),
    "product over none": ("f32[n, n]", "y[i, k] = sum(w[j, i] * w[j, k] * T for j in m)"),
    "product of a computed factor": ("f32[n, n]", "y[i, k] = sum(w[j, i] * (w[j, k] + T) for j in m)"),
    "data-dependent size": ("f32[k]", "k = count(x[j] < T for j in m)\ny[:] = [x[j] for j in m if x[j] < T]"),
    "compaction": ("f32[k]", "k = count(x[j] > 0 for j in m)\ny[:] = [x[j] * T for j in m if x[j] > 0]"),
    "compaction of rows": ("f32[k, n]", "k = count(x[j] > 0 for j in m)\ny[:, i] = [w[j, i] * T for j in m if x[j] > 0]"),
    "sort": ("i64[m]", "y[:] = argsort([x[j] * T for j in m])"),
    "sort of each row": ("i64[n, m]", "y[i, :] = argsort([w[j, i] * T[i] for j in m])"),
    "selection": ("i64[min(m, 1)]", "y[:] = argsort([x[j] * T for j in m])"),
    "sort of rows": ("i64[n, m]", "y[i, :] = argsort([w[j, i] * T for j in m])"),
    "recurrence": ("f32[m]", "y[j] = (y[j - 1] if j > 0 else 0) + x[j] * T"),
    "recurrence of rows": ("f32[m, n]", "y[j, i] = (y[j - 1, i] if j > 0 else 0) + w[j, i] * T"),
    "recurrence of each column": ("f32[m, n]", "y[j, i] = (y[j - 1, i] if j > 0 else 0) + w[j, i] * T[i]"),
    "recurrence of sums": ("f32[m, n]", "y[j, i] = (sum(y[j - 1, k] for k in n) if j > 0 else 0) + w[j, i] * T"),
    "update": ("f32[m]", "y[j] = 0\ny[m - 1 - j] += x[j] * T"),
    "update under a condition": ("f32[m]", "y[j] = 0\ny[m - 1 - j] += (x[j] * T for j in m if x[j] > 0)"),
    "update whose condition is looked up": ("f32[m]", "y[j] = 0\ny[m - 1 - j] += (x[j] for j in m if x[j] < T)"),
    "update at a looked-up place": ("f32[m]", "y[j] = 0\ny[max(min(i64(T) + j, m - 1), 0)] += x[j]"),
    "update of each column": ("f32[m, n]", "y[j, i] = 0\ny[m - 1 - j, i] += w[j, i] * T[i]"),
    "update of rows": ("f32[m, n]", "y[j, i] = 0\ny[m - 1 - j, i] += w[j, i] * T"),
}  # fmt: skip
PROCEDURES = {
    "procedure": ("f32[m]", "for j in m:\n    y[j] = x[j] * T"),
    "procedure with an array": ("f32[m]", "a = array(m, T)\nfor j in m:\n    y[j] = a[j]"),
    "procedure with a sort": ("i64[m]", "l = 0\nfor j in argsort([x[j] * T for j in m]):\n    y[l] = j\n    l += 1"),
    "procedure with a sum": ("f32[n]", "for i in n:\n    y[i] = sum(w[j, i] * T for j in m)"),
    "procedure with a condition": ("f32[m]", "for j in m:\n    if x[j] > 0:\n        y[j] = x[j] * T"),
}
FORMS = {name: ("kernel", *form) for name, form in KERNELS.items()} | {
    name: ("procedure", *form) for name, form in PROCEDURES.items()
}
UNDER_A_CONDITION = {name for name, (_, _, text) in FORMS.items() if "x[j] > 0" in text}
"""Forms that look up nothing where no x is above 0"""


def _spec(form: str) -> str:
    key, output, text = FORMS[form]
    inputs = ", ".join(f'{name}: "{t}"' for name, t in INPUTS.items())
    for name, lookup in LOOKUPS.items():
        text = text.replace(name, lookup)
    lines = "".join(f"      {line}\n" for line in text.split("\n"))
    return (
        f"ops:\n  an_op:\n    summary: An op.\n    inputs: {{{inputs}}}\n    outputs: {{y: '{output}'}}\n"
        f"    {key}: |\n{lines}    reference: None\n    examples: []\n"
    )


@pytest.mark.parametrize("kernels", ["native", "interpret"])
@pytest.mark.parametrize("form", FORMS)
def test_an_index_is_wrong_where_something_is_looked_up(form: str, kernels: Any) -> None:
    op = make(_spec(form), "an_op")
    with op.in_place():
        inputs = [anyshape.input(name, t) for name, t in INPUTS.items()]
        exe = anyshape.compile(anyshape.function(inputs, list(call(op.defs[0], inputs, {}))), kernels=kernels)
        for m in (0, 1, 50):
            for x in (1, 0):
                for q, at in ((4, 0), (4, 9), (0, 0)):
                    arrays = [np.ones(q, np.float32), np.zeros(q, np.int64), np.int64(at), np.full(2, at)]
                    arrays += [np.full(m, x, np.float32), np.ones((m, 2), np.float32), np.ones((2, 2), np.float32)]
                    if m == 0 or (q, at) == (4, 0) or (x == 0 and form in UNDER_A_CONDITION):
                        exe(*arrays)
                        continue
                    with pytest.raises(ShapeError, match=r"is out of range for axis 0 of [tp]"):
                        exe(*arrays)


@pytest.mark.parametrize("kernels", ["native", "interpret"])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_a_usual_number_of_iterations_is_looked_up_where_it_is_the_number(shape: tuple[int, ...], kernels: Any) -> None:
    """The most elements that are selected decide that a loop is written out; those selected are then compared with those before."""
    x, mask = anyshape.input("x", f"f64{list(shape)}"), anyshape.input("mask", f"bool{list(shape)}")
    exe = anyshape.compile(anyshape.function([x, mask], list(ops.unique(ops.select(x, mask)))), kernels=kernels)
    size = int(np.prod(shape))
    for chosen in range(size + 1):
        results = exe(np.arange(size).reshape(shape) * 1.0, (np.arange(size) < chosen).reshape(shape))
        np.testing.assert_array_equal(results, [np.arange(chosen)] * 3 + [np.ones(chosen)])
