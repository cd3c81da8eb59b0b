"""Generates again and tests one op whenever a spec is saved: `make watch OP=name`.

In: the folder of specs, an op's name, how to generate. Out: printed lines about written files or errors, then each law as it
ends. This process keeps all imports; the laws run in a fork of it, so that generated modules are imported anew there. A save while they
run ends them. Files are polled: that needs no other package, and works with any editor's way of saving.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import NoReturn

from anyshape.errors import AnyshapeError, SpecError
from anyshape_gen.model.source import suggestion

LOOK = 0.05
"""Seconds between two polls of the folder; a change is complete when two polls in a row see the same state"""
DEFAULT_OPS = "anyshape_ops"
CLEAR = "\x1b[2J\x1b[H"
State = dict[Path, tuple[int, int, int]]


def state(specs: Path) -> State:
    """Reads the state of the files that a save of any kind changes: times, sizes and inodes."""
    files: State = {}
    for path in specs.glob("*.yaml"):
        with suppress(OSError):  # deleted since the folder was listed
            s = path.stat()
            files[path] = (s.st_mtime_ns, s.st_size, s.st_ino)
    return files


@dataclass
class Watch:
    """Watches a folder of specs. `generate` returns the names of all ops, or raises SpecError with the errors of the specs."""

    specs: Path
    op: str | None
    package: str
    generate: Callable[[], Collection[str]]
    out: Path
    seen: State | None = None
    interrupted: bool = False

    def forever(self) -> int:
        """Generates and tests after every change until interrupted."""
        say(f"watching {self.specs}; Ctrl-C ends")
        before, hook = signal.signal(signal.SIGINT, self.interrupt), sys.unraisablehook
        sys.unraisablehook = lambda dropped: None if dropped.exc_type is KeyboardInterrupt else hook(dropped)
        try:
            if self.op:
                warm(self.out / self.package)
            while True:
                self.round()
                say(f"waiting for a change in {self.specs}")
                self.settle()
        except KeyboardInterrupt:
            say("stopped watching")
        finally:
            signal.signal(signal.SIGINT, before)
            sys.unraisablehook = hook
        return 0

    def interrupt(self, *_: object) -> None:
        """Handles an interrupt, and records it: Python drops an exception that is raised in a finaliser or a weak reference's callback."""
        self.interrupted = True
        raise KeyboardInterrupt

    def pause(self) -> None:
        """Waits between two polls; raises an interrupt again that Python dropped."""
        if self.interrupted:
            raise KeyboardInterrupt
        time.sleep(LOOK)

    def settle(self) -> None:
        """Waits for a change, and until it is complete: some editors empty a file first, or write it in pieces."""
        while (now := state(self.specs)) == self.seen:
            self.pause()
        before = None
        while now != before:
            self.pause()
            before, now = now, state(self.specs)

    def round(self) -> None:
        """Generates, then tests; or prints the error that prevents it."""
        started = time.monotonic()
        before, self.seen = self.seen, state(self.specs)
        print(CLEAR if sys.stdout.isatty() else "---", flush=True)
        say(f"{changes(before, self.seen)}: generating")
        ops = self.generated()
        if ops is None:
            say("nothing was generated")
            return
        say(f"generated in {time.monotonic() - started:.2f} s")
        if self.op is not None and self.op not in ops:
            say(f"there is no op {self.op} in {self.specs}{suggestion(self.op, ops)}")
        elif self.op is not None:
            say(f"testing {self.op}")
            self.test()

    def generated(self) -> Collection[str] | None:
        """Generates, and returns the names of all ops; prints the errors of specs, and returns None."""
        try:
            return self.generate()
        except SpecError as e:
            print(e)
        except OSError as e:  # deleted or not readable meanwhile
            print(f"{e.filename}: {e.strerror}")
        except Exception:
            traceback.print_exc(limit=-4, file=sys.stdout)
            print("the generator failed on these specs, which is a bug in anyshape")
        return None

    def test(self) -> None:
        """Runs the laws and examples of the op in a fork, which another save ends early."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run_tests(self.package, self.op or "", self.out)
        try:
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                self.pause()
                if state(self.specs) != self.seen:
                    say("the specs changed: tests stopped")
                    end(child)
                    break
        except KeyboardInterrupt:
            end(child)
            raise


def end(child: int) -> None:
    """Ends a child and all that it forked, which are a process group of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def changes(before: State | None, now: State) -> str:
    """Words which files are new, changed or deleted."""
    if before is None:
        return "start"
    changed = [p for p in sorted(before.keys() | now.keys()) if before.get(p) != now.get(p)]
    return ", ".join(f"{p.name} {'changed' if p in now else 'was deleted'}" for p in changed) or "no change"


def run_tests(package: str, op: str, out: Path) -> NoReturn:
    """Runs the tests in the child process; never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.path.insert(0, str(out))
        invalidate_caches()
        status = 0 if import_module("anyshape_testing.quick").main(package, op) else 1
    except AnyshapeError as e:
        print(e)
    except BaseException:
        traceback.print_exc(limit=-4, file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(status)


def warm(package: Path) -> None:
    """Imports modules that no spec changes once, ahead of forks: those of a compile, the laws, and libraries that oracles use."""
    texts = [p.read_text() for p in (package / "strategies").glob("*.py")]
    oracles = {name for text in texts for name in re.findall(r"^import (scipy\S*)", text, re.MULTILINE)}
    for name in (
        *compiling(),
        "anyshape_testing.quick",
        *(f"anyshape_testing.laws.{module}" for module in LAWS),
        *sorted(oracles),
    ):
        with suppress(ImportError):
            import_module(name)
    import_module("anyshape_testing.quick").warm()


LAWS = ("agreement", "examples", "rewriting", "refusals", "executors")


def compiling() -> list[str]:
    """Lists the modules of a compile without the generated ones."""
    modules: tuple[str, ...] = import_module("anyshape.vm.compiling.modules").COMPILING
    return [name for name in modules if name != DEFAULT_OPS]
