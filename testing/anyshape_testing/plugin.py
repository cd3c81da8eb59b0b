"""A plugin of pytest for the laws, imported by a `conftest.py`.

`--op NAME` runs the laws of one op, and no other test; the summary says how many random calls each law was tested with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.laws.catalogue import SPEAKS_OF, stale
from anyshape_testing.process.profile import load_profile, usual
from anyshape_testing.running.counts import by_law, keep, summary

load_profile(usual())


@pytest.fixture
def record_property(request: Any) -> Callable[[str, Any], None]:
    """Records properties like pytest's fixture, without its warning about xunit families."""

    def append(name: str, value: Any) -> None:
        request.node.user_properties.append((name, value))

    return append


def pytest_addoption(parser: Any) -> None:
    """Adds `--op`."""
    parser.addoption("--op", default=None, help="run the laws of these ops alone, separated by commas")


def pytest_generate_tests(metafunc: Any) -> None:
    """Parametrises the laws of a module that names a `PACKAGE` by the ops of that package to which they apply."""
    package = getattr(metafunc.module, "PACKAGE", None)
    if package is None:
        return
    properties = register(package)
    only = metafunc.config.getoption("--op")
    chosen = {n: p for n, p in properties.items() if only is None or n in only.split(",")}
    for p in chosen.values():
        if said := stale(p):
            raise pytest.UsageError(said)
    for fixture, silent in SPEAKS_OF.items():
        if fixture in metafunc.fixturenames:
            ops = [n for n, p in chosen.items() if silent(p) is None]
            metafunc.parametrize(fixture, ops)
    if "example" in metafunc.fixturenames:
        examples = [(f"{n}-{k}", (n, e)) for n, p in chosen.items() for k, e in enumerate(p.examples)]
        metafunc.parametrize("example", [e for _, e in examples], ids=[label for label, _ in examples])


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Sorts laws by op, at the positions that laws have among the tests: laws of one op share its calls and compiled programs."""
    if config.getoption("--op") is not None:
        laws = [item for item in items if getattr(getattr(item, "module", None), "PACKAGE", None) is not None]
        known = {*laws}
        config.hook.pytest_deselected(items=[item for item in items if item not in known])
        items[:] = laws
    positions = [k for k, item in enumerate(items) if _op_of(item) is not None]
    laws = [items[k] for k in positions]
    number = {op: k for k, op in enumerate(dict.fromkeys(map(_op_of, laws)))}
    for k, item in zip(positions, sorted(laws, key=lambda item: number[_op_of(item)])):
        items[k] = item


def _op_of(item: Any) -> str | None:
    """Returns the op of a law; None for another test."""
    if getattr(getattr(item, "module", None), "PACKAGE", None) is None or not hasattr(item, "callspec"):
        return None
    params = item.callspec.params
    return next((str(params[name]) for name in SPEAKS_OF if name in params), None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints, for each law, the number of ops and calls it was tried on, and the op with the fewest calls; writes the counts of each law on
    each op to the file that LAW_COUNTS names, if it is set."""
    tallies = [dict(r.user_properties) for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    counts = by_law(t for t in tallies if "law" in t)
    if counts:
        terminalreporter.section("laws")
    for line in summary(counts):
        terminalreporter.line(line)
    if counts and "LAW_COUNTS" in os.environ:
        keep(Path(os.environ["LAW_COUNTS"]), counts)
