"""Systems that the run time is for, and others, which are told so before anything else fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from anyshape.errors import UnsupportedError
from anyshape.vm.native import demand_platform


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_systems_of_posix_are_accepted(platform: str) -> None:
    demand_platform(platform)


def test_windows_is_refused_where_a_model_is_compiled() -> None:
    with pytest.raises(UnsupportedError, match="WSL"):
        demand_platform("win32")
    code = (
        "import numpy, llvmlite.binding, multiprocessing, subprocess, sys\n"
        "sys.platform = 'win32'\n"
        "import anyshape\n"
        "try:\n"
        "    anyshape.compile\n"
        "except anyshape.AnyshapeError as e:\n"
        "    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "runs on Linux and macOS" in done.stdout, done.stderr
