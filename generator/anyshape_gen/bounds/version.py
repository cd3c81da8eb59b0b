"""Hashes the code that a proof depends on, so that a stored verdict is valid for the same prover only.

In: the module that proves an op. Out: hex digits, which change with the code of any module that it imports, directly or not: the prover's
own, the arithmetic of dims, the nodes of the language and the walks over them. Comments, docstrings and layout are not hashed. The hash and
the imports of each source are kept on disk, under a hash of its text: to parse all sources takes longer than to generate one changed op.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from anyshape.disk_cache import DiskCache

PROVER = "anyshape_gen.bounds.check_op"
_OURS = ("anyshape", "anyshape_gen")


@dataclass(frozen=True)
class Code:
    """The hash of a module's syntax tree, and its imports of this project's modules."""

    meaning: str
    imports: tuple[str, ...]


@cache
def prover_version() -> str:
    digest = hashlib.sha256()
    for name, code in sorted(prover_code(DiskCache.standard("prover", limit_bytes=8 << 20)).items()):
        digest.update(f"{name}\0{code.meaning}\0".encode())
    return digest.hexdigest()[:16]


def prover_code(kept: DiskCache) -> dict[str, Code]:
    """Reads every module of this project that the prover imports, by name, its own among them."""
    modules: dict[str, Code] = {}
    waiting = [PROVER]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules[name] = _code(Path(_origin(name)).read_bytes(), kept)
            waiting += modules[name].imports
    return modules


def _code(source: bytes, kept: DiskCache) -> Code:
    key = hashlib.sha256(f"{_read_by()}\0".encode() + source).hexdigest()
    known = kept.get(key)
    if known is not None:
        digest, *imports = known.decode().split("\n")
        return Code(digest, tuple(imports))
    text = source.decode()
    code = Code(hashlib.sha256(meaning(text).encode()).hexdigest(), tuple(_imported(ast.parse(text))))
    kept.put(key, "\n".join((code.meaning, *code.imports)).encode())
    return code


@cache
def _read_by() -> str:
    """Returns what the parsed form of a source depends on: this module's text, and the version of Python."""
    return f"{Path(__file__).read_text(encoding='utf-8')}\0{platform.python_version()}"


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{a.name}" for a in node.names]
            names = [name if _origin(name) else node.module for name in inner]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in _OURS)


@cache
def _origin(name: str) -> str:
    """Returns the file of a module; empty for a name that is none."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # the name before the last dot is no package
        return ""
    return spec.origin or "" if spec is not None else ""


def meaning(source: str) -> str:
    """Prints the syntax tree: the same text for sources that differ in comments, docstrings and layout only."""
    return repr(_form(ast.parse(source)))


def _form(value: object) -> object:
    if isinstance(value, list):
        return [_form(v) for v in value if not _is_note(v)]
    if not isinstance(value, ast.AST):
        return value
    parts = ((field, getattr(value, field, None)) for field in value._fields)
    # a later Python has additional fields, which are empty
    return type(value).__name__, [(field, _form(v)) for field, v in parts if v is not None and v != []]


def _is_note(statement: object) -> bool:
    """Whether a statement is a string: a docstring, or one that explains a field."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
