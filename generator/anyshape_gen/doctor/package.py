"""Checks a package of ops: its versions, its generated files, its entry point, and the names of its ops beside those of others.

In: a `Package`. Out: lines. Specs are read and generated again where they are beside the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module, metadata

from anyshape.code_version import VERSION
from anyshape.errors import AnyshapeError, SpecError
from anyshape.package_versions import FILE, GROUP, INTERFACE, check_interface, read_versions
from anyshape_gen.arguments import arguments
from anyshape_gen.doctor.answer import Line, checked, error, ok, warning
from anyshape_gen.doctor.environment import satisfies
from anyshape_gen.doctor.project import Package, located

OWN = "anyshape_ops"


def package(place: str) -> Iterator[Line]:
    """Checks the packages in a folder, or an installed one."""
    for one in located(place):
        for check in (versions, demands, entry_point, current, clashes):
            yield from checked(one.name, partial(check, one))


def versions(one: Package) -> Iterator[Line]:
    """Checks the interface and the language that the code was generated for."""
    from anyshape_gen.parse.versions import LANGUAGE

    fix = "generate it again: anyshape-gen --specs its_specs --package " + one.name
    path = one.code / FILE
    if not path.is_file():
        yield warning(f"{one.name} versions", f"there is no {path}, so they are taken for the first ones", fix)
        return
    said = read_versions(path)
    try:
        check_interface(one.name, said)
    except AnyshapeError as e:
        yield error(f"{one.name} versions", str(e), fix)
        return
    if said.language > LANGUAGE:
        yield error(
            f"{one.name} versions",
            f"its specs are of language {said.language}, anyshape_gen {VERSION} reads up to {LANGUAGE}",
            "pip install --upgrade 'anyshape[gen]'",
        )
    elif said.language < LANGUAGE:
        yield warning(
            f"{one.name} versions", f"it was generated for language {said.language}, which is {LANGUAGE} now", fix
        )
    else:
        yield ok(f"{one.name} versions", f"language {LANGUAGE}, interface {INTERFACE}")


def demands(one: Package) -> Iterator[Line]:
    """Checks that the project allows this anyshape."""
    if one.project is None:
        return
    listed = [d for d in one.project.dependencies if re.match(r"anyshape\b(?!-)", d)]
    if not listed:
        yield warning(
            f"{one.name} dependencies", "pyproject.toml does not list anyshape", 'add dependencies = ["anyshape"]'
        )
        return
    allowed = re.sub(r"^anyshape(\[.*?\])?|;.*", "", listed[0]).strip()
    if satisfies(VERSION, allowed):
        yield ok(f"{one.name} dependencies", f"{listed[0]} allows {VERSION}")
    else:
        yield error(
            f"{one.name} dependencies",
            f"pyproject.toml demands {listed[0]}, this is {VERSION}",
            f"pip install '{listed[0]}', or change the demand and run the tests",
        )


def entry_point(one: Package) -> Iterator[Line]:
    """Checks that the project announces the package, and that it is installed so."""
    point = f"{one.name}:OPS"
    announced = [] if one.project is None else [*one.project.entry_points.get(GROUP, {}).values()]
    if one.project is not None and point not in announced:
        yield error(
            f"{one.name} entry point",
            f'pyproject.toml has {announced or "none"} in project.entry-points."{GROUP}"',
            f'write {one.name} = "{point}" there, and install the package again',
        )
        return
    points = [p for p in metadata.entry_points(group=GROUP) if p.value == point]
    namespaces = {p.name for p in points}
    for other in sorted(
        {p.value for p in metadata.entry_points(group=GROUP) if p.name in namespaces and p.value != point}
    ):
        yield error(
            f"{one.name} entry point",
            f"{other} is installed under the name {'/'.join(sorted(namespaces))} too",
            "give the entry point of one of them another name, and install it again",
        )
    if points:
        yield ok(f"{one.name} entry point", f"{points[0].name} = {point}")
    else:
        yield warning(
            f"{one.name} entry point",
            "the package is not installed, so its ops are not known to anyshape",
            "pip install --editable .",
        )


def current(one: Package) -> Iterator[Line]:
    """Checks that specs have no errors, and that generated files are what they say."""
    if one.specs is None:
        yield ok(f"{one.name} files", f"no specs are beside {one.code}, so they are not generated again")
        return
    from anyshape_gen.generation import generated
    from anyshape_gen.memo import Memo
    from anyshape_gen.write import differences

    words = ["--specs", str(one.specs), "--package", one.name, "--out", str(one.out)]
    command = f"anyshape-gen {' '.join(words)}"
    try:
        result = generated(
            arguments().parse_args([*words, *(["--docs", str(one.docs)] if one.docs is not None else [])]),
            Memo.standard(),
        )
    except SpecError as e:
        yield error(f"{one.name} specs", str(e), "change the specs")
        return
    yield ok(f"{one.name} specs", f"{len(result.ops)} ops in {one.specs}")
    for note in result.advice:
        yield warning(f"{one.name} specs", f"{note.span}: {note.text}", "change the spec")
    different = differences(result.files, result.owned)
    if different:
        yield error(
            f"{one.name} files", f"{len(different)} are not what the specs generate, among them {different[0]}", command
        )
    else:
        yield ok(f"{one.name} files", f"{len(result.files)} generated files are current")


def clashes(one: Package) -> Iterator[Line]:
    """Checks that no other installed package has an op of the same name."""
    own = _ops(one.name, one)
    modules = {OWN, *(point.module for point in metadata.entry_points(group=GROUP))} - {one.name}
    bad = False
    for module in sorted(modules):
        try:
            known = _ops(module)
        except Exception as e:
            bad = True
            yield error(f"{module}", f"it registers ops, but cannot be loaded: {e}", f"reinstall or uninstall {module}")
            continue
        for name in sorted(own & known):
            bad = True
            yield error(
                f"{one.name} op {name}",
                f"{module} has an op of this name too",
                f"rename it in the specs of {one.name}, or uninstall {module}",
            )
    if not bad:
        yield ok(f"{one.name} ops", f"no other package has an op of their {len(own)} names")


def _ops(name: str, one: Package | None = None) -> set[str]:
    """The names of a package's ops: by its specs where they are there, else by importing it."""
    if one is not None and one.specs is not None:
        from anyshape_gen.analysis import analyse
        from anyshape_gen.generation import read_folder

        return {a.spec.name for a in analyse(read_folder(one.specs), complete=False).ops}
    ops: Mapping[str, object] = import_module(name).OPS
    return {full_name.rpartition(".")[2] for full_name in ops}
