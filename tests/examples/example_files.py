"""Files of examples/ as modules under names of their own: several folders have a `run.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(file: str, name: str) -> ModuleType:
    """Runs a file of an example as a module of a name, which others may then import."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
