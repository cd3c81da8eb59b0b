"""Versions of generated packages of ops: which of them this run time can run, known before their code is imported.

In: the name of a package. Out: what its file says of the language of its specs and of the interface that its code uses, or an error in
the words of what to do. A package without the file is of the first versions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from anyshape.code_version import VERSION
from anyshape.errors import UnsupportedError
from anyshape.files import open_plain

GROUP = "anyshape.ops"
"""The entry point by which a package of ops is found"""
INTERFACE = 1
"""The version of what generated packages use of the run time; raised whenever code that an older generator wrote does not run any more"""
FILE = "versions.json"
"""The file of versions in a generated package"""


@dataclass(frozen=True)
class PackageVersions:
    """What a package says of itself."""

    language: int = 1
    """the version of the language of its specs"""
    interface: int = 1
    """the version of the interface of the run time that its code uses"""


def versions_of(package: str) -> PackageVersions:
    """The versions of an installed package, of the first ones where it says none. Raises UnsupportedError for a file of another form, and
    ImportError where the package cannot be loaded."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / FILE
        if path.is_file():
            return read_versions(path)
    return PackageVersions()


def read_versions(path: Path) -> PackageVersions:
    """Reads the file of versions. Raises UnsupportedError for one of another form."""
    try:
        with open_plain(path) as file:
            table = json.loads(file.read())
        versions = PackageVersions(table["language"], table["interface"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as e:
        raise UnsupportedError(
            f"{path} does not have the versions of a package of ops: {e!r}; generate it again"
        ) from e
    for number in (versions.language, versions.interface):
        if not isinstance(number, int) or isinstance(number, bool):
            raise UnsupportedError(f"{path}: a version is a number, got {number!r}; generate the package again")
    return versions


def check_interface(package: str, versions: PackageVersions) -> None:
    """Checks that this run time runs the code of a package. Raises UnsupportedError with what to do where it does not."""
    if versions.interface == INTERFACE:
        return
    advice = (
        "install a later anyshape"
        if versions.interface > INTERFACE
        else f"generate it again, by the anyshape_gen of this version: anyshape-gen --specs its_specs --package {package} --out its_folder"
    )
    raise UnsupportedError(
        f"the package {package} was generated for interface {versions.interface} of the run time, "
        f"and anyshape {VERSION} has {INTERFACE}: {advice}"
    )
