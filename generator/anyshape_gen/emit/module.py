"""Python modules as text: the header, exactly the imports that the code uses, and the code.

In: code and a table of where names come from. Out: the file. Imports are found by reading the code's syntax tree, so an
emitter never lists them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from anyshape_gen.emit.layout import WIDTH, layout


@dataclass(frozen=True)
class Doc:
    """The two texts at the head of a file."""

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
    """A template of `templates/` filled in; any value it names and is not given is an error."""
    return _environment().get_template(template).render(**values)


def python_module(
    doc: Doc,
    code: str,
    known: Mapping[str, str],
    own: str,
    *,
    future: bool = True,
    tail: str = "",
    used: Iterable[str] | None = None,
) -> str:
    """A generated module of the package `own`. `known`: {name: module to import it from, or a whole `import …`}; `used`: the names that
    the code reads, where they are known."""
    body = code.strip("\n")
    names = {*(used_names(body) if used is None else used), *used_names(tail)}
    imports = import_lines(names, known, own)
    return render("module.py.j2", doc=doc, future=future, imports="\n".join(imports), body=body, tail=tail.strip("\n"))


def used_names(code: str) -> frozenset[str]:
    """Names that the code reads and that are neither parameters nor variables of the function they are read in."""
    found: set[str] = set()
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
        found |= names - local
    return frozenset(found)


def import_lines(names: Iterable[str], known: Mapping[str, str], own: str) -> list[str]:
    """Import statements for those names that the table knows: standard library, other packages, ours."""
    plain: set[str] = set()
    by_module: dict[str, list[str]] = {}
    for name in names:
        origin = known.get(name)
        if origin is None:
            continue
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
    ordered = sorted(names, key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {n}," for n in ordered), ")"]


class Code:
    """Lines of Python under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, statement: str = "") -> None:
        self.lines += layout(statement, self.depth * 4) if statement else [""]

    def comment(self, text: str) -> None:
        self.lines.append(" " * (self.depth * 4) + f"# {text}")

    def indent(self) -> None:
        self.depth += 1

    def dedent(self) -> None:
        self.depth -= 1

    def text(self) -> str:
        return "\n".join(self.lines)


def tuple_text(items: Iterable[str]) -> str:
    """`(a, b)`, `(a,)`, `()`."""
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def quoted(text: str) -> str:
    """A string literal in double quotes, as the formatter would have it."""
    if '"' in text and "'" not in text:
        return repr(text)
    return '"' + "".join(map(escaped, text)) + '"'


def escaped(c: str) -> str:
    if c in '\\"':
        return "\\" + c
    return c if c.isprintable() else c.encode("unicode_escape").decode()
