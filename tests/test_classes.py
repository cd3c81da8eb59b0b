"""No class stands on more than two levels of classes of ours: what it is made of is handed to it, and a chain of base classes is no way to
split a file. Exceptions do not count, which are sorted by their base classes.

No constructor of the run time takes more than five arguments by position: of more, a call does not say which is which.

No two classes of the run time have one name, nor a class and an alias of another type: whoever searches for it comes to the one that it
means."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("runtime/anyshape", "generator/anyshape_gen", "testing/anyshape_testing")
MOST = 2
MOST_POSITIONAL = 5


def module_texts() -> dict[str, str]:
    texts = {}
    for package in PACKAGES:
        folder = ROOT / package
        for path in folder.rglob("*.py"):
            name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
            texts[name] = path.read_text()
    return texts


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
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            names |= {a.asname or a.name: f"{origin}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname or a.name: a.name for a in node.names}
    return names


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
    """Counts for every class how many classes of ours stand above it, on the longest way up."""

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
    deepest = {name for name, depth in depths(bases).items() if depth > MOST}
    return deepest - exceptions(bases)


@pytest.mark.in_every_sample
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


def positional_counts(texts: Mapping[str, str]) -> dict[str, int]:
    """How many arguments the constructor of every class takes by position, with those that it inherits."""
    bases = bases_of(texts)
    nodes = {
        f"{module}.{node.name}": node
        for module, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }

    def fields(name: str) -> dict[str, bool]:
        """The fields of a data class or named tuple, and whether each is taken by position."""
        inherited = {f: by for base in bases[name] if base in nodes for f, by in fields(base).items()}
        return inherited | own_fields(nodes[name]) if is_record(nodes[name]) else inherited

    def count(name: str) -> int:
        functions = [
            f for f in nodes[name].body if isinstance(f, ast.FunctionDef) and f.name in ("__init__", "__new__")
        ]
        if functions:
            return max(len(f.args.posonlyargs) + len(f.args.args) - 1 for f in functions)
        if is_record(nodes[name]):
            return sum(fields(name).values())
        return max((count(base) for base in bases[name] if base in nodes), default=0)

    return {name: count(name) for name in nodes}


def is_record(node: ast.ClassDef) -> bool:
    """Whether the constructor of a class is made of its fields."""
    decorators = [ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in node.decorator_list]
    return "dataclass" in decorators or any(ast.unparse(b).rpartition(".")[2] == "NamedTuple" for b in node.bases)


def own_fields(node: ast.ClassDef) -> dict[str, bool]:
    """Collects the fields of the class alone; what is no argument of the constructor is none."""
    by_position = not any("kw_only=True" in ast.unparse(d) for d in node.decorator_list)
    fields = {}
    for item in node.body:
        match item:
            case ast.AnnAssign(target=ast.Name(name), annotation=kind, value=default):
                annotation, value = ast.unparse(kind), "" if default is None else ast.unparse(default)
                if annotation.endswith("KW_ONLY"):
                    by_position = False
                elif "ClassVar" not in annotation and "init=False" not in value:
                    fields[name] = by_position and "kw_only=True" not in value
    return fields


def crowded(texts: Mapping[str, str]) -> set[str]:
    return {name for name, count in positional_counts(texts).items() if count > MOST_POSITIONAL}


def run_time_texts() -> dict[str, str]:
    return {module: text for module, text in module_texts().items() if module.partition(".")[0] == "anyshape"}


@pytest.mark.in_every_sample
def test_no_constructor_takes_more_than_five_arguments_by_position() -> None:
    texts = run_time_texts()
    assert crowded(texts) == set(), "by name alone (`kw_only=True`, `KW_ONLY`, `*`), or in groups"


CONSTRUCTORS = {
    "r.init": """
class A:
    def __init__(self, a, b, c, d, e, f=1): ...
class B(A): ...
class C(A):
    def __init__(self): ...
class D:
    def __init__(self, a, b, /, c, d, e, *f, g, h, **i): ...
""",
    "r.fields": """
@dataclass
class E:
    a: int
    b: int
    c: int = 0
    d: int = field(init=False)
    e: ClassVar[int] = 1
    def f(self): ...
