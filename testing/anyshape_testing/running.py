"""Runs a law on random calls; describes a failure, and runs one call again.

In: a law's body, a function of one `Call`. Out: nothing where it holds; otherwise its error, with the call, the spec's line and a script
that runs the same call again.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import Phase, settings
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

import anyshape
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.registry import packages
from anyshape.properties import Case, Property
from anyshape_testing import time_budget
from anyshape_testing.accounting import LEAST, Record, Tally, different_calls, required_calls, settle
from anyshape_testing.calls import Call, Recipe, build_call, random_call, valid_node, variants
from anyshape_testing.corpus import FEW, Enough, Make, allowed, corpus, search
from anyshape_testing.execution import run_equations
from anyshape_testing.known_properties import KnownProperties

Body = Callable[[Call], object]
"""The body of a law. It returns False where the call has nothing to compare: a view has no kernel to divide."""
SOME, MORE = 3, 10
"""Factors by which more calls are drawn for a law that has accepted too few: at first, and where it still has"""
STAGES = ((1, True), (SOME, False), (MORE, False), (MORE, True))
"""The factors, in the order in which they are tried, and whether calls whose results are zeros alone are tried, too: compiling each
takes long, and few laws accept any."""

PROPERTIES = KnownProperties()
"""Properties of the packages under test by op; `register` adds to it"""
PACKAGES: dict[str, str] = {}
"""The package of each op"""
_again: list[Recipe] = []


def register(package: str) -> Mapping[str, Property]:
    """Puts the ops of a generated package under test. Raises UnsupportedError where the package is not installed."""
    if package not in {properties.__name__ for properties in packages()}:
        raise UnsupportedError(
            f"{package} is not installed, so that its ops are not found: pip install --editable . beside its pyproject.toml"
        )
    properties: Mapping[str, Property] = import_module(f"{package}.strategies").PROPERTIES
    PROPERTIES.add(properties)
    PACKAGES.update(dict.fromkeys(properties, package))
    return properties


def on_random_calls(
    op: str,
    law: str,
    record: Record,
    body: Body,
    make: Make = random_call,
    share: int = 1,
    refused: bool = False,
    every_dtype: bool = False,
    least: int = LEAST,
) -> None:
    """Runs body on random calls; a draw that it rejects, or for which it returns False, is not counted as accepted. `share`: a law whose
    calls are costly takes one in so many of the usual examples. `refused`: it also tests calls that the rule refuses. `every_dtype`: it
    gets one small call in each dtype that the op allows and no random call has. `least`: the different calls that it has to accept.

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
            if times == 1 and every_dtype and examples > FEW:
                tried.calls(((c, 1) for c in drawn.further_dtypes), math.inf)
    except Exception as e:
        smallest = e
        if make is random_call and tried.failing and Phase.shrink in settings().phases:
            smallest = tried.smallest(p, make, settings().max_examples, refused, e)
        if tried.failing:
            smallest.add_note(report(tried.failing[-1], law, body))
        raise smallest from None
    cut_short = tried.is_weak and (time_budget.is_spent() or not has_all)
    settle(Tally(law, op, tried.drawn, tried.accepted, tried.required, cut_short), p.weak, record, p.source)


def repeated(op: str) -> list[Call]:
    """Returns the call that `rerun` runs again, for a law that draws its own; otherwise none."""
    return [build_call(PROPERTIES[op], r) for r in _again[-1:]]


