"""`make watch OP=name`: on every save of a spec, generate again and test that op.

In: the folder of specs, an op's name, how to generate. Out: on the screen what was written or what is wrong, then each law as it
ends. This process stays and has everything imported; the laws run in a fork of it, so that generated modules are new there. A save
while they run ends them. Files are found changed by looking: nothing to install, and an editor's way of saving does not matter.
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
from anyshape_gen.source import suggestion

LOOK = 0.05
"""Seconds between two looks at the folder; a change counts when two looks in a row see the same"""
DEFAULT_OPS = "anyshape_ops"
CLEAR = "\x1b[2J\x1b[H"
State = dict[Path, tuple[int, int, int]]


def state(specs: Path) -> State:
    """What a save of any kind changes: time, size and the file itself."""
    files: State = {}
    for path in specs.glob("*.yaml"):
        with suppress(OSError):  # gone since the folder was listed
            s = path.stat()
            files[path] = (s.st_mtime_ns, s.st_size, s.st_ino)
    return files


@dataclass
class Watch:
    """`generate` gives the names of all ops, or raises SpecError with what is wrong with the specs."""

    specs: Path
    op: str | None
    package: str
    generate: Callable[[], Collection[str]]
    out: Path
    seen: State | None = None
    interrupted: bool = False

    def forever(self) -> int:
        """Until interrupted."""
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
        """Remembered, since Python drops an exception that comes while it finalises an object or calls back for a weak reference."""
        self.interrupted = True
        raise KeyboardInterrupt

    def pause(self) -> None:
        """Between two looks at the folder, and wherever an interrupt that was dropped is raised again."""
        if self.interrupted:
            raise KeyboardInterrupt
        time.sleep(LOOK)

    def settle(self) -> None:
        """Waits for a change, and until it is over: some editors empty a file first, or write it in pieces."""
        while (now := state(self.specs)) == self.seen:
            self.pause()
        before = None
        while now != before:
            self.pause()
            before, now = now, state(self.specs)

    def round(self) -> None:
        """Generate, then test; or say what is in the way."""
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
        """The names of all ops; None, and why, where specs are wrong."""
        try:
            return self.generate()
        except SpecError as e:
            print(e)
        except OSError as e:  # deleted or not readable while we looked
            print(f"{e.filename}: {e.strerror}")
        except Exception:
            traceback.print_exc(limit=-4, file=sys.stdout)
            print("the generator itself failed on these specs; that is a bug of anyshape")
        return None

    def test(self) -> None:
        """The laws and examples of the op in a fork, ended early by another save."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run_tests(self.package, self.op or "", self.out)
        try:
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                self.pause()
                if state(self.specs) != self.seen:
                    say("changed meanwhile: testing stopped")
                    end(child)
                    break
        except KeyboardInterrupt:
            end(child)
            raise


def end(child: int) -> None:
    """And all that it forked, which is in a group of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def changes(before: State | None, now: State) -> str:
    """Which files are new, other or gone."""
    if before is None:
        return "start"
    changed = [p for p in sorted(before.keys() | now.keys()) if before.get(p) != now.get(p)]
    return ", ".join(f"{p.name} {'changed' if p in now else 'is gone'}" for p in changed) or "no change"


def run_tests(package: str, op: str, out: Path) -> NoReturn:
    """In the child: never returns."""
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
    """Imports what no spec changes, once: what a compile needs, the laws, and libraries that oracles of the package use."""
    texts = [p.read_text() for p in (package / "strategies").glob("*.py")]
    oracles = {name for text in texts for name in re.findall(r"^import (scipy\S*)", text, re.MULTILINE)}
    for name in (
        *compiling(),
        "anyshape_testing.quick",
        *(f"anyshape_testing.{room}" for room in LAWS),
        *sorted(oracles),
    ):
        with suppress(ImportError):
            import_module(name)
    import_module("anyshape_testing.quick").warm()


LAWS = ("laws", "examples", "rewriting", "refusals", "executors")


def compiling() -> list[str]:
    """The modules of a compile but the generated ones."""
    modules: tuple[str, ...] = import_module("anyshape.vm.compiling.modules").COMPILING
    return [name for name in modules if name != DEFAULT_OPS]
