"""Imports between rooms of the run time, of the generator and of the tests go the way that docs/architecture.md says, lazy ones too, and
those for types alone; the run time imports no other distribution of the repository, the generator of it only rooms that the page allows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()


def modules_in(package: Path) -> dict[str, Path]:
    """The file of every module of a package, by its full name."""
    return {
        ".".join(p.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): p
        for p in package.rglob("*.py")
    }


RUNTIME = modules_in(ROOT / "runtime/anyshape")
GENERATOR = modules_in(ROOT / "generator/anyshape_gen")
TESTING = modules_in(ROOT / "testing/anyshape_testing")
MODULES = RUNTIME | GENERATOR | TESTING
LISTS = {
    "runtime": "reads this list):\n\n",
    "generator": "reads this list, too):\n\n",
    "testing": "imports only what is before it:\n\n",
}
"""What stands before the list of the rooms in the page"""


def order(which: str) -> dict[str, int]:
    """The place of every room in the list of the page."""
    block = PAGE.split(LISTS[which])[1].split("\n\n")[0]
    return {room: k for k, room in enumerate(block.split())}


ROOMS_OF_ROOMS = {"lower", "lower.emit", "vm", "emit"}


def room_of(module: str) -> str:
    """The room of a module: `anyshape.vm.compiling.plans` is in `vm.compiling`, since `vm` is a room of rooms."""
    parts = module.split(".")[1:]
    depth = next((k for k in range(1, len(parts)) if ".".join(parts[:k]) not in ROOMS_OF_ROOMS), len(parts))
    return ".".join(parts[:depth]) or module


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


def imported(module: str, text: str, is_package: bool = False) -> Iterator[str]:
    """The modules of the run time, of the generator and of the tests that a module's text imports."""
    for name in names_imported(module, text, is_package):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        if name:
            yield name


def against(place: Mapping[str, int], module: str, text: str, is_package: bool = False) -> list[str]:
    """The imports of a module from rooms of its distribution that are further right."""
    own, distribution = place[room_of(module)], module.split(".")[0]
    names = [n for n in imported(module, text, is_package) if n.split(".")[0] == distribution]
    return [f"{module} imports {name}" for name in names if place[room_of(name)] > own]


@pytest.mark.in_every_sample
@pytest.mark.parametrize(("which", "modules"), [("runtime", RUNTIME), ("generator", GENERATOR), ("testing", TESTING)])
def test_imports_go_one_way(which: str, modules: Mapping[str, Path]) -> None:
    place = order(which)
    assert set(map(room_of, modules)) == set(place), set(map(room_of, modules)) ^ set(place)
    wrong = [line for m, p in modules.items() for line in against(place, m, p.read_text(), p.name == "__init__.py")]
    assert not wrong, "\n".join(wrong)


def test_an_import_the_other_way_is_found() -> None:
    place = order("runtime")
    lazy = "def f() -> None:\n    from anyshape.vm.program.table import Op\n"
    assert against(place, "anyshape.passes.fuse", lazy) == ["anyshape.passes.fuse imports anyshape.vm.program.table"]
    assert against(place, "anyshape.lower.ir.dag", "from ..emit.scopes import rows\n") != []
    assert against(place, "anyshape.lower.emit.loops.nest", "from anyshape.lower.emit.scopes import rows\n") != []
    assert against(place, "anyshape.lower.emit.scopes.rows", "from anyshape.lower.emit.loops import nest\n") == []
    assert against(place, "anyshape.vm.compiling.plans", "from anyshape.passes.fuse import fuse\n") == []


def test_an_import_the_other_way_is_found_in_the_generator() -> None:
    place = order("generator")
    lazy = "def f() -> None:\n    from anyshape_gen.check.op import check_meaning\n"
    assert against(place, "anyshape_gen.parse.load", lazy) == ["anyshape_gen.parse.load imports anyshape_gen.check.op"]
    assert against(place, "anyshape_gen.resolve.composing", "from ..emit.calls import api\n") != []
    assert against(place, "anyshape_gen.emit.rules.relations", "from anyshape_gen.emit.bodies import kernels\n") != []
    assert against(place, "anyshape_gen.emit.bodies.kernels", "from anyshape_gen.emit.rules import relations\n") == []
    assert against(place, "anyshape_gen.model", "from ..parse.text import Text\n", is_package=True) != []
    assert against(place, "anyshape_gen.check.compose", "from anyshape_gen.resolve.composing import Composer\n") == []
    assert against(place, "anyshape_gen.emit.operators.dialects", "from anyshape.vm.program import table\n") == []


def test_an_import_the_other_way_is_found_in_the_tests() -> None:
    place = order("testing")
    lazy = "def f() -> None:\n    from anyshape_testing.execution.reference import run_reference\n"
    wrong = ["anyshape_testing.calls.nodes imports anyshape_testing.execution.reference"]
    assert against(place, "anyshape_testing.calls.nodes", lazy) == wrong
    assert against(place, "anyshape_testing.draw.corpus", "from anyshape_testing import laws\n") != []
    assert against(place, "anyshape_testing.draw.validity", lazy) == []
    assert against(place, "anyshape_testing.mutation.making", "from anyshape_gen import mutants\n") == []


def other_packages(text: str) -> set[str]:
    """Returns the other distributions of this repository that a text of the run time imports; the generated ops are one with it."""
    return {n.split(".")[0] for n in names_imported("anyshape.x", text)} & {"anyshape_gen", "anyshape_testing"}


@pytest.mark.in_every_sample
def test_the_run_time_imports_no_other_distribution() -> None:
    assert {m: foreign for m, p in RUNTIME.items() if (foreign := other_packages(p.read_text()))} == {}
    assert other_packages("def f():\n    from anyshape_testing import laws\n") == {"anyshape_testing"}


def binds_llvm(text: str) -> bool:
    """Whether a text imports LLVM's binding itself, which fails where memory is limited."""
    return any(n.startswith("llvmlite.") for n in names_imported("anyshape.x", text))


@pytest.mark.in_every_sample
def test_one_file_binds_llvm() -> None:
    """All other files import it from this one, which says why it cannot be loaded."""
    assert [m for m, p in RUNTIME.items() if binds_llvm(p.read_text())] == ["anyshape.lower.binding"]
    assert binds_llvm("def f():\n    from llvmlite import binding\n")
    assert not binds_llvm("import llvmlite\n")


def beyond(allowed: set[str], text: str) -> set[str]:
    """The rooms of the run time that a text of the generator imports and may not."""
    rooms = {room_of(n) for n in imported("anyshape_gen.x", text) if n.split(".")[0] == "anyshape"} - allowed
    return rooms | {n for n in names_imported("anyshape_gen.x", text) if n.split(".")[0] == "anyshape_testing"}


@pytest.mark.in_every_sample
def test_the_generator_imports_leaf_rooms_alone() -> None:
    (sentence,) = re.findall(r"`anyshape_gen` may import (.*?) alone\.", PAGE, re.DOTALL)
    allowed = set(re.findall(r"`(\w+)`", sentence))
    texts = {p: p.read_text() for p in GENERATOR.values()}
    assert {str(p): foreign for p, text in texts.items() if (foreign := beyond(allowed, text))} == {}
    assert beyond(allowed, "from anyshape.vm.program import table\n") == {"vm.program"}
    assert beyond(allowed, "from anyshape_testing import laws\n") == {"anyshape_testing.laws"}
    assert beyond(allowed, "from anyshape.dims import Dim\n") == set()
