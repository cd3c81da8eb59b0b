"""A plugin of pytest for the laws, taken over by a `conftest.py`.

`--op NAME` restricts the laws to one op; the summary says how many random calls each law was tested with.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from anyshape.graph.opdef import OpDef
from anyshape.testing.calls import variants
from anyshape.testing.profile import WIDE, load_profile, usual
from anyshape.testing.running import register

load_profile(usual())


def pytest_addoption(parser: Any) -> None:
    """In `conftest.py` of a package's own tests."""
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")


def pytest_generate_tests(metafunc: Any) -> None:
    """The laws of a module that names a `PACKAGE` run on the ops of that package."""
    package = getattr(metafunc.module, "PACKAGE", None)
    if package is None:
        return
    properties = register(package)
    only = metafunc.config.getoption("--op")
    chosen = {n: p for n, p in properties.items() if only is None or n in only.split(",")}
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", list(chosen))
    if "asserting_op" in metafunc.fixturenames:
        metafunc.parametrize("asserting_op", [n for n, p in chosen.items() if p.asserts])
    if "dyn_op" in metafunc.fixturenames:
        metafunc.parametrize("dyn_op", [n for n in chosen if len(variants(n)) == 2])
    if "moving_op" in metafunc.fixturenames:
        moving = [n for n in chosen if variants(n)[0].moves and not variants(n)[0].is_random]
        metafunc.parametrize("moving_op", moving)
    if "smooth_op" in metafunc.fixturenames:
        smooth = [n for n in chosen if _computes_floats(variants(n)[0])]
        metafunc.parametrize("smooth_op", smooth if WIDE or only is not None else smooth[::3])
    if "composed_op" in metafunc.fixturenames:
        metafunc.parametrize("composed_op", [n for n in chosen if variants(n)[0].composition is not None])
    if "sequence_op" in metafunc.fixturenames:
        metafunc.parametrize("sequence_op", [n for n in chosen if variants(n)[0].sequence is not None])
    if "rewriting_op" in metafunc.fixturenames:
        metafunc.parametrize("rewriting_op", [n for n in chosen if variants(n)[0].rewrites])
    if "example" in metafunc.fixturenames:
        found = [(f"{n}-{k}", (n, e)) for n, p in chosen.items() for k, e in enumerate(p.examples)]
        metafunc.parametrize("example", [e for _, e in found], ids=[label for label, _ in found])


def _computes_floats(op: OpDef) -> bool:
    """Whether it makes floats of floats, in one of its dtypes."""
    floats = [any("f64" in op.dtypes.get(d.dtype, (d.dtype,)) for d in side) for side in (op.inputs, op.outputs)]
    return all(floats) and not op.is_random


OF_ONE_OP = ("op", "asserting_op", "dyn_op", "rewriting_op", "sequence_op")


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
