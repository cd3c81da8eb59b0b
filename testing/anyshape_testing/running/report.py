"""Describes a call for which a law fails, with the line of the spec and a script that runs the law on this call again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyshape.properties import Case
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.packages import PACKAGES
from anyshape_testing.running.trying import Body


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
