"""Options of the whole suite."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from anyshape_testing.process.collector import collect_seldom, leave_out_what_stays
from anyshape_testing.process.frames import call_with_frames
from anyshape_testing.process.profile import LONG
from tests.sampling import sampled

settings.register_profile(
    "anyshape", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure; each run is alike
settings.load_profile("anyshape")
collect_seldom()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")
    parser.addoption("--update-golden", action="store_true", help="write what the emitters say now as what is expected")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of tests that are marked as `sampled`, unless nothing is sampled."""
    kept, left = ([*items], []) if LONG else sampled(items)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_collection_finish() -> None:
    leave_out_what_stays()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool:
    """Calls a test as pytest does, with frames enough for all that it calls."""
    call_with_frames(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True
