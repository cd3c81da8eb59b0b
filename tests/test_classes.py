"""No class stands on more than two levels of classes of ours: what it is made of is handed to it, and a chain of base classes is no way to
split a file. Exceptions do not count, which are sorted by their base classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("runtime/anyshape", "generator/anyshape_gen", "testing/anyshape_testing")
MOST = 2


def module_texts() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        folder = ROOT / package
        for path in folder.rglob("*.py"):
            name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path.read_text()
    return found


def bases_of(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The bases of every class by their full names; of those that no module here defines, the names as written."""
    trees = {module: ast.parse(text) for module, text in texts.items()}
    packages = {module.rpartition(".")[0] for module in texts}
    places = {m: meanings(m, tree, m if m in packages else m.rpartition(".")[0]) for m, tree in trees.items()}
    return {
        f"{module}.{node.name}": [resolved(module, base, places) for base in node.bases]
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def meanings(module: str, tree: ast.Module, package: str) -> dict[str, str]:
    """What the names of a module stand for that it imports or defines as classes."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            found |= {a.asname or a.name: f"{origin}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name: a.name for a in node.names}
    return found


def resolved(module: str, base: ast.expr, places: Mapping[str, Mapping[str, str]]) -> str:
    """`Generic[T]` is `Generic`; a name that a package passes on is the one it passes on."""
    first, _, rest = re.sub(r"\[.*", "", ast.unparse(base)).partition(".")
    name = places[module].get(first, first) + (f".{rest}" if rest else "")
    while True:
        owner, _, last = name.rpartition(".")
        passed_on = places.get(owner, {}).get(last, name)
        if passed_on == name:
            return name
        name = passed_on


def depths(bases: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Of every class, how many classes of ours stand above it, on the longest way up."""

    def depth(name: str) -> int:
        return max((1 + depth(base) for base in bases[name] if base in bases), default=0)

    return {name: depth(name) for name in bases}


def exceptions(bases: Mapping[str, Iterable[str]]) -> set[str]:
    def is_one(name: str) -> bool:
        if name not in bases:
            return name.endswith(("Error", "Exception", "Interrupt", "Warning"))
        return any(map(is_one, bases[name]))

    return set(filter(is_one, bases))


def deep(bases: Mapping[str, Iterable[str]]) -> set[str]:
    found = {name for name, depth in depths(bases).items() if depth > MOST}
    return found - exceptions(bases)


def test_no_class_stands_on_more_than_two_of_ours() -> None:
    bases = bases_of(module_texts())
    assert len(bases) > 500
    assert deep(bases) == set(), "hand it what it is made of, in place of one more base class"


HIERARCHY = {
    "a.base": "class A: ...\nclass B(A): ...\n",
    "a": "from .base import B as Second\n",
    "a.c": "import a\nfrom a import Second\nclass C(Generic[T], Second): ...\nclass D(C, Protocol): ...\nclass E(a.Second): ...\n",
    "a.d": "from .c import C\nclass F(C[int]): ...\nclass A(ValueError): ...\n",
    "a.e": "from a.d import A\nclass G(A): ...\nclass H(G): ...\nclass I(H): ...\n",
}
DEPTHS = {"a.base.A": 0, "a.base.B": 1, "a.c.C": 2, "a.c.D": 3, "a.c.E": 2, "a.d.F": 3}
OF_EXCEPTIONS = {"a.d.A": 0, "a.e.G": 1, "a.e.H": 2, "a.e.I": 3}


def test_depth_is_counted_over_modules_under_other_names_and_with_arguments() -> None:
    bases = bases_of(HIERARCHY)
    assert depths(bases) == DEPTHS | OF_EXCEPTIONS
    assert deep(bases) == {"a.c.D", "a.d.F"}, "exceptions do not count"