class Tried:
    """Runs a law's body and counts: calls that were drawn, different ones that were accepted; keeps those that failed."""

    def __init__(self, body: Body, required: int = 1) -> None:
        self.body, self.required = body, required
        self.drawn = self.accepted = 0
        self.failing: list[Call] = []
        self._tried: set[Hashable] = set()

    @property
    def is_weak(self) -> bool:
        return self.accepted < self.required

    def _has_no_time(self) -> bool:
        return time_budget.is_spent() if self.is_weak else time_budget.is_over()

    def __call__(self, c: Call) -> None:
        """Runs the body on a call that the test library has drawn. Raises Enough where there is no more time."""
        if not (self.accepted and self._has_no_time()):
            self._try(c)
        elif not self.failing:  # otherwise a smaller failing call is being searched, and the known one is reported
            raise Enough

    def until_it_is_enough(self, c: Call) -> None:
        """Runs the body on a call as long as the law is weak, then raises Enough."""
        if not self.is_weak:
            raise Enough
        self(c)

    def _try(self, c: Call, draws: int = 1) -> None:
        """Runs the body on a call that was not tried yet; after a failure, while a smaller call is searched, on every call."""
        self.drawn += draws
        if c.identity in self._tried and not self.failing:
            raise UnsatisfiedAssumption("the same call as before")
        self._tried.add(c.identity)
        try:
            telling = self.body(c) is not False
        except UnsatisfiedAssumption:
            raise
        except Exception:
            self.failing.append(c)
            raise
        self.accepted += telling

    def calls(self, candidates: Iterable[tuple[Call, int]], most: float) -> None:
        """Runs the body on calls, each with the number of draws that it took, until `most` were not rejected."""
        tried = 0
        for c, draws in candidates:
            if tried == most or ((tried or self.accepted) and self._has_no_time()):
                break
            with suppress(UnsatisfiedAssumption):
                self._try(c, draws)
                tried += 1

    def while_weak(self, candidates: Iterable[tuple[Call, int]], of_zeros: bool) -> Iterator[tuple[Call, int]]:
        """Yields calls that were not tried yet, as long as the law is weak; those whose results are zeros only if `of_zeros`."""
        for c, draws in candidates:
            if not self.is_weak:
                break
            if c.identity not in self._tried and (of_zeros or not has_zeros_alone(c)):
                yield c, draws

    def smallest(self, p: Property, make: Make, examples: int, refused: bool, failure: Exception) -> Exception:
        """Returns the error of the body for the smallest call that fails in the same way, or `failure` where none is found. Calls are drawn
        as for the law: only those that the op accepts, unless `refused`."""
        first, origin = self.failing[-1], origin_of(failure)

        def again(c: Call) -> None:
            try:
                self(c if refused else allowed(c))
            except UnsatisfiedAssumption:
                raise
            except Exception as e:
                if origin_of(e) == origin:
                    raise
                self.failing.pop()
                raise UnsatisfiedAssumption("the law fails for another reason") from None

        try:
            search(p, make, examples, again)
        except Exception as e:
            if self.failing[-1] is not first and not isinstance(e, ExceptionGroup):  # a group: it fails at times
                return e
        self.failing.append(first)
        return failure


def has_zeros_alone(c: Call) -> bool:
    """Whether all results of a call are zeros, or have no elements, so that a comparison that allows for rounding says nothing of them."""
    try:
        node = valid_node(c)
        return node.op.kernel is not None and not any(np.any(r) for r in run_equations(c, node))
    except (AnyshapeError, UnsatisfiedAssumption):
        return False


def origin_of(e: Exception) -> tuple[type[Exception], str, int]:
    """Identifies a kind of failure by its type and the line of this package that raised it, or called what raised it."""
    lines = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(e.__traceback__) if PACKAGE in f.filename]
    return (type(e), *(lines[-1] if lines else ("", 0)))


PACKAGE = str(Path(anyshape.__file__).parent)


def report(c: Call, law: str, body: Body) -> str:
    """Describes a call for which a law fails."""
    p, r = c.property, c.recipe
    if r is None:
        return f"law {law} of {p.op} ({p.source})"
    shapes = plain(r.case.shapes)
    params = {k: v for k, v in r.case.params.items() if v is not None}
    lines = [
        f"\nlaw {law} of {p.op}, {p.source}: {line_of(p.source)}",
        f"  shapes {shapes}, dtypes {dict(r.dtypes)}, params {params}, seed {r.seed}, contents {r.style}",
        "again:",
        script(c, body),
    ]
    return "\n".join(lines)


def script(c: Call, body: Body) -> str:
    """Writes five lines of Python that run the law on this call alone."""
    p, r = c.property, c.recipe
    assert r is not None
    name = f"{body.__module__}:{body.__qualname__.split('.')[0]}"
    asked = "".join(f", {name}={value}" for name, value in asked_of(r.case).items())
    return "\n".join(
        [
            "    from anyshape_testing.running import rerun",
            f"    shapes = {(plain(r.case.shapes))}",
            f"    params = {plain(r.case.params)}",
            f"    contents = dict(dtypes={dict(r.dtypes)}, seed={r.seed}, style={r.style!r}{asked})",
            f"    rerun({name!r}, {PACKAGES.get(p.op, 'anyshape_ops')!r}, {p.op!r}, shapes, params, **contents)",
        ]
    )


def asked_of(case: Case) -> dict[str, Any]:
    """Returns what the case demands of contents, as arguments of `Case`."""
    asked = {"ranges": dict(case.ranges), "rising": set(case.rising), "ends": dict(case.ends)}
    return {name: value for name, value in asked.items() if value}


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


def plain(v: Any) -> Any:
    """Converts a value to literals for a script: shapes to tuples, those of a variadic input to a list of tuples."""
    if v is None or isinstance(v, (int, float, bool, str)):
        return v
    if isinstance(v, Mapping):
        return {k: plain(x) for k, x in v.items()}
    return [plain(x) for x in v] if isinstance(v, list) else tuple(plain(x) for x in v)


def line_of(source: str) -> str:
    """Reads a line of a spec; empty where the spec cannot be read."""
    path, _, line = source.rpartition(":")
    try:
        return Path(path).read_text().splitlines()[int(line) - 1].strip()
    except (OSError, ValueError, IndexError):
        return ""
