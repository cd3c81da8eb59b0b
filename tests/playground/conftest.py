"""The playground as the page has it, in a process of its own; and with NumPy, in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from website.playground.gallery import gallery

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def entries() -> dict[str, dict[str, Any]]:
    return {e["op"]: e for e in gallery()}


@pytest.fixture(scope="session")
def page() -> Iterator[Ask]:
    """Asks a process with stand-ins for NumPy, llvmlite and ml_dtypes."""
    words = [sys.executable, str(HERE / "answering.py")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(method: str = "", **arguments: Any) -> Any:
            request = {"method": method, "arguments": arguments} if method else arguments
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


@pytest.fixture(scope="session")
def here() -> Iterator[Ask]:
    """Asks in this process, with NumPy."""
    folder = str(ROOT / "website/playground/python")
    sys.path.append(folder)
    from anyshape_playground import Playground, answer

    playground = Playground((ROOT / "specs/library.yaml").read_text())
    yield lambda method, **arguments: json.loads(
        answer(playground, json.dumps({"method": method, "arguments": arguments}))
    )
    sys.path.remove(folder)
