"""Running a law on random calls; what a failure prints, and running one call again.

In: a law's body, a function of one `Call`. Out: nothing where it holds; else its error, with the call, the spec's line and a
script that makes the same call again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from anyshape.testing import Case, Property
from anyshape.testing.calls import Call, Recipe, made, random_call

Record = Callable[[str, Any], None]
Body = Callable[[Call], object]
"""Of a law. What it gives is False where the call has nothing that the law speaks of: a view has no kernel to divide."""
Make = Callable[[Property, Any], Call]

PROPERTIES: dict[str, Property] = {}
"""By op, of the packages under test; `register` adds to it."""
PACKAGES: dict[str, str] = {}
"""The package of each op."""
_again: list[Recipe] = []


class Count:
    """How many calls were drawn, and how many of them were valid."""

    def __init__(self) -> None:
        self.drawn = self.accepted = 0


def register(package: str) -> Mapping[str, Property]:
    """Puts the ops of a generated package under test."""
    found: Mapping[str, Property] = import_module(f"{package}.strategies").PROPERTIES
    PROPERTIES.update(found)
    PACKAGES.update(dict.fromkeys(found, package))
    return found


def on_random_calls(op: str, law: str, record: Record, body: Body, make: Make = random_call, share: int = 1) -> None:
    """Runs body on random calls; a draw that it rejects, or of which it has nothing to say, is not counted as accepted. A law whose
    calls cost much takes a share of the usual number of examples."""
    if _again:
        body(made(PROPERTIES[op], _again[-1]))
        return
    count = Count()
    failing: list[Call] = []

    @settings(max_examples=max(5, settings().max_examples // share))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        count.drawn += 1
        c = make(PROPERTIES[op], data.draw)
        try:
            told = body(c) is not False
        except UnsatisfiedAssumption:
            raise
        except Exception:
            failing.append(c)
            raise
        count.accepted += told

    try:
        run()
    except Exception as e:
        if failing:
            e.add_note(report(failing[-1], law, body))
        raise
    for key, value in {"law": law, "op": op, "drawn": count.drawn, "accepted": count.accepted}.items():
        record(key, value)


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
