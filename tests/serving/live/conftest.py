"""Tests of a running server; they are left out where the extra is not installed (`make test-serve` installs it, with a client)."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = ("aiohttp", "grpc", "prometheus_client", "tritonclient")
collect_ignore_glob = [] if all(map(find_spec, PACKAGES)) else ["test_*.py"]
