"""Options of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from anyshape_testing.process.collector import collect_seldom, leave_out_what_stays
from anyshape_testing.process.frames import call_with_frames
from anyshape_testing.process.profile import LONG, SUPPRESSED
from tests.sampling import asked, recorded, sampled

settings.register_profile(
    "anyshape", deadline=None, derandomize=True, suppress_health_check=SUPPRESSED
)  # a busy machine is no failure; each run is alike
settings.load_profile("anyshape")
collect_seldom()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")
    parser.addoption("--update-golden", action="store_true", help="write what the emitters say now as what is expected")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what another sample of the tests has."""
    sample = None if LONG else asked()
    if sample is not None:
        items[:], left = sampled(items, recorded(), sample)
        config.hook.pytest_deselected(items=left)


def processor_seconds() -> float:
    """Returns what this process took of processors, with the processes that it waited for."""
    return sum(os.times()[:4])


_processor = processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Gives each phase of a test the seconds of a processor as its duration, which other work beside it does not change; those of processes
    that it waited for are among them."""
    global _processor
    report = yield
    before, _processor = _processor, processor_seconds()
    report.duration = _processor - before
    return report


def pytest_collection_finish() -> None:
    global _processor
    leave_out_what_stays()
    _processor = processor_seconds()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool:
    """Calls a test as pytest does, with frames enough for all that it calls."""
    call_with_frames(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True
