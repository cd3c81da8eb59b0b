"""docs/glossary.md: its files are there, and no module, class, function or variable has a name or a word that it lists as gone.

In the rooms of ROOMS_READ nothing at all is called by a word that says only that something was found, made, given, wanted or told, or is
another one, and every docstring can be read without the one before it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "runtime/anyshape"
PAGE = (ROOT / "docs/glossary.md").read_text()
TERMS, GONE = PAGE.split("## Words that are gone")
ROOMS_READ = ("runtime", "generator", "testing", "tests", "benchmarks", "examples")
"""Folders in which every name says what the value is, and every docstring begins with what the thing does or is"""
LEANING = re.compile(
    r"(also|and|another|as|at|because|but|by|for|from|here|however|if|in|it|its|likewise|made|neither|none|nor|not|of|on|or|over|since|so"
    r"|that|their|then|these|they|those|to|unless|until|up|whatever|where|while|with|without)\b"
    r"|the (same|others?|rest|like|former|latter)\b",
    re.IGNORECASE,
)
"""Beginnings of docstrings that lean on something said before: pronouns, prepositions, conjunctions"""
MEASURING = (ROOT / "benchmarks", ROOT / "tests/models")
"""Folders in which a turn is one of those that engines take while they are measured"""
VAGUE = {"found", "made", "given", "wanted", "told", "others", "thing", "things"}
FORCED = {"runtime/anyshape/graph/matching.py": {"given"}, "runtime/anyshape/properties.py": {"Given"}}
"""Names that generated code uses, by file"""


def names_that_are_gone() -> set[str]:
    return {
        name
        for line in GONE.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if line.startswith("| `") else "")
    }


def words_that_are_gone() -> set[str]:
    lines = [line for line in GONE.splitlines() if re.match(r"\| [a-z]", line) and not line.startswith("| was")]
    return {word for line in lines for word in re.findall(r"\w+", line.split("|")[1])}


def words_of(name: str) -> set[str]:
    """The words of a name in any style: `can_turn`, `TurnTable`, `TURNS`."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def gone_names(path: Path) -> list[str]:
    words = words_that_are_gone() - ({"turn", "turns"} if any(map(path.is_relative_to, MEASURING)) else set())
    names = [(0, path.stem), *bound_names(path)]
    return [f"{path.name}:{line}: {n}" for line, n in names if n in names_that_are_gone() or words_of(n) & words]


@pytest.mark.in_every_sample
@pytest.mark.parametrize("room", ROOMS_READ)
def test_no_word_that_is_gone_names_anything(room: str) -> None:
    assert {"turn", "told", "born"} <= words_that_are_gone() and {"Need", "Later"} <= names_that_are_gone()
    names = [name for path in sorted((ROOT / room).rglob("*.py")) for name in gone_names(path)]
    assert not names, names


def test_such_a_name_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "lender.py"
    path.write_text("class Need:\n    def can_turn(self, TurnTable) -> None:\n        TURNS = returned = needed = 1")
    assert [line.split(": ")[1] for line in gone_names(path)] == ["lender", "Need", "can_turn", "TurnTable", "TURNS"]
    assert any("turn" in words_of(name) for path in MEASURING[0].glob("*.py") for _, name in bound_names(path))


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that a module gives to something, with its line; names of others that it only uses are not among them."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def vague_names(path: Path) -> list[str]:
    names = [(0, path.stem), *bound_names(path)]
    forced = FORCED.get(path.relative_to(ROOT).as_posix(), set()) if path.is_relative_to(ROOT) else set()
    return [
        f"{path.name}:{line}: {name}" for line, name in names if name.strip("_").lower() in VAGUE and name not in forced
    ]


@pytest.mark.in_every_sample
@pytest.mark.parametrize("room", ROOMS_READ)
def test_names_say_what_the_thing_is(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    vague = [name for path in files for name in vague_names(path)]
    assert not vague, vague


def test_generated_code_still_uses_every_forced_name() -> None:
    for file, names in FORCED.items():
        assert names <= {name for _, name in bound_names(ROOT / file)}


@pytest.mark.parametrize(
    ("text", "vague"),
    [
        ("found = []", ["found"]),
        ("def f(given, *, wanted): return [made for made in given]", ["given", "wanted", "made"]),
        ("class Made:\n    told: str\n    def _found(self): self.wanted = 1", ["Made", "told", "_found", "wanted"]),
        ("from hypothesis import given\n@given(x.found, made=1)\ndef f(expected): 'found'", []),
        ("first, *others = x\nfor thing in others: ...\nclass Things: ...", ["others", "thing", "Things"]),
        ("match x:\n    case [made, *found]: ...", ["made", "found"]),
        ("foundation = unmade = found_in = among_others = nothing = 1", []),
    ],
)
def test_a_vague_name_would_be_found_and_a_use_of_a_foreign_one_is_none(
    text: str, vague: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert sorted(n.split(": ")[1] for n in vague_names(path)) == sorted(vague)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string that stands as a statement, with its line: of the module, classes, functions and fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        for statement in body if isinstance(body := getattr(node, "body", None), list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text.strip()


def leaning_docstrings(path: Path) -> list[str]:
    return [f"{path}:{line}: {text[:60]}" for line, text in docstrings(path) if LEANING.match(text)]


@pytest.mark.in_every_sample
@pytest.mark.parametrize("room", ROOMS_READ)
def test_docstrings_can_be_read_alone(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    leaning = [line for path in files for line in leaning_docstrings(path)]
    assert not leaning, leaning


@pytest.mark.parametrize(
    ("text", "leaning"),
    [
        ('"""Of floats, as a share of the largest."""', True),
        ('TURNS = 3\n"""Of each engine."""', True),
        ('"""Names."""\nclass A:\n    x: int\n    """of the tensor that is indexed"""', True),
        ('def f():\n    """The same with `Dim.AUTO` for each dim."""', True),
        ('async def f():\n    """The others are left."""', True),
        ('class A:\n    def f(self):\n        """\n        Their time over ours.\n        """', True),
        ('if True:\n    X = 1\n    """So that a call is short."""', True),
        ('def f():\n    """Where the node stands."""', True),
        ('def f():\n    """Also where the end is a place."""', True),
        ('"""Offsets of floats."""', False),
        ('def f():\n    """Atoms by dim; the same dim gives the same atom."""', False),
        ('def f():\n    """Whereabouts of a node."""\n    return "Of another"', False),
        ('def f():\n    x = """Of a string that is no docstring."""', False),
        ('def f():\n    """`if`: Of what follows nothing is said."""', False),
        ('"""The samples."""\ndef f(): ...  # Also this', False),
    ],
)
def test_a_docstring_that_leans_on_another_is_noticed(text: str, leaning: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert bool(leaning_docstrings(path)) == leaning


@pytest.mark.parametrize("line", [line for line in TERMS.splitlines() if line.startswith("| ") and "`" in line])
def test_a_term_is_where_the_page_says(line: str) -> None:
    where = line.split("|")[3]
    for name in re.findall(r"`([\w/.]+\.py|[\w/]+/)`", where):
        assert (
            any(RUNTIME.rglob(name.rsplit("/", 1)[-1]))
            if "/" not in name.rstrip("/")
            else any((base / name).exists() for base in (RUNTIME, ROOT))
        ), name
