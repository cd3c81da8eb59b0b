"""Properties of the ops of several packages by name.

In: mappings of properties. Out: one mapping, which knows the names of ops without importing their oracles.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from anyshape.properties import PropertiesByOp, Property


class KnownProperties(PropertiesByOp, MutableMapping[str, Property]):
    """Those of several packages, each asked for its own only when somebody asks here."""

    def __init__(self) -> None:
        self._sources: dict[str, Mapping[str, Property]] = {}
        self._known = self._sources

    def add(self, properties: Mapping[str, Property]) -> None:
        """As `update` does, without a look at what they are."""
        self._sources.update(dict.fromkeys(properties, properties))

    def __getitem__(self, op: str) -> Property:
        return self._sources[op][op]

    def __setitem__(self, op: str, p: Property) -> None:
        self._sources[op] = {op: p}

    def __delitem__(self, op: str) -> None:
        del self._sources[op]
