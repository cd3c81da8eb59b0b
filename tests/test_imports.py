"""Imports between rooms of the run time, and between those of the tests, go the way that docs/architecture.md says, lazy ones and those for
types alone too. The run time imports no other distribution of the repository, the generator of it only the rooms that the page allows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

RUNTIME = Path(__file__).parents[1] / "runtime"
PAGE = (RUNTIME.parent / "docs/architecture.md").read_text()


def modules_below(folder: Path) -> dict[str, Path]:
    """The modules of a package by their full names."""
    return {
        ".".join(p.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): p
        for p in folder.rglob("*.py")
    }


MODULES = modules_below(RUNTIME / "anyshape")


def order(page: str, introduction: str = "reads this list):") -> dict[str, int]:
    """The place of every room in a list of the page."""
    block = page.split(f"{introduction}\n\n")[1].split("\n\n")[0]
    return {room: k for k, room in enumerate(block.split())}


def room_of(module: str) -> str:
    """`anyshape.vm.compiling.plans` is in `vm.compiling`: `lower` and `vm` are rooms of rooms."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] in (["lower"], ["vm"]) else parts[:1]) or module


def names_imported(module: str, text: str, is_package: bool = False) -> Iterator[str]:
    """The full names that a module's text imports, wherever it does."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{a.name}" for a in node.names)


def imported(module: str, text: str, is_package: bool = False, modules: Mapping[str, Path] = MODULES) -> Iterator[str]:
    """The modules of a package, by default `anyshape`, that a module's text imports."""
    for name in names_imported(module, text, is_package):
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if name:
            yield name


def against(
    place: Mapping[str, int], module: str, text: str, is_package: bool = False, modules: Mapping[str, Path] = MODULES
) -> list[str]:
    """The imports of a module from rooms further right."""
    own = place[room_of(module)]
    forbidden = [name for name in imported(module, text, is_package, modules) if place[room_of(name)] > own]
    return [f"{module} imports {name}" for name in forbidden]


def test_imports_go_one_way() -> None:
    place = order(PAGE)
    assert set(map(room_of, MODULES)) == set(place), set(map(room_of, MODULES)) ^ set(place)
    wrong = [line for m, p in MODULES.items() for line in against(place, m, p.read_text(), p.name == "__init__.py")]
    assert not wrong, "\n".join(wrong)


def test_an_import_the_other_way_is_found() -> None:
    place = order(PAGE)
    lazy = "def f() -> None:\n    from anyshape.vm.program.table import Op\n"
    assert against(place, "anyshape.passes.fuse", lazy) == ["anyshape.passes.fuse imports anyshape.vm.program.table"]
    assert against(place, "anyshape.lower.ir.dag", "from ..emit import rows\n") != []
    assert against(place, "anyshape.vm.compiling.plans", "from anyshape.passes.fuse import fuse\n") == []


TESTING = modules_below(RUNTIME.parent / "testing/anyshape_testing")
TESTING_LIST = "The rooms of `anyshape_testing` have an order, too, in which each imports only what is before it:"


def test_imports_of_the_tests_go_one_way() -> None:
    place = order(PAGE, TESTING_LIST)
    assert set(map(room_of, TESTING)) == set(place), set(map(room_of, TESTING)) ^ set(place)
    texts = [(m, p.read_text(), p.name == "__init__.py") for m, p in TESTING.items()]
    wrong = [line for m, text, is_package in texts for line in against(place, m, text, is_package, TESTING)]
    assert not wrong, "\n".join(wrong)


def test_an_import_of_the_tests_the_other_way_is_found() -> None:
    place = order(PAGE, TESTING_LIST)
    lazy = "def f() -> None:\n    from anyshape_testing.execution.reference import run_reference\n"
    wrong = ["anyshape_testing.calls.nodes imports anyshape_testing.execution.reference"]
    assert against(place, "anyshape_testing.calls.nodes", lazy, modules=TESTING) == wrong
    assert against(place, "anyshape_testing.draw.corpus", "from anyshape_testing import laws\n", modules=TESTING) != []
    assert against(place, "anyshape_testing.draw.validity", lazy, modules=TESTING) == []


def other_packages(text: str) -> set[str]:
    """Returns the other distributions of this repository that a text of the run time imports; the generated ops are one with it."""
    return {n.split(".")[0] for n in names_imported("anyshape.x", text)} & {"anyshape_gen", "anyshape_testing"}


def test_the_run_time_imports_no_other_distribution() -> None:
    assert {m: foreign for m, p in MODULES.items() if (foreign := other_packages(p.read_text()))} == {}
    assert other_packages("def f():\n    from anyshape_testing import laws\n") == {"anyshape_testing"}


def beyond(allowed: set[str], text: str) -> set[str]:
    """The rooms of the run time that a text of the generator imports and may not."""
    rooms = {room_of(name) for name in imported("anyshape_gen.x", text)} - allowed
    return rooms | {n for n in names_imported("anyshape_gen.x", text) if n.split(".")[0] == "anyshape_testing"}


def test_the_generator_imports_leaf_rooms_alone() -> None:
    (sentence,) = re.findall(r"`anyshape_gen` may import (.*?) alone\.", PAGE, re.DOTALL)
    allowed = set(re.findall(r"`(\w+)`", sentence))
    texts = {p: p.read_text() for p in (RUNTIME.parent / "generator/anyshape_gen").rglob("*.py")}
    assert {str(p): foreign for p, text in texts.items() if (foreign := beyond(allowed, text))} == {}
    assert beyond(allowed, "from anyshape.vm.program import table\n") == {"vm.program"}
    assert beyond(allowed, "from anyshape_testing import laws\n") == {"anyshape_testing.laws"}
    assert beyond(allowed, "from anyshape.dims import Dim\n") == set()
