"""Sizes that steps find, of results whose upper bounds multiply: counted ahead of the steps that fill what they shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dtypes import I64
from anyshape.equations import Equations, Tensor
from anyshape.equations.builder import Run
from anyshape.equations.functions import checked, gt, maximum
from anyshape.equations.interpret import interpret

N, K = dims.symbol("n"), dims.symbol("k")


@pytest.mark.parametrize("loop", ["native", "python"])
def test_a_long_string_is_split_in_the_memory_of_its_parts(loop: str) -> None:
    """100 KB of 33,334 parts: room for as many parts as characters, each as long as the string, would be 40 GB and more."""
    x, delimiter = anyshape.input("x", "char[n, w]"), anyshape.input("d", "char[m]")
    f = anyshape.compile(anyshape.function([x, delimiter], list(ops.string_split(x, delimiter))), loop=loop)
    text = ",".join(["ab"] * 33_333 + ["abc"])
    parts, count = f(np.array([text, "", "a" * 100]), np.array(","))
    assert parts.shape == (3, 33_334) and count.tolist() == [33_334, 1, 1]
    assert parts[0].tolist() == text.split(",") and parts[2, 0] == "a" * 100 and parts[2, 1] == ""


def positives(counted: bool) -> tuple[Equations, Tensor, Tensor, Tensor]:
    """The positive numbers, and how often each step went on; the latter is read by the steps."""
    x, y, seen = Tensor("x", I64, (N,)), Tensor("y", I64, (K,)), Tensor("seen", I64, (1,))
    eqs = Equations("positives", {"x": x}, {"y": y, "seen": seen})
    p = eqs.procedure({K: N}, counted=counted)
    y_, seen_, k = p.output("y"), p.output("seen"), p.variable("k", I64)
    p.set(k[()], 0)
    with p.loop("i", N) as i:
        p.set(checked(seen_)[0], seen_[0] + 1)
        with p.when(gt(x[i], 0)):
            p.set(checked(y_)[k[()]], x[i])
            p.set(k[()], maximum(k[()] + 1, 0))
    p.end({K: k})
    return eqs, x, y, seen


def test_counting_makes_nothing_but_the_sizes() -> None:
    eqs, _, y, _ = positives(counted=True)
    counting, filling = dict.fromkeys(q.form.program for q in eqs.equations if isinstance(q.form, Run))
    assert [t.name for t in counting.makes] == ["k"] and [t.name for t in filling.makes] == ["y", "seen"]
    assert not {t.name for t in counting.own} & {"y"} and "seen" in {t.name for t in counting.arrays}
    assert filling.makes[0] is y and not set(counting.own) & set(filling.own)


def test_both_give_the_same() -> None:
    elements: Any = np.array([3, -1, 0, 2])
    results = []
    for counted in (True, False):
        eqs, x, y, seen = positives(counted)
        interpreted = interpret(eqs.equations, {x: elements}, {N: 4})
        results.append([interpreted[y].tolist(), interpreted[seen].tolist()])
    assert results == [[[3, 2], [4]]] * 2
