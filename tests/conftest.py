"""Options of the whole suite."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

from anyshape_testing.collector import collect_seldom, leave_out_what_stays

settings.register_profile(
    "anyshape", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure; each run is alike
settings.load_profile("anyshape")
collect_seldom()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")
    parser.addoption("--update-golden", action="store_true", help="write what the emitters say now as what is expected")


def pytest_collection_finish() -> None:
    leave_out_what_stays()
