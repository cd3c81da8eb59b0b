"""Law 5: every rewrite of a spec keeps values and types, on random instances of its left side, on numbers and on symbols.

Instances begin with each dtype that is allowed, since a rewrite may be wrong for unsigned integers only. A rewrite that never fires fails
the law.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from anyshape.graph.value import Value
from anyshape.properties import Case
from anyshape_testing.calls.call import Recipe, variants
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES, register
from anyshape_testing.draw.choices import Choosing
from anyshape_testing.draw.corpus import FEW, Enough
from anyshape_testing.process.profile import LEAST
from anyshape_testing.rewrites.comparison import applied
from anyshape_testing.rewrites.instances import Instance, left_side
from anyshape_testing.rewrites.text import (
    calls_within,
    dtypes_of_term,
    elements_read,
    first_dtypes,
    numbers_of,
    pattern_of,
    single_elements,
)
from anyshape_testing.running.accounting import Tally, required_calls, settle
from anyshape_testing.running.random_calls import MORE
from anyshape_testing.running.report import asked_of, line_of, plain

Record = Callable[[str, Any], None]
LAW = "5 rewrites keep values and types"
ENOUGH = 100
"""Instances after which a rewrite that has not fired fails"""


def test_rewrites(rewriting_op: str, record_property: Record) -> None:
    p, drawn = PROPERTIES[rewriting_op], 0
    fired: list[int] = []
    for k, rewrite in enumerate(variants(rewriting_op)[0].rewrites):
        here, times = fires(rewriting_op, k)
        assert here or times < ENOUGH, f"{rewrite.source}: {rewrite.text} never fired in {times} instances"
        drawn, fired = drawn + times, [*fired, here]
    # Each rewrite has to be accepted on its own: one that fires often does not test another.
    least = required_calls(settings().max_examples)
    accepted = sum(fired) if min(fired) >= least else min(fired)
    settle(Tally(LAW, rewriting_op, drawn, accepted, least), p.weak, record_property, p.source)


def fires(op: str, number: int) -> tuple[int, int]:
    """Returns how often the op's rewrite of that number fired and was compared, and on how many instances. Raises AssertionError where it
    is wrong."""
    rewrite = variants(op)[0].rewrites[number]
    counts = [0, 0]
    failing: list[Instance] = []

    def search(examples: int, dtypes: Mapping[str, Sequence[str]], enough: float = math.inf) -> None:
        @st.composite  # one strategy for the whole instance: a draw within it costs a tenth of one with `data()`
        def instances(draw: Any) -> tuple[Instance, Value]:
            counts[1] += 1
            instance = Instance(
                Choosing(draw),
                known=elements_read(rewrite),
                numbers=numbers_of(rewrite),
                single=single_elements(rewrite),
                first=dtypes,
            )
            return instance, left_side(rewrite, instance)

        @settings(max_examples=examples)
        @given(instances())
        def run(drawn: tuple[Instance, Value]) -> None:
            instance, before = drawn
            try:
                counts[0] += applied(rewrite, instance, before)
            except AssertionError:
                failing.append(instance)
                raise
            if counts[0] >= enough:  # after the draws, since the test library may run it again
                raise Enough

        run()

    calls = max(settings().max_examples, 2 * LEAST)  # few of them fire
    try:
        search(calls, {})
        taken = dtypes_of_term(rewrite)
        for var, dtype in first_dtypes(rewrite):
            with suppress(Unsatisfiable):  # a call of that dtype may fit no pattern
                search(FEW if dtype in taken.get(var, (dtype,)) else 1, {var: (dtype,)})
        if counts[0] < (least := required_calls(settings().max_examples)):
            with suppress(Enough):
                search(MORE * calls_within(rewrite) * calls, taken, least)
    except AssertionError as e:
        if failing:
            e.add_note(report(op, number, failing[-1]))
        raise
    return counts[0], counts[1]


def report(op: str, number: int, instance: Instance) -> str:
    """Describes an instance for which a rewrite fails: its calls, the spec's line and a script that runs it again."""
    source = variants(op)[0].rewrites[number].source
    calls = [
        {
            "shapes": plain(r.case.shapes), "params": plain(r.case.params), "dtypes": dict(r.dtypes), "seed": r.seed,
            "style": r.style, **asked_of(r.case),
        }
        for r in instance.recipes
    ]  # fmt: skip
    summary = "; ".join(f"shapes {c['shapes']}, dtypes {c['dtypes']}, seed {c['seed']}" for c in calls)
    return "\n".join(
        [
            f"\nlaw {LAW} of {op}, {source}: {line_of(source)}",
            f"  {summary}",
            "again:",
            "    from anyshape_testing.laws.rewriting import rerun",
            f"    calls = {calls}",
            f"    rerun({PACKAGES[op]!r}, {op!r}, {number}, calls)",
        ]
    )


def _recipe(shapes: Any, params: Any, dtypes: Mapping[str, str], seed: int, style: str, **asked: Any) -> Recipe:
    return Recipe(Case(shapes, params, **asked), dtypes, seed, style)


def rerun(package: str, op: str, number: int, calls: Sequence[Mapping[str, Any]]) -> None:
    """Applies one rewrite to one instance of its left side. Raises what the law raises."""
    register(package)
    again = [_recipe(**c) for c in calls]
    rewrite = variants(op)[0].rewrites[number]
    if sum(isinstance(n, ast.Call) for n in ast.walk(pattern_of(rewrite))) != len(calls):
        print(f"{rewrite.text} is another rewrite than these calls were made for")
        return
    instance = Instance(
        None, again=again, known=elements_read(rewrite), numbers=numbers_of(rewrite), single=single_elements(rewrite)
    )
    fired = applied(rewrite, instance, left_side(rewrite, instance))
    print(f"{rewrite.text} {'holds for' if fired else 'does not fire on'} these calls")


__all__ = ["test_rewrites"]
