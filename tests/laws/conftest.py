"""`--op NAME` restricts the laws to one op; the summary says how many random calls each law was tested with."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, settings

settings.register_profile(
    "laws",
    deadline=None,
    max_examples=int(os.environ.get("ANYSHAPE_EXAMPLES", "100")),
    derandomize=True,
    report_multiple_bugs=False,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("laws")


def pytest_generate_tests(metafunc: Any) -> None:
    from tests.laws.ops import dyn_names, examples, names

    only = metafunc.config.getoption("--op")
    wanted = set(only.split(",")) if only else None
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", [n for n in names() if wanted is None or n in wanted])
    if "dyn_op" in metafunc.fixturenames:
        metafunc.parametrize("dyn_op", [n for n in dyn_names() if wanted is None or n in wanted])
    if "example" in metafunc.fixturenames:
        chosen = [(label, e) for label, op, e in examples() if wanted is None or op in wanted]
        metafunc.parametrize("example", [e for _, e in chosen], ids=[label for label, _ in chosen])


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
