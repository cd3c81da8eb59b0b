"""Runs `anyshape-gen doctor`, which needs nothing to be installed: it says what is not.

In: the options of the command. Out: a line for each check, or JSON, and 1 if there is an error, else 0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from anyshape_gen.arguments import DEFAULT_PACKAGE, printable
from anyshape_gen.doctor.answer import Level, Line, checked
from anyshape_gen.doctor.environment import environment


def doctor(options: argparse.Namespace) -> int:
    """Prints the answer. Returns the exit code."""
    lines = []
    for line in examined(options.package):
        lines.append(line)
        if not options.json:
            print(printable(str(line)), flush=True)
    errors, warnings = (sum(line.level is level for line in lines) for level in (Level.ERROR, Level.WARNING))
    if options.json:
        print(json.dumps({"lines": [asdict(line) for line in lines], "errors": errors, "warnings": warnings}, indent=1))
    else:
        print(f"{errors} errors, {warnings} warnings, {len(lines) - errors - warnings} ok")
    return 1 if errors else 0


def examined(place: str) -> Iterator[Line]:
    """The lines about the environment, then those about a package if one is named."""
    yield from environment()
    if place != DEFAULT_PACKAGE:
        yield from checked(place, partial(_package, place))


def _package(place: str) -> Iterator[Line]:
    from anyshape_gen.doctor.package import package

    yield from package(place)
