"""A plugin of pytest for the laws, taken over by a `conftest.py`.

`--op NAME` restricts the laws to one op; the summary says how many random calls each law was tested with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from anyshape.graph.opdef import OpDef
from anyshape.testing import Property
from anyshape.testing.calls import has_integers, narrow_dtypes, variants
from anyshape.testing.profile import WIDE, load_profile, usual
from anyshape.testing.running import register

load_profile(usual())


@pytest.fixture
def record_property(request: Any) -> Callable[[str, Any], None]:
    """As pytest's, without its warning about xunit families."""

    def append(name: str, value: Any) -> None:
        request.node.user_properties.append((name, value))

    return append


def pytest_addoption(parser: Any) -> None:
    """In `conftest.py` of a package's own tests."""
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")


LAWS_FOR: Mapping[str, Callable[[Property], bool]] = {
    "op": lambda p: True,
    "asserting_op": lambda p: bool(p.asserts),
    "dyn_op": lambda p: len(variants(p.op)) == 2,
    "moving_op": lambda p: bool(variants(p.op)[0].moves) and not variants(p.op)[0].is_random,
    "smooth_op": lambda p: _computes_floats(variants(p.op)[0]),
    "composed_op": lambda p: variants(p.op)[0].composition is not None,
    "sequence_op": lambda p: variants(p.op)[0].sequence is not None,
    "rewriting_op": lambda p: bool(variants(p.op)[0].rewrites),
    "integer_op": lambda p: has_integers(variants(p.op)[0]) and not variants(p.op)[0].is_random,
    "narrow_op": lambda p: bool(narrow_dtypes(variants(p.op)[0])),
}
"""What a law's fixture is called, and for which ops there is such a law."""


def pytest_generate_tests(metafunc: Any) -> None:
    """The laws of a module that names a `PACKAGE` run on the ops of that package."""
    package = getattr(metafunc.module, "PACKAGE", None)
    if package is None:
        return
    properties = register(package)
    only = metafunc.config.getoption("--op")
    chosen = {n: p for n, p in properties.items() if only is None or n in only.split(",")}
    for fixture, wanted in LAWS_FOR.items():
        if fixture in metafunc.fixturenames:
            ops = [n for n, p in chosen.items() if wanted(p)]
            sampled = fixture == "smooth_op" and not WIDE and only is None
            metafunc.parametrize(fixture, ops[::3] if sampled else ops)
    if "example" in metafunc.fixturenames:
        found = [(f"{n}-{k}", (n, e)) for n, p in chosen.items() for k, e in enumerate(p.examples)]
        metafunc.parametrize("example", [e for _, e in found], ids=[label for label, _ in found])


def _computes_floats(op: OpDef) -> bool:
    """Whether it makes floats of floats, in one of its dtypes."""
    floats = [any("f64" in op.dtypes.get(d.dtype, (d.dtype,)) for d in side) for side in (op.inputs, op.outputs)]
    return all(floats) and not op.is_random


OF_ONE_OP = ("op", "asserting_op", "dyn_op", "rewriting_op", "sequence_op", "narrow_op", "integer_op")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """All laws of an op one after the other, at the places that laws have: they share its calls and what was compiled for them."""
    places = [k for k, item in enumerate(items) if _op_of(item) is not None]
    laws = [items[k] for k in places]
    number = {op: k for k, op in enumerate(dict.fromkeys(map(_op_of, laws)))}
    for k, item in zip(places, sorted(laws, key=lambda item: number[_op_of(item)])):
        items[k] = item


def _op_of(item: Any) -> str | None:
    """The op of a law; None for a test that is none."""
    if getattr(getattr(item, "module", None), "PACKAGE", None) is None or not hasattr(item, "callspec"):
        return None
    given = item.callspec.params
    return next((str(given[name]) for name in OF_ONE_OP if name in given), None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    fewest: dict[str, tuple[int, str]] = {}
    for report in terminalreporter.stats.get("passed", []):
        said = dict(report.user_properties)
        if "law" in said:
            law = str(said["law"])
            counts[law]["ops"] += 1
            counts[law]["accepted"] += int(said["accepted"])
            counts[law]["drawn"] += int(said["drawn"])
            here = (int(said["accepted"]), str(said["op"]))
            fewest[law] = min(fewest.get(law, here), here)
    if counts:
        terminalreporter.section("laws")
    for law, c in sorted(counts.items()):
        least, op = fewest[law]
        terminalreporter.line(
            f"{law}: {c['ops']} ops, {c['accepted']} random calls of {c['drawn']} drawn; at least {least} ({op})"
        )
