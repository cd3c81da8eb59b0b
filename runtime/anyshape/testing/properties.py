"""Properties of ops by name, of which the module is imported only when its ops are tested: oracles import libraries that are large.

In: the modules that make properties. Out: mappings that know the names of ops without importing anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

from anyshape.testing import Property


class _ByOp(Mapping[str, Property]):
    """Properties that are had when somebody asks for them; what is known of each says of which ops there are any."""

    _known: Mapping[str, object]

    def __contains__(self, op: object) -> bool:
        return op in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class LazyProperties(_ByOp):
    """Those of a generated package, which says by op where its Property stands: a module of the package's room and a name in it."""

    def __init__(self, room: str, places: Mapping[str, str]) -> None:
        self._room, self._places, self._known = room, places, places

    def __getitem__(self, op: str) -> Property:
        module, name = self._places[op].split(".")
        found: Property = getattr(import_module(f"{self._room}.{module}"), name)
        return found

    def __repr__(self) -> str:
        return f"LazyProperties({self._room}: {', '.join(self)})"


class KnownProperties(_ByOp, MutableMapping[str, Property]):
    """Those of several packages, each asked for its own only when somebody asks here."""

    def __init__(self) -> None:
        self._sources: dict[str, Mapping[str, Property]] = {}
        self._known = self._sources

    def add(self, found: Mapping[str, Property]) -> None:
        """As `update` does, without a look at what they are."""
        self._sources.update(dict.fromkeys(found, found))

    def __getitem__(self, op: str) -> Property:
        return self._sources[op][op]

    def __setitem__(self, op: str, p: Property) -> None:
        self._sources[op] = {op: p}

    def __delitem__(self, op: str) -> None:
        del self._sources[op]
