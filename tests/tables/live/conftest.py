"""Tests with pyarrow and Ray; they are left out where the extra is not installed (`make test-ray` installs it)."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if all(map(find_spec, ("pyarrow", "ray"))) else ["test_*.py"]
