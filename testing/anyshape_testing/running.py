"""Running a law on random calls; what a failure prints, and running one call again.

In: a law's body, a function of one `Call`. Out: nothing where it holds; else its error, with the call, the spec's line and a
script that makes the same call again.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

import anyshape
from anyshape.errors import UnsupportedError
from anyshape.graph.registry import packages
from anyshape.properties import Case, Property
from anyshape_testing import time_budget
from anyshape_testing.accounting import LEAST, Record, Tally, different_calls, required_calls, settle
from anyshape_testing.calls import Call, Recipe, build_call, random_call, variants
from anyshape_testing.corpus import FEW, Enough, Make, allowed, corpus, search
from anyshape_testing.known_properties import KnownProperties

Body = Callable[[Call], object]
"""Of a law. What it gives is False where the call has nothing that the law speaks of: a view has no kernel to divide."""
SOME, MORE = 3, 10
"""Times as many calls are drawn where a law has something to say of too few of them; and of those."""

PROPERTIES = KnownProperties()
"""By op, of the packages under test; `register` adds to it."""
PACKAGES: dict[str, str] = {}
"""The package of each op."""
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
    """Runs body on random calls; a draw that it rejects, or of which it has nothing to say, is not counted as accepted. A law whose
    calls cost much takes a share of the usual number of examples. `refused`: it speaks of calls that the rule refuses, too.
    `every_dtype`: it has a small call more in each dtype that the op allows and no random call has. `least`: different calls that it has
    to accept, or it is weak.

    All laws of an op have the same calls, drawn once; SOME or MORE times as many where a law has too little to say. Where one fails,
    calls are drawn again to find the smallest; so they are, too, of a law that makes its own."""
    if _again:
        body(build_call(PROPERTIES[op], _again[-1]))
        return
    p, usual = PROPERTIES[op], settings().max_examples
    examples = max(min(LEAST, usual), usual // share)
    tried = Tried(body, required_calls(examples, different_calls(variants(op)[0]), least))
    declared, has_all = law.split()[0] in p.weak, True
    try:
        for times in (1,) if declared else (1, SOME, MORE):
            if times > 1 and (not tried.is_weak or time_budget.is_spent()):
                break
            if make is not random_call:
                with suppress(Unsatisfiable):  # none of which it speaks: then it is weak
                    search(p, make, examples * times, tried if times == 1 else tried.until_it_is_enough)
                continue
            drawn = corpus(p, usual * times, LEAST * min(times, 2))  # some of the first were of no use to the law
            has_all = not drawn.cut_short
            candidates = drawn.among(refused, share)
            tried.calls(
                candidates if times == 1 else tried.while_weak(candidates), examples if times == 1 else math.inf
            )
            if times == 1 and every_dtype and examples > FEW:
                tried.calls(((c, 1) for c in drawn.others), math.inf)
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
    """The call that `rerun` makes again, for a law that draws its own; else none."""
    return [build_call(PROPERTIES[op], r) for r in _again[-1:]]


class Tried:
    """A law's body and what came of it: how many calls were drawn, of how many different ones it spoke, those for which it failed."""

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
        """What the test library asks about a call that it has drawn."""
        if not (self.accepted and self._has_no_time()):
            self._try(c)
        elif not self.failing:  # else a smaller one is being looked for, and the one that was found is told
            raise Enough

    def until_it_is_enough(self, c: Call) -> None:
        """The same, as long as the law is weak."""
        if not self.is_weak:
            raise Enough
        self(c)

    def _try(self, c: Call, draws: int = 1) -> None:
        """The body on a call, unless it is one that was tried; of a failing call a smaller one is looked for, and then all are tried."""
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
        """All of them, each with how many were drawn for it, until so many were not rejected."""
        tried = 0
        for c, draws in candidates:
            if tried == most or ((tried or self.accepted) and self._has_no_time()):
                break
            with suppress(UnsatisfiedAssumption):
                self._try(c, draws)
                tried += 1

    def while_weak(self, candidates: Iterable[tuple[Call, int]]) -> Iterator[tuple[Call, int]]:
        """As many of them as it takes."""
        for c, draws in candidates:
            if not self.is_weak:
                break
            if c.identity not in self._tried:
                yield c, draws

    def smallest(self, p: Property, make: Make, examples: int, refused: bool, failure: Exception) -> Exception:
        """What the body raises for the smallest call for which it fails as it did; `failure`, which it raised, where none is found. Calls
        are drawn as they were for the law: unless it speaks of refused calls, only those that the op accepts."""
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


def origin_of(e: Exception) -> tuple[type[Exception], str, int]:
    """What kind of failure it is: its type, and the line of this package that raised it, or called what raised it."""
    lines = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(e.__traceback__) if PACKAGE in f.filename]
    return (type(e), *(lines[-1] if lines else ("", 0)))


PACKAGE = str(Path(anyshape.__file__).parent)


def report(c: Call, law: str, body: Body) -> str:
    """What there is to know about a call for which a law fails."""
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
    """Five lines of Python that run the law on this call alone."""
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
    """What the case says of contents, as arguments of `Case`."""
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
    """As a script can have it: shapes as tuples, of a variadic input a list of tuples."""
    if v is None or isinstance(v, (int, float, bool, str)):
        return v
    if isinstance(v, Mapping):
        return {k: plain(x) for k, x in v.items()}
    return [plain(x) for x in v] if isinstance(v, list) else tuple(plain(x) for x in v)


def line_of(source: str) -> str:
    """The text of a spec's line, where the spec can be read."""
    path, _, line = source.rpartition(":")
    try:
        return Path(path).read_text().splitlines()[int(line) - 1].strip()
    except (OSError, ValueError, IndexError):
        return ""
