"""Runs a page of docs/tutorials from top to bottom, as a reader would type it, and compares what it prints with what the page shows.

In: the text of a page, and an empty folder. Out: a `Mismatch` for each block that printed something else.

- `python` blocks run one after the other in one namespace, `sh` blocks line by line.
- An `output` block is what the block above it prints; `…` in it stands for any text within a line, a line of `…` alone for any lines.
- A block with a title, as in ```` ```yaml title="specs/mine.yaml" ````, is written to that file.
- `text` blocks are only shown. Any other language is an error, so that no block of a page goes untried by a slip.
- `<!-- numbers vary -->` ahead of an `output` block: each of its lines is a line that is printed, but for numbers, in any order.
- `<!-- fails -->` ahead of a block: it ends with an error, of which the last line is part of the output.
- `pip install --editable .` writes what announces the package of the folder, and nothing else: no package is fetched.
- `<!-- needs: cc torch -->` anywhere: the page needs these programs or modules.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ANY = "…"
_BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- (?:fails|numbers vary) -->\n+)*)^```(?P<info>.*)\n(?P<text>(?:(?!```).*\n)*)^```$",
    re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])")
_OF_THE_SHELL = re.compile(r"[|&;<>()$`*?]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is the first line of its text."""

    language: str
    title: str | None
    text: str
    fails: bool
    numbers_vary: bool
    line: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A block whose output is not what the page shows."""

    line: int
    shown: str
    printed: str

    def __str__(self) -> str:
        return f"line {self.line}: the page shows\n{self.shown}and this was printed:\n{self.printed}"


class PageError(Exception):
    """A page that cannot be run as it is written."""


def blocks(page: str) -> list[Block]:
    """Reads the blocks of a page."""
    read = []
    for match in _BLOCK.finditer(page):
        language, _, rest = match["info"].partition(" ")
        title = re.fullmatch(r'title="([^"]+)"', rest)
        if rest and title is None:
            raise PageError(f"a block can only have a title, got {match['info']!r}")
        line = page.count("\n", 0, match.start("text")) + 1
        fails, numbers_vary = "fails" in match["marks"], "numbers vary" in match["marks"]
        read.append(Block(language, title and title[1], match["text"], fails, numbers_vary, line))
    if (fences := len(re.findall(r"^```", page, re.MULTILINE))) != 2 * len(read):
        raise PageError(f"{fences} fences, and {len(read)} blocks: one is not closed, or is indented")
    return read


def lacking(page: str) -> list[str]:
    """Returns the programs and modules that a page needs and this machine lacks."""
    needed = [word for words in re.findall(r"<!-- needs: (.*?) -->", page) for word in words.split()]
    return [word for word in needed if shutil.which(word) is None and find_spec(word) is None]


def agrees(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows, blanks at the ends of lines aside."""
    lines = [line.rstrip() for line in shown.rstrip().splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == ANY else ".*?".join(map(re.escape, line.split(ANY))) + r"\n" for line in lines
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())) is not None


def agrees_but_for_numbers(shown: str, printed: str) -> bool:
    """Whether every line that the page shows, but for `…`, was printed with some numbers, in any order."""

    def plain(text: str) -> list[str]:
        return [_NUMBER.sub("0", " ".join(line.split())) for line in text.splitlines()]

    lines = plain(printed)
    patterns = [".*?".join(map(re.escape, line.split(ANY))) for line in plain(shown) if line not in (ANY, "")]
    return all(any(re.fullmatch(pattern, line) for line in lines) for pattern in patterns)


def run_page(page: str, folder: Path, path: str = "the page") -> list[Mismatch]:
    """Runs all blocks of a page in a folder. Raises PageError for a block that cannot be run, or ends as it should not."""
    parts = blocks(page)
    mismatches: list[Mismatch] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder), _module_search():
        for block, after in zip(parts, [*parts[1:], None], strict=True):
            if block.title is not None:
                file = folder / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text)
                continue
            if block.language in ("output", "text"):
                continue
            printed = _run(block, names, path)
            expected = (
                after
                if after is not None and after.language == "output"
                else Block("output", None, "", False, False, block.line)
            )
            if ANY in expected.text and not re.search(r"\w", expected.text):
                raise PageError(f"{path}:{expected.line}: an output of marks alone shows nothing")
            if not (agrees_but_for_numbers if expected.numbers_vary else agrees)(expected.text, printed):
                mismatches.append(Mismatch(expected.line, expected.text, printed))
    return mismatches


