"""Emits Python modules: the header, exactly the imports that the code uses, and the code.

In: code and a table of the modules of names. Out: the file. An emitter marks a name that has to be imported where it emits it (`use`);
a text that is dropped takes its marks with it. Only code of authors, which is that of oracles, is parsed for its names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from anyshape_gen.emit.text.layout import WIDTH, layout


@dataclass(frozen=True)
class Doc:
    """The source and the description at the head of a file."""

    origin: str
    text: str


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("anyshape_gen", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, **values: object) -> str:
    """Renders a template of `templates/`; a name of it without a value is an error."""
    return _environment().get_template(template).render(**values)


MARK = "\0"
"""The character before a name in a statement that the module has to import; no text of a spec has it."""


def use(name: str) -> str:
    """Marks a name in a statement that the module has to import; `Code` removes the mark, and records the name."""
    return MARK + name


def number_text(value: object) -> str:
    """Prints a number, or a tuple of numbers; `inf` and `nan` are imported names."""
    return re.sub(r"\b(inf|nan)\b", lambda name: use(name[0]), repr(value))


def characters(statement: str) -> list[str]:
    """Splits a statement into characters, each together with a mark before it."""
    return re.findall(f"{MARK}?.", statement, re.DOTALL)


class Emitted(str):
    """Emitted code, and the names that it imports from other modules."""

    imports: frozenset[str]

    def __new__(cls, text: str, imports: frozenset[str]) -> Emitted:
        emitted = super().__new__(cls, text)
        emitted.imports = imports
        return emitted

    def __reduce__(self) -> tuple[type[Emitted], tuple[str, frozenset[str]]]:
        return Emitted, (str(self), self.imports)


NOTHING = Emitted("", frozenset())


def joined(gap: str, texts: Iterable[Emitted], more: Iterable[str] = ()) -> Emitted:
    """Joins several texts, with the imports of all, and `more` imports."""
    parts = list(texts)
    return Emitted(gap.join(parts), frozenset(more).union(*(part.imports for part in parts)))


def python_module(
    doc: Doc, code: Emitted, known: Mapping[str, str], own: str, *, future: bool = True, tail: Emitted = NOTHING
) -> str:
    """Emits a module of the package `own`. `known`: {name: module to import it from, or a whole `import …`}."""
    imports = import_lines(code.imports | tail.imports, known, own)
    body, end = code.strip("\n"), tail.strip("\n")
    return render("module.py.j2", doc=doc, future=future, imports="\n".join(imports), body=body, tail=end)


def used_names(code: str) -> frozenset[str]:
    """Collects names that an author's code reads and that are neither parameters nor variables of the function that reads them."""
    free: set[str] = set()
    for statement in ast.parse(code).body:
        names: set[str] = set()
        local: set[str] = set()
        for n in ast.walk(statement):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                names.add(n.id)
            elif isinstance(n, ast.arg):
                local.add(n.arg)
            elif isinstance(n, ast.Name) and isinstance(statement, ast.FunctionDef):
                local.add(n.id)
        free |= names - local
    return frozenset(free)


def import_lines(names: Iterable[str], known: Mapping[str, str], own: str) -> list[str]:
    """Emits import statements for names of the table: standard library, other packages, the package itself."""
    plain: set[str] = set()
    by_module: dict[str, list[str]] = {}
    for name in names:
        origin = known[name]
        if origin.startswith("import "):
            plain.update(origin.split("\n"))
        else:
            by_module.setdefault(origin, []).append(name)
    lines: list[str] = []
    for section in range(3):
        part = sorted(p for p in plain if _section(p.removeprefix("import "), own) == section)
        for module in sorted(m for m in by_module if _section(m, own) == section):
            part += _from(module, by_module[module])
        if lines and part:
            lines.append("")
        lines += part
    return lines


def _section(module: str, own: str) -> int:
    root = module.split(".")[0].split(" ")[0]
    return 2 if root in ("anyshape", own) else 1 if root in ("numpy", "scipy") else 0


def _from(module: str, names: Iterable[str]) -> list[str]:
    ordered = sorted(names, key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n.lower()))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {n}," for n in ordered), ")"]


class Code:
    """Lines of Python under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.imports: set[str] = set()

    def add(self, statement: str = "") -> None:
        self.lines += self._lines(statement) if statement else [""]

    def insert(self, at: int, statement: str) -> None:
        self.lines[at:at] = self._lines(statement)

    def _lines(self, statement: str) -> list[str]:
        self.imports.update(re.findall(rf"{MARK}(\w+)", statement))
        return layout(statement.replace(MARK, ""), self.depth * 4)

    def comment(self, text: str) -> None:
        self.lines.append(" " * (self.depth * 4) + f"# {text}")

    def indent(self) -> None:
        self.depth += 1

    def dedent(self) -> None:
        self.depth -= 1

    def text(self) -> Emitted:
        return Emitted("\n".join(self.lines), frozenset(self.imports))


def tuple_text(items: Iterable[str]) -> str:
    """Prints a tuple: `(a, b)`, `(a,)`, `()`."""
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def quoted(text: str) -> str:
    """Prints a string literal, in double quotes as a formatter does."""
    if '"' in text and "'" not in text:
        return repr(text)
    return '"' + "".join(map(escaped, text)) + '"'


def escaped(c: str) -> str:
    if c in '\\"':
        return "\\" + c
    return c if c.isprintable() else c.encode("unicode_escape").decode()
