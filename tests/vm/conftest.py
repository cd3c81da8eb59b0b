"""Handmade ops are found by their names while these tests run, in place of generated ones of the same names; and every test
runs twice: interpreted kernels called from Python, and machine code called by the native loop."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import anyshape.graph.matching  # noqa: F401  bound to the true registry, before another stands in its place
from anyshape.graph import registry
from anyshape.passes import simplify
from anyshape.vm.native import allocator, executor
from anyshape.vm.native.ahead import Ahead
from anyshape.vm.native.allocator import new_allocator, store_of
from anyshape.vm.native.allocator_code import TOUCH, TOUCHED

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, params=["interpret", "native"])
def handmade_ops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import handmade

    ops = {**registry.all_ops(), **handmade.OPS}
    monkeypatch.setattr(registry, "all_ops", lambda: ops)
    monkeypatch.setattr(simplify, "all_ops", lambda: ops)
    monkeypatch.setenv("ANYSHAPE_KERNELS", request.param)
    yield


@pytest.fixture
def new_allocators(monkeypatch: pytest.MonkeyPatch) -> int:
    """The first of two allocators of which other tests of the process have nothing.

    Both stay as long as the process, with few addresses: those of many tests would leave none to a child that may have few.
    """
    monkeypatch.setattr(allocator, "STORE", 1 << 26)
    entry, methods = executor._entry(), copy.copy(executor._methods())
    assert entry is not None and methods is not None
    methods.allocator = new_allocator(entry.address)
    ahead = Ahead(store_of(methods.allocator), entry.address(TOUCH), entry.address(TOUCHED))
    monkeypatch.setattr(executor, "_methods", lambda: methods)
    monkeypatch.setattr(executor, "_ahead", lambda: ahead)
    return methods.allocator
