"""Puts the ops of generated packages under test.

In: names of packages. Out: properties of all their ops by name, of which oracles are imported only when one is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from importlib import import_module

from anyshape.errors import UnsupportedError
from anyshape.graph.registry import packages
from anyshape.properties import PropertiesByOp, Property


class KnownProperties(PropertiesByOp, MutableMapping[str, Property]):
    """Properties of several packages by name of the op; a package's mapping is read only when one of its ops is looked up."""

    def __init__(self) -> None:
        self._sources: dict[str, Mapping[str, Property]] = {}
        self._known = self._sources

    def add(self, properties: Mapping[str, Property]) -> None:
        """Adds the properties of a package, like `update`, but without reading them."""
        self._sources.update(dict.fromkeys(properties, properties))

    def __getitem__(self, op: str) -> Property:
        return self._sources[op][op]

    def __setitem__(self, op: str, p: Property) -> None:
        self._sources[op] = {op: p}

    def __delitem__(self, op: str) -> None:
        del self._sources[op]


PROPERTIES = KnownProperties()
"""Properties of the packages under test by op; `register` adds to it"""
PACKAGES: dict[str, str] = {}
"""The package of each op"""


def register(package: str) -> Mapping[str, Property]:
    """Puts the ops of a generated package under test. Raises UnsupportedError where the package is not installed."""
    if package not in {properties.__name__ for properties in packages()}:
        raise UnsupportedError(
            f"{package} is not installed, so that its ops are not found: pip install --editable . beside its pyproject.toml"
        )
    properties: Mapping[str, Property] = import_module(f"{package}.strategies").PROPERTIES
    PROPERTIES.add(properties)
    PACKAGES.update(dict.fromkeys(properties, package))
    return properties
