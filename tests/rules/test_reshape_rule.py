"""Conditions on symbols: the reshape rule on every mix of integer, partly known and symbolic newshape, with and
without allowzero, longer than the rank, equal and shorter, with and without empty dims.

Integers agree with NumPy, errors included; symbols with numbers put in agree with integers, message for message;
merging dims of at least 1 leaves no select and no check; with 0 allowed the selects give the right answer for empty
batches.
"""

# Runs given as lambdas are over before their loop goes on.
# ruff: noqa: B023

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Dim, symbol
from anyshape.errors import ShapeError
from anyshape.rules import Rule, Vec
from tests.rules.agreement import Symbolic, kinds_of, on_numbers
from tests.rules.reshape_rule import reshape

SIZES, EMPTY_SIZES = (1, 2, 3, 4, 6), (0, 0, 1, 2, 3)
ENTRIES = (-2, -1, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12)


def numpy_says(d: list[int], newshape: list[int], allowzero: bool) -> tuple[int, ...] | None:
    """The shape, or None for an error: entries below -1 and a 0 beyond the rank are errors of ours before NumPy
    is asked."""
    if any(n < -1 for n in newshape) or (not allowzero and any(n == 0 for n in newshape[len(d) :])):
        return None
    copies = not allowzero and (len(newshape) > 1 or 0 not in d)  # a 0 that is the number of elements is a size
    expected = [d[k] if n == 0 and copies else n for k, n in enumerate(newshape)]
    try:
        return np.reshape(np.zeros(d, np.int8), expected).shape
    except ValueError:
        return None


def draw(rng: random.Random, rank: int, length: int, empty: bool) -> tuple[list[int], list[int]]:
    """Dims and a newshape, often one that fits: a regrouping of the dims, with a -1 or a 0 put in."""
    d = [rng.choice(EMPTY_SIZES if empty else SIZES) for _ in range(rank)]
    newshape = [rng.choice(ENTRIES) for _ in range(length)]
    if length and rng.random() < 0.7:
        newshape = [1] * length
        for n in d:
            newshape[rng.randrange(length)] *= n
        if rng.random() < 0.5:
            newshape[rng.randrange(length)] = rng.choice((-1, 0))
    return d, newshape


def lengths(how: str, rng: random.Random) -> tuple[int, int]:
    rank = rng.randint(1, 3) if how == "shorter" else rng.randint(0, 3)
    return rank, {
        "longer": rank + rng.randint(1, 2),
        "equal": rank,
        "shorter": rng.randint(0, rank - 1) if rank else 0,
    }[how]


@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
@pytest.mark.parametrize("how", ["longer", "equal", "shorter"])
@pytest.mark.parametrize("allowzero", [False, True], ids=["copying", "allowzero"])
def test_integers_agree_with_numpy(allowzero: bool, how: str, empty: bool) -> None:
    rng = random.Random(f"{allowzero}{how}{empty}")
    shapes = failures = 0
    for _ in range(400):
        d, newshape = draw(rng, *lengths(how, rng), empty)
        expected = numpy_says(d, newshape, allowzero)
        got = on_numbers("reshape", lambda r: reshape(r, Vec(d), Vec(newshape), allowzero))
        if expected is None:
            failures += 1
            assert isinstance(got, str) and got.startswith("reshape: "), (d, newshape, got)
        else:
            shapes += 1
            assert got == {"y": expected}, (d, newshape)
    assert shapes > 20 and failures > 20


@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
@pytest.mark.parametrize("how", ["longer", "equal", "shorter"])
@pytest.mark.parametrize("allowzero", [False, True], ids=["copying", "allowzero"])
@pytest.mark.parametrize("known", ["integer", "partly", "symbolic"])
def test_symbols_with_numbers_put_in_agree_with_integers(known: str, allowzero: bool, how: str, empty: bool) -> None:
    rng = random.Random(f"{known}{allowzero}{how}{empty}")
    low = 0 if empty else 1
    fitting = 0
    for _ in range(25):
        rank, length = lengths(how, rng)
        d, newshape = draw(rng, rank, length, empty)
        sd: list[Any] = [n if rng.random() < 0.3 else symbol(f"d{k}", low) for k, n in enumerate(d)]
        open_entries = {"integer": 0.0, "partly": 0.5, "symbolic": 1.0}[known]
        sn: list[Any] = [symbol(f"n{k}", None) if rng.random() < open_entries else n for k, n in enumerate(newshape)]
        symbolic = Symbolic("reshape", lambda r: reshape(r, Vec(sd), Vec(sn), allowzero))
        for iteration in range(12):
            d2, n2 = draw(rng, rank, length, empty) if iteration else (d, newshape)
            d3 = [n if isinstance(s, int) else m for s, n, m in zip(sd, d, d2)]
            n3 = [n if isinstance(s, int) else m for s, n, m in zip(sn, newshape, n2)]
            values: dict[Dim, int] = {s: v for s, v in zip(sd + sn, d3 + n3) if isinstance(s, Dim)}
            expected = on_numbers("reshape", lambda r: reshape(r, Vec(d3), Vec(n3), allowzero))
            got = symbolic.at(values)
            fitting += isinstance(expected, dict)
            if symbolic.error:
                assert isinstance(expected, str), (sd, sn, d3, n3, symbolic.error)
            else:
                assert got == expected, (sd, sn, d3, n3, symbolic.outputs, list(map(str, symbolic.rule.checks)))
    assert fitting > 10


