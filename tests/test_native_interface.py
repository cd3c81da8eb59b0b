"""The native run time is used by way of the names of its interface, `anyshape/vm/native/__init__.py`; tests of its parts are all that
imports the parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyshape.vm import native
from tests.test_imports import names_imported

ROOT = Path(__file__).parents[1]
INTERFACE = "anyshape.vm.native"
USERS = ("runtime", "generator", "generated", "testing", "benchmarks", "examples")


def uses(module: str, text: str) -> Iterator[str]:
    """What a module's text imports of the native run time, from its head on, and what it names in a string to import it by."""
    yield from names_imported(module, text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(INTERFACE):
            yield node.value


def behind_the_interface(module: str, text: str) -> list[str]:
    """What it uses that the interface does not have."""
    allowed = {INTERFACE, *(f"{INTERFACE}.{name}" for name in native.__all__)}
    of_room = (name for name in uses(module, text) if f"{name}.".startswith(f"{INTERFACE}."))
    return sorted(name for name in of_room if name not in allowed)


def modules() -> dict[str, Path]:
    """Collects modules by name, those of all folders but the room's own."""
    paths = {}
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            base = ROOT if folder in ("benchmarks", "examples") else ROOT / folder
            name = ".".join(path.relative_to(base).with_suffix("").parts)
            if not name.startswith(f"{INTERFACE}."):
                paths[name] = path
    return paths


def test_nothing_imports_what_is_behind_the_interface() -> None:
    texts = {name: path.read_text() for name, path in modules().items()}
    assert len(texts) > 400
    assert {name: wrong for name, text in texts.items() if (wrong := behind_the_interface(name, text))} == {}


def test_every_name_of_the_interface_is_used() -> None:
    used = {name for module, path in modules().items() for name in attributes_and_imports(module, path.read_text())}
    assert set(native.__all__) <= used


def attributes_and_imports(module: str, text: str) -> Iterator[str]:
    yield from (name.removeprefix(f"{INTERFACE}.") for name in names_imported(module, text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "native":
            yield node.attr


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from anyshape.vm.native.executor import NativeExecutor", ["anyshape.vm.native.executor.NativeExecutor"]),
        ("from anyshape.vm.native import pool", ["anyshape.vm.native.pool"]),
        ("def f():\n    import anyshape.vm.native.pool", ["anyshape.vm.native.pool"]),
        ("from ..native import pool_layout", ["anyshape.vm.native.pool_layout"]),
        ("import_module('anyshape.vm.native.loop')", ["anyshape.vm.native.loop"]),
        ("from anyshape.vm.native import MOST_THREADS, new_executor", []),
        ("from anyshape.vm import native\nnative.usable_threads()", []),
        ("from anyshape.vm.natives import pool\n'anyshape.vm.nativeness'", []),
    ],
)
def test_what_is_behind_the_interface_is_distinguished_from_the_interface(text: str, wrong: list[str]) -> None:
    assert behind_the_interface("anyshape.vm.compiling.plans", text) == wrong
