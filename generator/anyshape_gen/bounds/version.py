"""Which prover made a verdict: a hash of what all code says that a proof rests on.

In: the module that proves an op. Out: hex digits, which change with the code of any module that it imports, directly or not: the prover's
own, the arithmetic of dims, the nodes of the language and the walks over them. Comments, docstrings and layout are no part of it. What a
text says and imports is kept on disk under a hash of it: to parse all of them takes longer than to generate what one edit changed.
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
    """What the text of a module says, as a hash, and which modules of ours it imports."""

    meaning: str
    imports: tuple[str, ...]


@cache
def prover_version() -> str:
    digest = hashlib.sha256()
    for name, code in sorted(prover_code(DiskCache.standard("prover", limit_bytes=8 << 20)).items()):
        digest.update(f"{name}\0{code.meaning}\0".encode())
    return digest.hexdigest()[:16]


def prover_code(kept: DiskCache) -> dict[str, Code]:
    """Every module of ours that the prover imports, by name, its own among them."""
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
        said, *imports = known.decode().split("\n")
        return Code(said, tuple(imports))
    text = source.decode()
    code = Code(hashlib.sha256(meaning(text).encode()).hexdigest(), tuple(_imported(ast.parse(text))))
    kept.put(key, "\n".join((code.meaning, *code.imports)).encode())
    return code


@cache
def _read_by() -> str:
    """What decides how a text is read: this module, and Python."""
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
    """The file of a module; nothing for a name that is none."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # what is before the last dot is no package
        return ""
    return spec.origin or "" if spec is not None else ""


def meaning(source: str) -> str:
    """The syntax tree as text: the same for sources that differ in comments, docstrings and layout only."""
    return repr(_form(ast.parse(source)))


def _form(value: object) -> object:
    if isinstance(value, list):
        return [_form(v) for v in value if not _is_note(v)]
    if not isinstance(value, ast.AST):
        return value
    parts = ((field, getattr(value, field, None)) for field in value._fields)
    # a later Python has fields that an earlier one lacks, and they are empty
    return type(value).__name__, [(field, _form(v)) for field, v in parts if v is not None and v != []]


def _is_note(statement: object) -> bool:
    """A text that stands as a statement: a docstring, or one that explains a field."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
