"""Analyses random spec files: the answer is an analysis or a SpecError whose every place exists, never another exception."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.model.source import Findings

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "specs").glob("*.yaml")), *sorted((ROOT / "tests/generator/data").glob("*.yaml"))]
TOKEN = re.compile(r"\w+|\n *|[^\w\s]")
ODD = [*"*@[](){}:?=,'\"xn0", "if", "for", "in", "-1", ">>", "->", "lambda", "None"]


def entries(text: str) -> Iterator[str]:
    """Small files: one op, with its families."""
    head, _, ops = text.partition("\nops:\n")
    families = dict(blocks(head.partition("\nfamilies:\n")[2]))
    for _, entry in blocks(ops):
        chain = [entry]
        while match := re.search(r"family: (\w+)", chain[-1]):
            chain.append(families[match.group(1)])
        family = "\n".join(["families:", *chain[1:], ""]) if chain[1:] else ""
        yield f"{family}ops:\n{entry}\n"


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The entries of a mapping that is indented by two."""
    for entry in re.split(r"\n(?=  \w+:)", "\n" + text):
        if match := re.match(r"  (\w+):", entry):
            yield match.group(1), entry.rstrip()


def mutant(text: str, rng: random.Random) -> str:
    """One to three tokens deleted, doubled, swapped or replaced."""
    tokens = TOKEN.split(text)
    marks = TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(marks))
        what = rng.randrange(4)
        if what == 0:
            marks[k] = ""
        elif what == 1:
            marks[k] += marks[k]
        elif what == 2:
            other = rng.randrange(len(marks))
            marks[k], marks[other] = marks[other], marks[k]
        else:
            marks[k] = rng.choice(ODD)
    return "".join(a + b for a, b in zip(tokens, [*marks, ""]))


SMALL = [entry for path in FILES for entry in entries(path.read_text())]


@pytest.mark.parametrize("seed", range(8))
def test_mutants(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        text = mutant(rng.choice(SMALL), rng)
        lines = text.split("\n")
        try:
            analyse({"m.yaml": text}, complete=rng.random() < 0.5)
        except SpecError as error:
            refused += 1
            for line in re.findall(r"^m\.yaml:(\d+):\d+: .", str(error), re.MULTILINE):
                assert 1 <= int(line) <= len(lines)
            assert str(error).startswith("m.yaml:")
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for\n{text}") from error
    assert refused > 20


def test_accepted_mutants_are_emitted() -> None:
    """What the checker lets through, the emitters turn into Python that compiles, or refuse with a SpecError."""
    rng = random.Random(1)
    texts = [path.read_text() for path in FILES if path.parent.name == "specs"]
    small = [entry for text in texts if "\ndefine:" not in text for entry in entries(text)]
    emitted = 0
    for _ in range(3000):
        if emitted > 15:  # one of fifty is accepted
            break
        text = mutant(rng.choice(small), rng)
        try:
            findings = Findings(sources={"specs/m.yaml": text.split("\n")})
            files = emit_package(analyse({"specs/m.yaml": text}), "mutants", findings)
        except SpecError:
            continue
        for name, content in files.items():
            if name.endswith(".py"):
                compile(content, name, "exec")
        emitted += 1
    assert emitted > 15