def updated(page: str, mismatches: list[Mismatch]) -> str:
    """Returns the page with what was printed in its output blocks, where that differs. Marks are lost there."""
    lines = page.splitlines(keepends=True)
    for m in sorted(mismatches, key=lambda m: -m.line):
        if lines[m.line - 2].startswith("```output"):
            end = m.line - 1 + len(m.shown.splitlines())
            lines[m.line - 1 : end] = [f"{line.rstrip()}\n" for line in m.printed.rstrip().splitlines()]
    return "".join(lines)


@contextlib.contextmanager
def _module_search() -> Iterator[None]:
    """Lets Python import from the folder of the page, and forgets afterwards what it imported from there."""
    before, modules = list(sys.path), set(sys.modules)
    sys.path[:] = [str(Path.cwd()), *(str(Path(p).resolve()) for p in before if p)]
    try:
        yield
    finally:
        here = sys.path[0]
        sys.path[:] = before
        for name in set(sys.modules) - modules:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(here):
                del sys.modules[name]


def _run(block: Block, names: dict[str, Any], path: str) -> str:
    runners: dict[str, Callable[[Block, dict[str, Any], str], str]] = {"python": _run_python, "sh": _run_shell}
    if block.language not in runners:
        raise PageError(f"{path}:{block.line}: a block of {block.language!r} is neither run nor written to a file")
    return runners[block.language](block, names, path)


def _run_python(block: Block, names: dict[str, Any], path: str) -> str:
    out = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, path, "exec", dont_inherit=True)
    failure = None
    with contextlib.redirect_stdout(out):
        try:
            exec(code, names)
        except Exception as e:
            failure = e
    if (failure is not None) is not block.fails:
        raise PageError(f"{path}:{block.line}: {'nothing failed' if failure is None else 'failed'}") from failure
    if failure is not None:
        out.write("".join(traceback.format_exception_only(failure)))
    return out.getvalue()


def _run_shell(block: Block, names: dict[str, Any], path: str) -> str:
    commands = [line for line in block.text.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    done = [_run_command(c) for c in commands]
    if any(d.code for d in done) is not block.fails:
        raise PageError(f"{path}:{block.line}: " + "\n".join(f"exit code {d.code}: {d.out}{d.errors}" for d in done))
    return "".join(d.out for d in done)


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended: its exit code, and what it printed. What goes to stderr, as progress does, is no output of a page."""

    code: int
    out: str
    errors: str


def _run_command(command: str) -> Ended:
    if command == "pip install --editable .":
        return _announce(Path.cwd())
    return _in_process(command) if _ours(command) else _in_shell(command)


def _announce(folder: Path) -> Ended:
    """Writes the metadata by which Python knows the package of a folder and its entry points, as pip would."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        f"[{g}]\n" + "".join(f"{n} = {at}\n" for n, at in points.items())
        for g, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    return Ended(0, "", "")


def _ours(command: str) -> bool:
    """Whether a command is one of this project's alone, which costs no process of its own."""
    return shlex.split(command)[0] in ("anyshape", "anyshape-gen") and not _OF_THE_SHELL.search(command)


def _in_process(command: str) -> Ended:
    from anyshape.cli.main import main as anyshape
    from anyshape_gen.cli import main as anyshape_gen

    program, *words = shlex.split(command)
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = {"anyshape": anyshape, "anyshape-gen": anyshape_gen}[program](words)
    return Ended(code or 0, out.getvalue(), errors.getvalue())


def _in_shell(command: str) -> Ended:
    """Runs a line in a shell whose Python, and whose modules, are those of this process."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr)
