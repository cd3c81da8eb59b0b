"""Merges properties of the ops of several packages into one mapping.

In: mappings of properties. Out: one mapping by name of the op, which imports oracles only when one is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

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
