"""Spec files made to harm: nested without end, multiplying themselves, of numbers that nothing holds.

Each is a SpecError with its place, soon.
"""

from __future__ import annotations

import re

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.model.source import Findings

SPEC = """ops:
  odd:
    summary: Odd.
    inputs: {x: "F[*s]"}
    params:
      k: {kind: int, default: DEFAULT}
    outputs: {y: "F[*s]"}
    shape: |
      assert k < LIMIT, "k is large"
    kernel: |
      y[*i] = VALUE
    reference: "REFERENCE"
    examples:
      - {x: [2], y: [2]}
"""
PLAIN = {"DEFAULT": "1", "LIMIT": "5", "VALUE": "x[*i] + F(k)", "REFERENCE": "x + k"}


def generate(text: str) -> None:
    """All that is made of a spec file."""
    findings = Findings(sources={"specs/m.yaml": text.split("\n")})
    emit_package(analyse({"specs/m.yaml": text}, complete=False), "hostile", findings)


def spec(**changed: str) -> str:
    text = SPEC
    for word, new in {**PLAIN, **changed}.items():
        text = text.replace(word, new)
    return text


def refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        generate(text)
    line = re.match(r"specs/m\.yaml:(\d+):\d+: ", str(caught.value))
    assert line and 1 <= int(line.group(1)) <= text.count("\n") + 1


def test_the_plain_one_is_accepted() -> None:
    generate(spec())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ops: " + "[" * 20000 + "]" * 20000, "nested more than 24 deep"),
        ("ops:\n" + "".join(" " * (k + 1) + f"k{k}:\n" for k in range(3000)), "nested more than 24 deep"),
        ("a: &a [x]\n" + "".join(f"b{k}: &b{k} [*a, *a]\n" for k in range(40)) + "ops: *b39\n", "aliases are not allowed"),
        ("ops: &a [*a]\n", "aliases are not allowed"),
        ("ops:\n  relu: \x00\n", "special characters"),
        ("ops:\n  relu: \ud800\n", "special characters"),
        ("ops: !!python/object/apply:os.system ['true']\n", "a mapping is expected"),
        ("ops: {}\n---\nops: {}\n", "another document"),
        ("ops:\n  odd: 2001-99-99\n", "mapping"),
    ],
    ids=["lists", "maps", "bomb", "itself", "nul", "surrogate", "tag", "documents", "date"],
)  # fmt: skip
def test_yaml(text: str, words: str) -> None:
    refused(text, words)


@pytest.mark.parametrize(
    ("where", "text", "words"),
    [
        ("VALUE", "(" * 3000 + "x[*i]" + ")" * 3000, "nested"),
        ("VALUE", "-" * 3000 + "x[*i]", "nested more than 80 deep"),
        ("VALUE", " + ".join(["x[*i]"] * 5000), "nested more than 80 deep"),
        ("VALUE", "x[*i] if k > 1 else " * 500 + "x[*i]", "nested more than 80 deep"),
        ("VALUE", "x[*i] * 1" + "0" * 6000, "4300 digits"),
        ("LIMIT", "9" * 5000, "4300 digits"),
        ("DEFAULT", "9" * 5000, "4300 digits"),
        ("REFERENCE", "x" + " + x" * 5000, "nested more than 80 deep"),
        ("VALUE", "x[*i] + 9**9**9**9", r":11:26: .*: 9 \*\* 9 \*\* 9 does not fit in 64 bits"),
        ("VALUE", "x[*i] + k**(10000 * 10000)", r":11:27: .*: an exponent is 1024 at most"),
        ("LIMIT", "9**9**9**9", "does not fit in 64 bits"),
        ("DEFAULT", "-9**9**9**9", "does not fit in 64 bits"),
        ("REFERENCE", "x + (1 << 10**12)", "does not fit in 64 bits"),
    ],
    ids=[
        "brackets",
        "signs",
        "sum",
        "choices",
        "literal",
        "limit",
        "default",
        "reference",
        "power",
        "exponent",
        "power_limit",
        "power_default",
        "shift",
    ],
)
def test_expressions(where: str, text: str, words: str) -> None:
    refused(spec(**{where: text}), words)


def test_indices() -> None:
    text = spec(VALUE="x[i" + ", 0" * 3000 + "]").replace("F[*s]", "F[n]").replace("y[*i]", "y[i]")
    refused(text, "3001 indices for 1 dims")
