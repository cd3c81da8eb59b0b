"""Runs a law on random calls, and on one call again.

In: a law's body, a function of one `Call`. Out: nothing where it holds; otherwise its error, with the call, the spec's line and a script
that runs the same call again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any
from zlib import crc32

from hypothesis import Phase, settings
from hypothesis.errors import Unsatisfiable

from anyshape.properties import Case
from anyshape_testing.calls.call import Call, Recipe, build_call, variants
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.draw.corpus import FEW, Make, corpus, search
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import LEAST
from anyshape_testing.running.accounting import Record, Tally, different_calls, required_calls, settle
from anyshape_testing.running.report import report
from anyshape_testing.running.trying import Body, Tried

SOME, MORE = 3, 10
"""Factors by which more calls are drawn for a law that has accepted too few: at first, and where it still has"""
STAGES = ((1, True), (SOME, False), (MORE, False), (MORE, True))
"""The factors, in the order in which they are tried, and whether calls whose results are zeros alone are tried, too: compiling each
takes long, and few laws accept any."""
_again: list[Recipe] = []


def on_random_calls(
    op: str,
    law: str,
    record: Record,
    body: Body,
    make: Make = random_call,
    share: int = 1,
    refused: bool = False,
    dtypes: int = 0,
    least: int = LEAST,
) -> None:
    """Runs body on random calls; a draw that it rejects, or for which it returns False, is not counted as accepted. `share`: a law whose
    calls are costly takes one in so many of the usual examples. `refused`: it also tests calls that the rule refuses. `dtypes`: it gets
    one small call in one of so many of the dtypes that the op allows and no random call has; 0: in none. `least`: the different calls that
    it has to accept.

    All laws of an op have the same calls, drawn once; SOME or MORE times as many where a law accepts too few. Where a law fails, calls are
    drawn again to find the smallest that fails; a law with a `make` of its own always draws calls for itself."""
    if _again:
        body(build_call(PROPERTIES[op], _again[-1]))
        return
    p, usual = PROPERTIES[op], settings().max_examples
    examples = max(min(LEAST, usual), usual // share)
    tried = Tried(body, required_calls(examples, different_calls(variants(op)[0]), least))
    declared, has_all = law.split()[0] in p.weak, True
    try:
        for times, of_zeros in STAGES[:1] if declared else STAGES[:3] if make is not random_call else STAGES:
            if times > 1 and (not tried.is_weak or time_budget.is_spent()):
                break
            if make is not random_call:
                with suppress(Unsatisfiable):  # no call is accepted: the law is weak then
                    search(p, make, examples * times, tried if times == 1 else tried.until_it_is_enough)
                continue
            drawn = corpus(p, usual * times, LEAST * min(times, 2))  # some of the first were of no use to the law
            has_all = not drawn.cut_short
            candidates = drawn.among(refused, share)
            tried.calls(
                candidates if times == 1 else tried.while_weak(candidates, of_zeros),
                examples if times == 1 else math.inf,
            )
            if times == 1 and dtypes and examples > FEW:
                tried.calls(((c, 1) for c in one_in(dtypes, drawn.further_dtypes, op)), math.inf)
    except Exception as e:
        smallest = e
        if make is random_call and tried.failing and Phase.shrink in settings().phases:
            smallest = tried.smallest(p, make, settings().max_examples, refused, e)
        if tried.failing:
            smallest.add_note(report(tried.failing[-1], law, body))
        raise smallest from None
    cut_short = tried.is_weak and (time_budget.is_spent() or not has_all)
    settle(Tally(law, op, tried.drawn, tried.accepted, tried.required, cut_short), p.weak, record, p.source)


def one_in(many: int, calls: Sequence[Call], op: str) -> Sequence[Call]:
    """Takes one in so many calls; of different ops different ones, so that all ops together have all dtypes."""
    return calls[crc32(op.encode()) % min(many, max(len(calls), 1)) :: many]


def repeated(op: str) -> list[Call]:
    """Returns the call that `rerun` runs again, for a law that draws its own; otherwise none."""
    return [build_call(PROPERTIES[op], r) for r in _again[-1:]]


def rerun(
    law: str,
    package: str,
    op: str,
    shapes: Mapping[str, Any],
    params: Mapping[str, Any],
    dtypes: Mapping[str, str],
    seed: int,
    style: str,
    **asked: Any,
) -> None:
    """Runs one law, `module:function`, on one call. Raises what the law raises."""
    register(package)
    module, name = law.split(":")
    _again.append(Recipe(Case(shapes, params, **asked), dtypes, seed, style))
    try:
        getattr(import_module(module), name)(op, lambda key, value: None)
    finally:
        _again.pop()
    print(f"{law} holds for this call of {op}")