@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
def test_entries_made_of_the_dims_agree(empty: bool) -> None:
    rng = random.Random(7)
    low = 0 if empty else 1
    b, s, h = (symbol(name, low) for name in ("b", "s", "h"))
    entries: list[Any] = [b, s, h, b * s, s * h, b * s * h, b + 0, 8, 16, 0, -1, 1]
    for _ in range(150):
        d: list[Any] = [rng.choice((b, s, h, 4, 8)) for _ in range(rng.randint(1, 4))]
        newshape = [rng.choice(entries) for _ in range(rng.randint(1, 4))]
        symbolic = Symbolic("reshape", lambda r: reshape(r, Vec(d), Vec(newshape)))
        for _ in range(8):
            values = {x: rng.choice(EMPTY_SIZES if empty else SIZES) for x in (b, s, h)}
            d3, n3 = Vec(dims.evaluate(x, values) for x in d), Vec(dims.evaluate(x, values) for x in newshape)
            expected, got = on_numbers("reshape", lambda r: reshape(r, d3, n3)), symbolic.at(values)
            assert got == expected or (isinstance(expected, str) and symbolic.error), (d, newshape, values)


PLAIN = [
    (("b", "s", 256), ("b*s", 256), ("b*s", 256)),
    (("b", "s", 256), ("b", "s", 4, 64), ("b", "s", 4, 64)),
    (("b", "s", 256), (0, 0, 4, -1), ("b", "s", 4, 64)),
    (("b", "s", 4, 64), (0, 0, -1), ("b", "s", 256)),
    (("b", "s", 4, 64), ("b", "s", -1), ("b", "s", 256)),
    (("b", "s", 256), (-1, 256), ("b*s", 256)),
    (("b", "s", 256), ("b", -1, "s"), ("b", 256, "s")),
    (("b*s", 256), ("b", "s", 256), ("b", "s", 256)),
    (("b", 4, "s", "s"), ("4*b", "s", "s"), ("4*b", "s", "s")),
    (("b", "s", 6), ("2*b", -1), ("2*b", "3*s")),
]


@pytest.mark.parametrize(("x", "newshape", "expected"), PLAIN)
def test_dims_of_at_least_one_infer_plainly(
    x: tuple[Any, ...], newshape: tuple[Any, ...], expected: tuple[Any, ...]
) -> None:
    scope = {"b": symbol("b", 1), "s": symbol("s", 1)}

    def read(shape: tuple[Any, ...]) -> Vec:
        return Vec(dims.parse_dim(e, scope) if isinstance(e, str) else e for e in shape)

    rule = Rule("reshape")
    shape = reshape(rule, read(x), read(newshape)).outputs["y"]
    assert shape == read(expected)
    assert kinds_of(shape) <= {"symbol"}
    assert rule.checks == []


def test_empty_batches_get_selects_and_the_right_answer() -> None:
    b, s = symbol("b"), symbol("s")
    run = Symbolic("reshape", lambda r: reshape(r, Vec((b, s, 256)), Vec((b * s, 256))))
    assert "select" in kinds_of(run.outputs["y"])
    assert run.at({b: 0, s: 5}) == {"y": (0, 256)}
    assert run.at({b: 2, s: 5}) == {"y": (10, 256)}
    assert run.at({b: 0, s: 0}) == {"y": (0, 256)}
    assert run.at({b: 2, s: 0}) == "reshape: cannot view 0 elements as [2, 256]"  # a 0 copies the 2, as on integers


def test_a_vector_of_the_size_needs_no_select_where_it_may_be_0() -> None:
    b, s = symbol("b"), symbol("s")
    run = Symbolic("reshape", lambda r: reshape(r, Vec((b, s)), Vec((b * s,))))
    assert run.outputs == {"y": (b * s,)} and run.at({b: 2, s: 0}) == {"y": (0,)}
    copied = Symbolic("reshape", lambda r: reshape(r, Vec((b,)), Vec((0,))))
    assert copied.outputs == {"y": (b,)}
    refused = Symbolic("reshape", lambda r: reshape(r, Vec((b, s)), Vec((0,))))
    assert refused.at({b: 2, s: 3}) == "reshape: cannot view 6 elements as [2]"
    assert refused.at({b: 2, s: 1}) == {"y": (2,)} and refused.at({b: 2, s: 0}) == {"y": (0,)}


def test_an_undecided_entry_is_not_guessed() -> None:
    n, p = symbol("n", 1), symbol("p", None)
    run = Symbolic("reshape", lambda r: reshape(r, Vec((n,)), Vec((p,))))
    assert run.at({n: 4, p: 4}) == run.at({n: 4, p: 0}) == run.at({n: 4, p: -1}) == {"y": (4,)}
    assert run.at({n: 4, p: 3}) == "reshape: cannot view 4 elements as [3]"
    assert run.at({n: 4, p: -5}) == "reshape: entries of newshape must be at least -1, got [-5]"


@pytest.mark.parametrize(
    ("d", "newshape", "says"),
    [
        ((2, 3), (4, -1), "reshape: 6 is not a multiple of 4"),
        ((2,), (2, 0), "reshape: a 0 copies a dim of x, which has only 1"),
        ((2, 3), (-1, -1), "reshape: only one size may be -1, got [-1, -1]"),
        ((2, 3), (5,), "reshape: cannot view 6 elements as [5]"),
        ((0, 3), (0, -1), "reshape: division by zero"),
    ],
)
def test_messages(d: tuple[int, ...], newshape: tuple[int, ...], says: str) -> None:
    with pytest.raises(ShapeError) as caught:
        reshape(Rule("reshape"), Vec(d), Vec(newshape))
    assert str(caught.value).startswith(says)
