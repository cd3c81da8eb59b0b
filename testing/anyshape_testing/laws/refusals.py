"""Law 6: a call is refused with the same message everywhere.

A call that an assert refuses is refused with the assert's text: on numbers when it is built, by either variant; on symbols when it is
built or, at the latest, when it runs, by the native loop and by Python with the same words. Calls are drawn at random with one dim wrong
(6a), and for every assert by itself (6b).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import reject

from anyshape.errors import AnyshapeError, ShapeError, TypeRelationError, UnsupportedError
from anyshape.properties import Refusal
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.nodes import dyn_node, static_node
from anyshape_testing.calls.operands import input_arrays, typed
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES, register
from anyshape_testing.compare.wording import broken, is_of, is_one, is_one_early
from anyshape_testing.draw.aiming import aims
from anyshape_testing.draw.wrong_calls import wrong_call
from anyshape_testing.execution.native import arguments, compiled
from anyshape_testing.laws.executors import NATIVE, OPTIONS, PYTHON, Array, executables
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import LONG
from anyshape_testing.running.accounting import Record, Tally, settle
from anyshape_testing.running.random_calls import on_random_calls

AIMED = 20 if LONG else 2
"""The most calls for each assert"""


def test_refusals(refusing_op: str, record_property: Record) -> None:
    def body(c: Call) -> None:
        try:
            static_node(c)
        except ShapeError as e:
            refused_everywhere(c, str(e))
            return
        reject()

    on_random_calls(refusing_op, "6a refused alike", record_property, body, wrong_call, share=4)


def refused_everywhere(c: Call, said: str) -> None:
    """Asserts that every executor refuses the call with one message: that of numbers, perhaps with the equation that does not hold. Rejects
    a call without results, which no program contains."""
    programs = executables(c)
    if not isinstance(programs, TypeRelationError) and not programs[NATIVE].output_names:
        reject()
    texts = (said, *all_broken(c))
    if isinstance(programs, TypeRelationError):
        assert _is_expected(str(programs), texts), f"on numbers: {said}; on symbols: {programs}"
        return
    messages = {}
    for way, f in programs.items():
        inputs = arguments(c)
        try:
            f.run({name: inputs[name] for name in f.input_names})
        except AnyshapeError as e:
            messages[way] = str(e)
            continue
        raise AssertionError(f"refused on numbers ({said}), and the {way} runs it")
    assert len(set(messages.values())) == 1, f"one refusal in different words: {messages}"
    (message,) = set(messages.values())
    assert _is_expected(message, texts), f"on numbers: {said}; when it runs: {message}"


def _is_expected(message: str, texts: Sequence[str]) -> bool:
    """Whether a message is one of those with which the call is refused on numbers."""
    return any(is_one(message, s) or is_one_early(message, s) for s in texts)


def all_broken(c: Call) -> list[str]:
    """Lists the messages of all asserts that a call breaks: a run may report another one than the first, if it can be decided earlier."""
    return broken(c.op, c.values(typed), c.params)[0]


# --- each assert by itself


def test_asserts(asserting_op: str, record_property: Record) -> None:
    p = PROPERTIES[asserting_op]
    targets = aims(p, AIMED)
    held = 0
    for a in targets:
        if held and time_budget.is_over():
            break
        calls = a.chosen(AIMED)
        assert calls or time_budget.is_over(), (
            f"{a.refusal.source}: no call was found that this assert refuses: {a.refusal.message}"
        )
        held += len(calls)
        for c in calls:
            try:
                refused_by(c, a.refusal)
            except AssertionError as e:
                raise AssertionError(f"{e}\n{_report(c, a.refusal)}") from e
    law = "6b each assert refuses, by a draw of its own"
    settle(Tally(law, p.op, held, held, len(targets), time_budget.is_over()), p.weak, record_property, p.source)


def asserts_again(package: str, op: str) -> None:
    """Runs law 6b on one op again; its draws are always the same. Raises what the law raises."""
    register(package)
    test_asserts(op, lambda key, value: None)
    print(f"each assert of {op} refuses what is aimed at it")


def _report(c: Call, r: Refusal) -> str:
    """Describes a call that an assert should refuse, with a script that runs it again."""
    shapes = {name: a.shape for name, a in input_arrays(c).items()}
    dtypes = {name: str(a.dtype) for name, a in input_arrays(c).items()}
    op = c.property.op
    return (
        f"\nlaw 6 of {op}, {r.source}: {r.message}\n"
        f"  shapes {shapes}, dtypes {dtypes}, params {dict(c.params)}, seed 0, as in every run\n"
        "again:\n"
        "    from anyshape_testing.laws.refusals import asserts_again\n"
        f"    asserts_again({PACKAGES[op]!r}, {op!r})"
    )


def refused_by(c: Call, r: Refusal) -> None:
    """Asserts that both variants and both executors refuse a call with the assert's message; one that breaks several with that of one."""
    where = f"{r.source}: {r.message}"
    said = message_of(lambda: static_node(c))
    assert is_of(r, said), f"{where} does not say so of numbers: {said}"
    texts = list(dict.fromkeys((said, *all_broken(c))))
    alone = len(texts) == 1
    both = len(variants(c.property.op)) == 2
    if both:
        again = message_of(lambda: dyn_node(c))
        same = any(is_one(again, s) for s in texts) or is_of(r, again)
        assert same, f"{where}: static says {said}, and dyn {again}"
    for static in (True, False) if both else (True,):
        native = compiled(c, static)
        if isinstance(native, UnsupportedError):
            continue
        if isinstance(native, TypeRelationError):
            early = any(is_one_early(str(native), s) for s in texts)
            assert early, f"{where} is told in other words of symbols: {native}"
            continue
        if not native.output_names:  # a program does not contain a call without results
            continue
        inputs = arguments(c, static)
        walked = native.by(**OPTIONS[PYTHON])
        messages = {way: run_message(exe, inputs) for way, exe in ((NATIVE, native), (PYTHON, walked))}
        (message, *differing) = set(messages.values())
        assert not differing, f"{where} is told in different words: {messages}"
        assert is_of(r, message) or not alone, f"{where} is told in other words when it runs: {message}"
        assert _is_expected(message, texts), f"on numbers: {said}; when it runs: {message}"


def run_message(exe: Any, inputs: Mapping[str, Array]) -> str:
    return message_of(lambda: exe.run({n: inputs[n] for n in exe.input_names}))


def message_of(run: Callable[[], Any]) -> str:
    try:
        run()
    except AnyshapeError as e:
        return str(e)
    raise AssertionError("what is refused elsewhere is taken here")
