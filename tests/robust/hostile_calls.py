"""Random calls of the API and of the command line, in a child process that may not die: only an AnyshapeError, or exit code 0 to 2,
comes out.

    python -m tests.robust.hostile_calls

An even seed calls a public function with right arguments but for some, an odd one runs a command with words of which some are wrong.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from anyshape.cli.main import main
from anyshape.errors import AnyshapeError
from tests.frontends.isolated import run_from_command_line, run_isolated
from tests.robust.test_api_arguments import CALLED, FOREVER, FUNCTION, PUBLIC, VALUES, valid_call
from tests.robust.test_files import exp_model

WORDS = (
    "", "x", "x=", "=x", "x=3", "x=4x128", "x=[1, 2]", "x=[[1.0]", "x=m.onnx", "x=x.npy", "n=3", "n=0:", "n=5:2", "n=-1", "0:2", "2:0",
    "a:b", "-1",
    "9" * 30, "m.onnx", "nothing", "/dev/null", "fifo", ".", "softmax", "dyn.reshape", "newshape=[3, -1]", "all", "equations",
    "\udcff", "x=" + "[" * 3000,
)  # fmt: skip
OPTIONS = (
    "--shape", "--input", "--ints", "--seed", "--repeat", "--threads", "--dim", "--at", "--memory", "--timings", "-o", "--tolerance",
    "--param", "--stage", "--html", "--help", "--nothing", "--json", "--output-dir", "--repair", "--check", "--version",
    "--out", "--name", "--target", "--op", "--static", "--weights", "--bounds", "--shared", "--budget", "--ranks", "--plot",
)  # fmt: skip
COMMANDS = ("run", "compile", "explain", "simplify", "show", "diff", "export", "nothing", "")


def call(pick: random.Random) -> str:
    """A public function with arguments of which some are drawn from the table of wrong ones."""
    name = pick.choice(sorted(PUBLIC.keys() - FOREVER))
    signature, right = valid_call(name)
    words: list[Any] = []
    for parameter, p in signature.parameters.items():
        if pick.random() < 0.5:
            value = pick.choice(VALUES) if pick.random() < 0.7 else [pick.choice(VALUES), pick.choice(VALUES)]
            if callable(value) and parameter in CALLED:  # what it raises is its own
                continue
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                words = [value]
            elif p.kind is not inspect.Parameter.VAR_KEYWORD:
                right[parameter] = value
    if words:
        PUBLIC[name](*right.values(), *words)
    else:
        PUBLIC[name](**right)
    return ""


def command(pick: random.Random) -> str:
    argv = [pick.choice(COMMANDS), pick.choice(("m.onnx", pick.choice(WORDS)))]
    for _ in range(pick.randrange(4)):
        argv += [pick.choice(OPTIONS), pick.choice(WORDS)][: pick.choice((1, 2, 2, 2))]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            code = main(argv)
        except SystemExit as e:  # argparse
            code = e.code if isinstance(e.code, int) else 2
    return "" if code in (0, 1, 2) else f"{argv} ends with {code}"


@cache
def _model() -> bytes:
    data: bytes = exp_model().SerializeToString()
    return data


def outcome(seed: int) -> str:
    """Empty for what may be; else what came instead."""
    pick, before = random.Random(seed), os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("m.onnx").write_bytes(_model())
            os.mkfifo("fifo")
            return command(pick) if seed % 2 else call(pick)
        except AnyshapeError:
            return ""
        except BaseException as e:
            return f"{type(e).__name__}: {e}"
        finally:
            os.chdir(before)


def run(seeds: Sequence[int]) -> Iterator[tuple[int, str]]:
    assert FUNCTION is not None
    return run_isolated(seeds, outcome, lambda seed: "a command" if seed % 2 else "a call")


if __name__ == "__main__":
    raise SystemExit(run_from_command_line("hostile_calls", __doc__, run))
