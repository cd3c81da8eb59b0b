"""Trees in slots add up what trees walked one after the other do, whatever they compare by, and those that do not fit are walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops

Tables = dict[str, np.ndarray[Any, Any]]
ORDER = ("feature", "split", "mode", "yes", "no", "missing", "root", "start", "target", "weight")


def forest(
    rng: np.random.Generator, dtype: Any, *, trees: int, depth: int, features: int, targets: int, modes: int = 4
) -> Tables:
    """Trees whose branches end anywhere, with rows in any order. Some bounds are elements of x, infinite, subnormal or NaN."""
    kinds: list[tuple[int, int, int]] = []  # (mode, yes, no), by number

    def grown(left: int) -> int:
        own = len(kinds)
        kinds.append((7, own, own))
        if left > 0 and rng.random() < 0.8:
            yes = grown(left - 1)
            kinds[own] = (int(rng.integers(modes)), yes, grown(left - 1))
        return own

    roots = np.array([grown(depth) for _ in range(trees)])
    m = len(kinds)
    place = rng.permutation(m)
    mode, yes, no = (np.empty(m, np.int64) for _ in range(3))
    for own, (kind, first, second) in enumerate(kinds):
        mode[place[own]], yes[place[own]], no[place[own]] = kind, place[first], place[second]
    split = rng.integers(-3, 4, m).astype(dtype)
    odd = [
        np.inf,
        -np.inf,
        np.nan,
        np.finfo(dtype).smallest_subnormal,
        -0.0,
        np.finfo(dtype).max,
        -np.finfo(dtype).tiny,
    ]
    split[rng.random(m) < 0.2] = rng.choice(np.array(odd, dtype))
    start = np.concatenate([[0], np.cumsum(np.where(mode == 7, rng.integers(0, 3, m), 0))])
    return {
        "feature": rng.integers(0, features, m), "split": split, "mode": mode, "yes": yes, "no": no,
        "missing": rng.integers(0, 2, m), "root": place[roots], "start": start,
        "target": rng.integers(0, targets, start[-1]), "weight": rng.integers(-9, 9, start[-1]).astype(dtype),
    }  # fmt: skip


def rows(rng: np.random.Generator, dtype: Any, n: int, features: int) -> np.ndarray[Any, Any]:
    x = rng.integers(-3, 4, (n, features)).astype(dtype)
    for odd in (
        np.nan,
        np.inf,
        -np.inf,
        np.finfo(dtype).smallest_subnormal,
        -np.finfo(dtype).smallest_subnormal,
        np.finfo(dtype).max,
    ):
        x[rng.random(x.shape) < 0.06] = odd
    return x


def executables(tables: Tables, features: int, targets: int, how: str) -> tuple[Any, Any]:
    """What is chosen for trees that are constants, and the walk."""
    dtype = {"float32": "f32", "float64": "f64"}[tables["split"].dtype.name]

    def compiled(op: Any) -> Any:
        x = anyshape.input("x", f"{dtype}[n, {features}]")
        member = np.zeros(0, tables["split"].dtype)
        y = op(
            x, *(anyshape.constant(tables[name]) for name in ORDER), anyshape.constant(member), targets=targets, how=how
        )
        return anyshape.compile(anyshape.function([x], [y]))

    return compiled(ops.tree_ensemble), compiled(ops.tree_walks)


@pytest.mark.parametrize(
    ("dtype", "targets", "how", "trees"), [("f4", 1, "sum", 20), ("f4", 3, "average", 3), ("f8", 2, "sum", 9)]
)
def test_trees_in_slots_add_up_what_walks_do(dtype: str, targets: int, how: str, trees: int) -> None:
    rng = np.random.default_rng(trees)
    tables = forest(rng, np.dtype(dtype).type, trees=trees, depth=7, features=5, targets=targets)
    chosen, walked = executables(tables, 5, targets, how)
    assert "tree_walks" not in chosen.disassemble()
    for n in (0, 1, 3, 200):
        x = rows(rng, np.dtype(dtype).type, n, 5)
        np.testing.assert_allclose(chosen(x), walked(x), rtol=1e-6)  # sums of whole numbers: only an average is rounded


@pytest.mark.parametrize("why", ["equality", "two parents", "chain", "many targets", "largest"])
def test_trees_that_do_not_fit_are_walked(why: str) -> None:
    rng = np.random.default_rng(3)
    targets = 17 if why == "many targets" else 2
    tables = forest(rng, np.float32, trees=4, depth=4, features=3, targets=targets, modes=6 if why == "equality" else 4)
    if why == "two parents":
        branch = np.flatnonzero(tables["mode"] != 7)[0]
        tables["yes"][branch] = tables["no"][branch]
    if (
        why == "chain"
    ):  # each branch ends at once on one side: rows go two steps on average, and one of the trees has thirty
        m = 61
        own = np.arange(m)
        branch = (own % 2 == 0) & (own < m - 1)
        tables |= {
            "feature": own * 0, "split": np.zeros(m, np.float32), "mode": np.where(branch, 0, 7), "missing": own * 0,
            "yes": np.where(branch, own + 1, own), "no": np.where(branch, own + 2, own), "root": own[:1],
            "start": np.zeros(m + 1, np.int64),
        }  # fmt: skip
    chosen, walked = executables(tables, 3, targets, "max" if why == "largest" else "sum")
    assert "tree_walks" in chosen.disassemble()
    x = rows(rng, np.float32, 50, 3)
    np.testing.assert_array_equal(chosen(x), walked(x))
