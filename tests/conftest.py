"""Options of the whole suite."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--op", default=None, help="restrict the laws to these ops, separated by commas")
    parser.addoption("--update-golden", action="store_true", help="write what the emitters say now as what is expected")
