"""What pages and docstrings tell to type is there: targets and variables of `make`, modules, scripts, subcommands, options; so are the
files that they name. Nothing of it is run.
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from anyshape.cli.parser import parser as anyshape_arguments
from anyshape_gen.arguments import arguments as generator_arguments

ROOT = Path(__file__).parents[2]
ROOMS = ("runtime", "generator", "testing", "benchmarks", "examples", "tests")
PAGES = [*ROOT.glob("*.md"), *(p for room in ("docs", "examples", "benchmarks") for p in (ROOT / room).rglob("*.md"))]
CODE = [p for room in ROOMS for p in (ROOT / room).rglob("*.py")]
COMMAND = re.compile(r"(?:\$ )?(?:[A-Z]+=\S+ )*((?:make|python3?|anyshape|anyshape-gen) [\w./-].*)")
OF_OTHERS = ("cost.md",)
"""Pages that name the files of another project."""
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def quoted(text: str) -> Iterator[str]:
    """What stands between backticks, also over the end of a line."""
    for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield " ".join(code.split())


def commands(path: Path) -> list[str]:
    """Reads commands without variables of the shell before them; of code only what is between backticks, or a line that begins so."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ") or path.suffix == ".py"]
    if path.suffix == ".py":
        lines = [line for line in lines if re.match(r"(PYTHONPATH=\S+ )?python -m ", line)]
    matches = (COMMAND.fullmatch(c) for c in (*quoted(text), *lines))
    return sorted({m[1] for m in matches if m is not None})


def words_of(command: str) -> list[str]:
    """Splits a command without what is said about it behind, and the brackets of what may be left out."""
    plain = re.sub(r"  +.*|\s#.*|[;,] .*", "", command)
    try:
        words = shlex.split(plain)
    except ValueError:
        words = plain.split()
    return [w.strip("[]…") for w in words if w.strip("[]….")]


@cache
def help_of(parser: Callable[[], argparse.ArgumentParser], *command: str) -> str | None:
    """Returns the help of a subcommand, None where the parser takes no such subcommand."""
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(io.StringIO()):
        try:
            parser().parse_args([*command, "--help"])
        except SystemExit as end:
            return None if end.code else shown.getvalue()
    return None


def module_of(name: str) -> Path | None:
    path = name.replace(".", "/")
    places = [
        f"{room}{path}{end}" for room in ("runtime/", "generator/", "testing/", "") for end in ("/__main__.py", ".py")
    ]
    return next((ROOT / p for p in places if (ROOT / p).exists()), None)


def lacks(text: str | None, words: list[str]) -> list[str]:
    options = [w.partition("=")[0] for w in words if re.match(r"--\w", w)]
    return [f"no option {o}" for o in options if text is None or not re.search(rf"(?<![\w-]){o}(?![\w-])", text)]


def faults(command: str) -> list[str]:
    """What of a command is not there."""
    program, *words = words_of(command)
    if program == "make":
        return faults_of_make(words)
    if program == "anyshape":
        missing = []
        for name in words[0].split("|"):
            shown = help_of(anyshape_arguments, name)
            missing += [f"no command {name}"] if shown is None else lacks(shown, words[1:])
        return missing
    if program == "anyshape-gen" or words[:2] == ["-m", "anyshape_gen"]:
        return lacks(help_of(generator_arguments), words)
    if words[0] == "-m":
        if words[1].partition(".")[0] in sys.stdlib_module_names:
            return [] if find_spec(words[1]) is not None else [f"no module {words[1]}"]
        module = module_of(words[1])
        return [f"no module {words[1]}"] if module is None else lacks(literals(module), words[2:])
    script = ROOT / words[0]
    return lacks(literals(script), words[1:]) if script.exists() else [f"no file {words[0]}"]


def literals(path: Path) -> str:
    """The strings of code that are options: its own, and those of what it imports from beside it."""
    text = path.read_text(encoding="utf-8")
    beside = [p for p in path.parent.glob("*.py") if re.search(rf"^from \S+\.{p.stem} import ", text, re.MULTILINE)]
    whole = [text, *(p.read_text(encoding="utf-8") for p in beside)]
    return " ".join(o for t in whole for o in re.findall(r'"(--[\w-]+)"', t))


def faults_of_make(words: list[str]) -> list[str]:
    variables = [w.partition("=")[0] for w in words if "=" in w]
    targets = [w for w in words if "=" not in w]
    missing = [f"no target {t}" for t in targets if not re.search(rf"^{t}:", MAKEFILE, re.MULTILINE)]
    return missing + [
        f"no variable {v}" for v in variables if not re.search(rf"\$\({v}\)|ifdef {v}\b|\({v}\),", MAKEFILE)
    ]


@cache
def repository() -> str:
    """The paths of all files, one a line."""
    folders = (*ROOMS, "docs", "specs", "generated", "website")
    paths = [*ROOT.glob("*.*"), *(p for folder in folders for p in (ROOT / folder).rglob("*.*"))]
    return "\n".join(f"/{p.relative_to(ROOT).as_posix()}" for p in paths) + "\n"


@pytest.mark.in_every_sample
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_of_a_page(page: Path) -> None:
    assert {c: wrong for c in commands(page) if (wrong := faults(c))} == {}


@pytest.mark.in_every_sample
def test_commands_of_code() -> None:
    pairs = {(p, c) for p in CODE for c in commands(p) if "{" not in c}
    assert len(pairs) > 30
    assert {(p.name, c): wrong for p, c in pairs if (wrong := faults(c))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_that_a_page_names(page: Path) -> None:
    named = {n for n in quoted(page.read_text(encoding="utf-8")) if re.fullmatch(r"[\w./-]+\.(py|md|toml|j2)", n)}
    links = set(re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")))
    missing = {n for n in named if page.name not in OF_OTHERS and f"/{n}\n" not in repository()}
    assert missing | {f"link {to}" for to in links if not (page.parent / to).exists()} == set()


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("make tests", "no target tests"), ("make test OPS=add", "no variable OPS"), ("anyshape walk m.onnx", "no command walk"),
        ("anyshape run m.onnx --shapes x=3", "no option --shapes"), ("python -m benchmarks.none", "no module benchmarks.none"),
        ("python -m benchmarks.suite bench --quickly", "no option --quickly"), ("anyshape-gen --spec x", "no option --spec"),
        ("python examples/none.py", "no file examples/none.py"), ("python -m http.client2", "no module http.client2"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_found(command: str, fault: str) -> None:
    assert faults(command) == [fault]
