"""Random programs over all ops of specs/: calls, branches, loops, computed parameters, sizes found in data; laws 3, 4, 6 and 7."""

from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ShapeError
from anyshape_testing.calls.packages import register
from anyshape_testing.programs import search as searching
from anyshape_testing.programs.drawing import READINGS, sized_by_data, sizes_of
from anyshape_testing.programs.numbers import Numbers
from anyshape_testing.programs.refusals import refusals
from anyshape_testing.programs.search import Outcome, search, tried
from anyshape_testing.programs.seeds import run_seed
from anyshape_testing.programs.statements import Block, Call, Loop, Program
from anyshape_testing.programs.tally import Tally

OPS = tuple(register("anyshape_ops"))
COUNT = 20
"""Programs of each part; `make test-long` tries 5,000 by `python -m anyshape_testing.programs`"""


@pytest.mark.parametrize("part", range(4))
def test_programs(part: int, record_property: Any) -> None:
    kinds = {"a branch", "a loop", "a size found in data", "a parameter as an operand", "a parameter computed from dims",
             "a parameter that is an input"}  # fmt: skip
    tally, seed = Tally(), part * 1_000_000
    while tally.programs < COUNT or not (kinds <= set(tally.contained) or tally.programs >= 3 * COUNT):
        run_seed(seed, OPS, tally)
        seed += 1
    for key, value in {"law": "several ops at random", "op": f"{tally.statements} statements", "drawn": tally.drawn,
                       "accepted": tally.programs}.items():  # fmt: skip
        record_property(key, value)
    assert kinds <= set(tally.contained) and tally.refusals, str(tally)


def test_a_search_ends_behind_the_seeds_that_gave_enough_and_tells_every_find() -> None:
    batches = [
        Outcome(range(k, k + 5), Tally(programs=3, drawn=5), {7: "seven does not hold"} if k == 5 else {})
        for k in (0, 5, 10)
    ]
    printed: list[str] = []
    tally, finds, end = search(iter(batches), 6, printed.append)
    assert (tally.programs, tally.drawn, finds, end) == (6, 10, [7], 10)
    assert printed == ["seed 7: seven does not hold"]


def test_sizes_found_in_data_are_seen_in_the_form_of_an_op() -> None:
    assert {"nonzero", "compress", "argwhere", "select", "unique"} <= set(sized_by_data(OPS))
    assert not {"add", "reshape", "concat"} & set(sized_by_data(OPS))


def test_how_long_strings_are_is_no_size_of_theirs() -> None:
    """The reading on numbers has an axis of characters, which no program can ask for."""
    strings = np.array([["a", "bc", "d"]]).view("<U1").reshape(1, 3, 2)
    assert sizes_of(strings) == (1, 3) and sizes_of(np.zeros((1, 3, 2))) == (1, 3, 2)
    characters = anyshape.input("s", "char[n, m, w]")
    assert len(ops.shape_of(characters).contents or ()) == len(sizes_of(strings))


def test_a_dim_that_the_length_of_a_parameter_tells_is_that_number() -> None:
    """The kernel has an index for each place of a row, and is stated once their number is known."""
    index, values = anyshape.input("index", "i64[k, q]"), anyshape.input("values", "f32[k]")
    exe = anyshape.compile(anyshape.function([index, values], ops.sparse_to_dense(index, values, shape=[3])))
    np.testing.assert_array_equal(exe(np.array([[2]]), np.ones(1, np.float32)), [0, 0, 1])
    with pytest.raises(ShapeError, match="the length of shape"):
        exe(np.array([[2, 0]]), np.ones(1, np.float32))


def collecting(body: str, trip: int) -> tuple[Program, dict[str, Any]]:
    """A loop over v0 that carries what a call makes of the carried value and v1, and stacks it."""
    call = Call(body, ((2, 1),) if body == "concat" else (2, 1), {"axis": 0} if body == "concat" else {}, (), (3,))
    loop = Loop(4, 0, 2, Block((call,), 3), 5, 6)
    p = Program({"x": 0, "y": 1, "k": 4}, [loop], (5, 6))
    return p, {"x": np.ones(3), "y": np.ones(2), "k": np.array(trip)}


def test_what_a_refused_loop_may_say_is_what_its_first_refused_iteration_says() -> None:
    results, refused = refusals(*collecting("add", 2), 100)
    assert results is None and refused.has("add: [3] and [2] do not broadcast: 3 against 2 (n == m does not hold)", {})
    assert not refused.has("mul: [3] and [2] do not broadcast: 3 against 2", {}) and not refused.has(
        "add: anything else", {}
    )


def test_what_iterations_collect_is_reported_with_the_sizes() -> None:
    results, refused = refusals(*collecting("concat", 3), 100)
    assert results is None and refused.said == ["loop: dim 0 of what iteration 1 collects is 7, and was 5 before"]
    assert refusals(*collecting("concat", 1), 100)[0] is not None


def test_a_search_that_is_over_tries_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    over = get_context("spawn").Event()
    monkeypatch.setattr(searching, "_over", [over])
    over.set()
    assert tried(range(25), "anyshape_ops").tally.drawn == 0


def test_perturbed_readings_are_two_opposite_ones_and_another() -> None:
    mean, x = Call("mean", (0,), {"axes": (0,), "keepdims": False}, (), (1,)), np.linspace(1, 2, 12).reshape(4, 3)
    envs: list[dict[int, Any]] = []
    for sign, seed in READINGS:
        envs.append({0: x})
        Numbers(100, noise=sign * 1e-3, seed=seed).run(mean, envs[-1])
    above, below, apart = (e[1] - x.mean(0) for e in envs)
    np.testing.assert_allclose(above, -below, rtol=0.01)
    assert (above > 0).all() and (apart > 0).all() and not np.allclose(above, apart, rtol=0.01)
