"""Running a law on random calls; what a failure prints, and running one call again.

In: a law's body, a function of one `Call`. Out: nothing where it holds; else its error, with the call, the spec's line and a
script that makes the same call again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis.errors import UnsatisfiedAssumption

import anyshape
from anyshape.errors import UnsupportedError
from anyshape.graph.registry import packages
from anyshape.testing import Case, Property, turn
from anyshape.testing.calls import Call, Recipe, made, random_call
from anyshape.testing.corpus import FEW, Enough, Make, allowed, corpus, search
from anyshape.testing.properties import KnownProperties

Record = Callable[[str, Any], None]
Body = Callable[[Call], object]
"""Of a law. What it gives is False where the call has nothing that the law speaks of: a view has no kernel to divide."""

PROPERTIES = KnownProperties()
"""By op, of the packages under test; `register` adds to it."""
PACKAGES: dict[str, str] = {}
"""The package of each op."""
_again: list[Recipe] = []


def register(package: str) -> Mapping[str, Property]:
    """Puts the ops of a generated package under test. Raises UnsupportedError where the package is not installed."""
    if package not in {found.__name__ for found in packages()}:
        raise UnsupportedError(
            f"{package} is not installed, so that its ops are not found: pip install --editable . beside its pyproject.toml"
        )
    found: Mapping[str, Property] = import_module(f"{package}.strategies").PROPERTIES
    PROPERTIES.add(found)
    PACKAGES.update(dict.fromkeys(found, package))
    return found


def on_random_calls(
    op: str,
    law: str,
    record: Record,
    body: Body,
    make: Make = random_call,
    share: int = 1,
    refused: bool = False,
    every_dtype: bool = False,
) -> None:
    """Runs body on random calls; a draw that it rejects, or of which it has nothing to say, is not counted as accepted. A law whose
    calls cost much takes a share of the usual number of examples. `refused`: it speaks of calls that the rule refuses, too.
    `every_dtype`: it has a small call more in each dtype that the op allows and no random call has.

    All laws of an op have the same calls, drawn once. Where one fails, calls are drawn again to find the smallest; so they are, too, of
    a law that makes its own."""
    if _again:
        body(made(PROPERTIES[op], _again[-1]))
        return
    p = PROPERTIES[op]
    tried = Tried(body)
    examples = max(5, settings().max_examples // share)
    try:
        if make is random_call:
            found = corpus(p, settings().max_examples)
            tried.calls(found.among(refused, share), examples)
            if every_dtype and examples > FEW:
                tried.calls(found.others, len(found.others))
        else:
            search(p, make, examples, tried)
    except Exception as e:
        smallest = e
        if make is random_call and tried.failing and Phase.shrink in settings().phases:
            smallest = tried.smallest(p, make, settings().max_examples, refused, e)
        if tried.failing:
            smallest.add_note(report(tried.failing[-1], law, body))
        raise smallest from None
    for key, value in {"law": law, "op": op, "drawn": tried.drawn, "accepted": tried.accepted}.items():
        record(key, value)


def repeated(op: str) -> list[Call]:
    """The call that `rerun` makes again, for a law that draws its own; else none."""
    return [made(PROPERTIES[op], r) for r in _again[-1:]]


class Tried:
    """A law's body and what came of it: how many calls were drawn, how many it spoke of, those for which it failed."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.drawn = self.accepted = 0
        self.failing: list[Call] = []

    def __call__(self, c: Call) -> None:
        """What the test library asks about a call that it has drawn."""
        if not (self.accepted and turn.is_over()):
            self._try(c)
        elif not self.failing:  # else a smaller one is being looked for, and the one that was found is told
            raise Enough

    def _try(self, c: Call) -> None:
        self.drawn += 1
        try:
            told = self.body(c) is not False
        except UnsatisfiedAssumption:
            raise
        except Exception:
            self.failing.append(c)
            raise
        self.accepted += told

    def calls(self, given: Iterable[Call], most: int) -> None:
        """All of them, until so many were not rejected."""
        tried = 0
        for c in given:
            if tried == most or ((tried or self.accepted) and turn.is_over()):
                break
            with suppress(UnsatisfiedAssumption):
                self._try(c)
                tried += 1

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
            if self.failing[-1] is not first:
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
    ranges = f", ranges={dict(r.case.ranges)}" if r.case.ranges else ""
    return "\n".join(
        [
            "    from anyshape.testing.running import rerun",
            f"    shapes = {(plain(r.case.shapes))}",
            f"    params = {plain(r.case.params)}",
            f"    contents = dict(dtypes={dict(r.dtypes)}, seed={r.seed}, style={r.style!r}{ranges})",
            f"    rerun({name!r}, {PACKAGES.get(p.op, 'anyshape_ops')!r}, {p.op!r}, shapes, params, **contents)",
        ]
    )


def rerun(
    law: str,
    package: str,
    op: str,
    shapes: Mapping[str, Any],
    params: Mapping[str, Any],
    dtypes: Mapping[str, str],
    seed: int,
    style: str,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> None:
    """Runs one law, `module:function`, on one call. Raises what the law raises."""
    register(package)
    module, name = law.split(":")
    _again.append(Recipe(Case(shapes, params, ranges or {}), dtypes, seed, style))
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
