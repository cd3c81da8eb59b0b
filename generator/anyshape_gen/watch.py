"""`make watch OP=name`: on every save of a spec, generate again and test that op.

In: the folder of specs, an op's name, the command that tests it. Out: a cleared screen with findings, or what failed.
Files are found changed by their times: nothing to install, and half a second is soon enough.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

PAUSE = 0.3
DEFAULT_OPS = "anyshape_ops"
CLEAR = "\x1b[2J\x1b[H"


def times(specs: Path) -> dict[Path, int]:
    return {p: p.stat().st_mtime_ns for p in sorted(specs.glob("*.yaml"))}


def watch(specs: Path, op: str | None, generate: Callable[[], int], rounds: int | None = None) -> int:
    """Runs until interrupted, or `rounds` times. Gives the status of the last round."""
    seen: dict[Path, int] = {}
    status = done = 0
    if op:
        warm()
    try:
        while rounds is None or done < rounds:
            now = times(specs)
            if now == seen:
                time.sleep(PAUSE)
                continue
            seen, done = now, done + 1
            status = one_round(op, generate, seen, specs)
    except KeyboardInterrupt:
        pass
    return status


def one_round(op: str | None, generate: Callable[[], int], seen: dict[Path, int], specs: Path) -> int:
    """Generate; then the quick laws, and where those hold and nothing changed meanwhile, all of them."""
    started = time.monotonic()
    print(CLEAR if sys.stdout.isatty() else "---", flush=True)
    status = generate()
    if status == 0 and op:
        for examples in ("5", None):
            status = test(op, examples)
            said = f"{op}: {'all hold' if status == 0 else 'see above'}"
            print(f"{said}, {examples or 'all'} calls each, {time.monotonic() - started:.1f} s", flush=True)
            if status or times(specs) != seen:
                break
    print(f"waiting for a change in {specs}", flush=True)
    return status


def test(op: str, examples: str | None) -> int:
    """The laws and examples of one op, in a fork: generated modules are new there, and all else is imported already."""
    with tempfile.TemporaryFile("w+") as said:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run_tests(op, examples, said.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        if status:
            print(short(said.read()))
    return status


def run_tests(op: str, examples: str | None, output: int) -> NoReturn:
    """In the child: never returns."""
    status = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        if examples:
            os.environ["ANYSHAPE_EXAMPLES"] = examples
        main = import_module("pytest").main
        status = int(
            main(["tests/laws", "--op", op, "-x", "-q", "--tb=short", "--no-header", "-p", "no:cacheprovider"])
        )
    finally:
        sys.stdout.flush()
        os._exit(status)


def warm() -> None:
    """Imports what no spec changes, once."""
    for name in ("pytest", "hypothesis.strategies", "scipy.special", "llvmlite.binding", *compiling()):
        with suppress(ImportError):
            import_module(name)


def compiling() -> list[str]:
    """The modules of a compile but the generated ones."""
    found: tuple[str, ...] = import_module("anyshape.vm.modules").COMPILING
    return [name for name in found if name != DEFAULT_OPS]


def short(text: str) -> str:
    """From the error on: what was wrong, the call and the script; without frames of the test library."""
    lines = [line for line in text.splitlines() if line.startswith(("E  ", "FAILED", "ERROR"))]
    kept = [line for line in lines if "Draw " not in line and "or any other generated value" not in line]
    return "\n".join(kept[-40:] or text.splitlines()[-20:])