class F(NamedTuple):
    a: int; b: int; c: int; d: int; e: int; f: int
class G:
    a: int; b: int; c: int; d: int; e: int; f: int
""",
    "r.inherited": """
from r.fields import E
@dataclasses.dataclass(frozen=True)
class H(E):
    a: str; g: int; h: int; i: int
""",
    "r.keywords": """
@dataclass(kw_only=True)
class I:
    a: int; b: int
@dataclass
class J:
    a: int
    b: int = field(kw_only=True)
    _: KW_ONLY
    c: int
""",
}
COUNTS = {"init.A": 6, "init.B": 6, "init.C": 0, "init.D": 5, "fields.E": 3, "fields.F": 6, "fields.G": 0}
COUNTS |= {"inherited.H": 6, "keywords.I": 0, "keywords.J": 1}


def test_arguments_by_position_are_counted_in_every_form_of_a_constructor() -> None:
    assert positional_counts(CONSTRUCTORS) == {f"r.{name}": count for name, count in COUNTS.items()}
    assert crowded(CONSTRUCTORS) == {"r.init.A", "r.init.B", "r.fields.F", "r.inherited.H"}


def shared_names(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The names, without a leading underscore, of top-level classes that are also those of another class or alias; and by each, all that
    have it."""
    named: dict[str, set[str]] = defaultdict(set)
    of_classes = set()
    for module, text in texts.items():
        for node in top_level(ast.parse(text).body):
            names = [node.name] if isinstance(node, ast.ClassDef) else aliases(node)
            for name in names:
                named[name.lstrip("_")].add(f"{module}.{name}")
            of_classes.update(name.lstrip("_") for name in names if isinstance(node, ast.ClassDef))
    return {name: full for name, full in named.items() if name in of_classes and len(full) > 1}


def top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under a condition or in a `try` too."""
    for node in body:
        match node:
            case ast.If():
                yield from top_level((*node.body, *node.orelse))
            case ast.Try():
                handled = (statement for handler in node.handlers for statement in handler.body)
                yield from top_level((*node.body, *handled, *node.orelse, *node.finalbody))
            case _:
                yield node


def aliases(node: ast.stmt) -> list[str]:
    """The names that an assignment gives to types: those in the style of classes."""
    match node:
        case ast.Assign(targets=targets):
            names = [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(name)):
            names = [name]
        case _:
            names = []
    return [name for name in names if re.fullmatch(r"_*[A-Z]+[a-z]\w*", name)]


@pytest.mark.in_every_sample
def test_no_class_of_the_run_time_shares_its_name() -> None:
    texts = run_time_texts()
    assert sum(isinstance(n, ast.ClassDef) for text in texts.values() for n in top_level(ast.parse(text).body)) > 500
    assert shared_names(texts) == {}, "say by the name which of them it is: `NodeGroup`, `OpenLoop`"


SHARED = {
    "r.a": "class Row: ...\nclass _Part: ...\nclass Sum: ...\n",
    "r.b": "class Row: ...\nif True:\n    class Part: ...\nSum = tuple[int, ...]\n",
    "r.c": "try:\n    class Late: ...\nexcept OSError:\n    class _Late: ...\nLate: TypeAlias = int\n",
}
DISTINCT = {
    "r.a": "class Row:\n    class Part: ...\ndef f():\n    class Sum: ...\nArray = list[int]\nROW = 1\n",
    "r.b": "from r.a import Row\nclass Part: ...\nclass Sum: ...\nArray = list[int]\nrow = Row()\nRow.part = 1\n",
    "r.c": "try:\n    class Late: ...\nexcept OSError:\n    class Late: ...\nPART, SUM = 1, 2\n",
}


def test_names_are_shared_by_classes_and_aliases_of_modules_alone() -> None:
    assert shared_names(SHARED) == {
        "Row": {"r.a.Row", "r.b.Row"},
        "Part": {"r.a._Part", "r.b.Part"},
        "Sum": {"r.a.Sum", "r.b.Sum"},
        "Late": {"r.c.Late", "r.c._Late"},
    }
    assert shared_names(DISTINCT) == {}
