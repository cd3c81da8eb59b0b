"""Reads spec files of every version of the language, as if they were of the present one.

In: the text of a spec file, whose key `language:` says its version. Out: its tree, in which what older versions had under other names is
renamed, every character in its place; or findings of what has no such name, with the way to change it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from anyshape.code_version import VERSION
from anyshape_gen.model.source import Findings
from anyshape_gen.parse.keys import OP_KEYS, Key
from anyshape_gen.parse.text import Text
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq, read_yaml

FIRST = 1
"""The version of a file without `language:`, so that no file changes its meaning when another generator reads it"""
LANGUAGE = 1
"""The version of the language, raised by each change of it that a spec can notice; `CHANGES` says what changed"""
GENERATORS: Mapping[int, str] = {1: "0.1.0"}
"""The first version of anyshape_gen that reads each version of the language"""


class Scope(StrEnum):
    """The places in which a name of the language may stand."""

    FILE = "key of a file"
    OP = "key of an op or a family"
    PARAM = "key of a parameter"
    FUNCTION = "function"


@dataclass(frozen=True)
class Change:
    """A name that the language had before version `since`. `now` is the name of the same meaning; None where nothing has that meaning, so
    that a spec with it is refused. `advice` says how to change such a spec."""

    since: int
    scope: Scope
    name: str
    now: str | None
    advice: str = ""


CHANGES: tuple[Change, ...] = ()
"""Changes between versions, oldest first"""
CALLING = ("code", "signatures", "params", "dtypes", "texts", "algorithms")
"""Forms of values of keys in which functions of the language are called"""


def read_spec(path: str, content: str, findings: Findings) -> YNode | None:
    """Parses one file and brings it up to date; None (with findings) where it is not YAML or of no version that can be read."""
    root = read_yaml(path, content, findings)
    if not isinstance(root, YMap):
        return root
    version = declared(root, findings)
    if version is None:
        return None
    later = [change for change in CHANGES if change.since > version]
    for change in sorted(
        later, key=lambda change: change.scope is Scope.FUNCTION
    ):  # which texts are code, keys of this version say
        root = _Update(change, version, findings).file(root)
    return root


def declared(root: YMap, findings: Findings) -> int | None:
    """The version that a file says it has; None, with a finding, for one that is no number or that this generator does not read."""
    node = root.get("language")
    if node is None:
        return FIRST
    value = node.python() if isinstance(node, YScalar) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < FIRST:
        shown = f", got '{node.text.value}'" if isinstance(node, YScalar) else ""
        findings.add(node.span, f"the version of the language is a whole number from {FIRST} on{shown}")
        return None
    if value > LANGUAGE:
        findings.add(
            node.span,
            f"version {value} of the language is newer than this generator: anyshape_gen {VERSION} reads up to version {LANGUAGE}, "
            "and a later one has to be installed: pip install --upgrade 'anyshape[gen]'",
        )
        return None
    return value


@dataclass(frozen=True)
class _Update:
    """Applies one change to the tree of a file of an older version."""

    change: Change
    version: int
    findings: Findings

    def file(self, root: YMap) -> YMap:
        if self.change.scope is Scope.FILE:
            return self._keys(root)
        entries = []
        for key, value in root.entries:
            if key.text.value in ("ops", "families"):
                value = _each(value, self._op)
            elif self.change.scope is Scope.FUNCTION and key.text.value in ("define", "library"):
                value = self._calls(value)
            entries.append((key, value))
        return replace(root, entries=tuple(entries))

    def _op(self, op: YMap) -> YMap:
        match self.change.scope:
            case Scope.OP:
                return self._keys(op)
            case Scope.PARAM:
                return _at(op, ("params",), lambda params: _each(params, self._keys))
            case _:
                return _at(op, _calling(OP_KEYS), self._calls)

    def _keys(self, node: YMap) -> YMap:
        """Renames a key of a mapping."""
        return replace(node, entries=tuple((self._key(key, node), value) for key, value in node.entries))

    def _key(self, key: YScalar, node: YMap) -> YScalar:
        now = self.change.now
        if key.text.value != self.change.name:
            return key
        if now is None:
            self._refuse(key.text, 0, len(key.text.value))
            return key
        if node.get(now) is not None:
            self.findings.add(key.span, f"'{key.text.value}' of language {self.version} is '{now}', which is there too")
        return replace(key, text=_renamed(key.text, 0, len(key.text.value), now))

    def _calls(self, node: YNode) -> YNode:
        """Renames a function wherever it is called below a node."""
        if isinstance(node, YMap):
            return replace(node, entries=tuple((key, self._calls(value)) for key, value in node.entries))
        if isinstance(node, YSeq):
            return replace(node, items=tuple(map(self._calls, node.items)))
        text = node.text
        for start, end in reversed(list(_called(text.value, self.change.name))):
            if self.change.now is None:
                self._refuse(text, start, end)
            else:
                text = _renamed(text, start, end, self.change.now)
        return replace(node, text=text)

    def _refuse(self, text: Text, start: int, end: int) -> None:
        change = self.change
        what = "function" if change.scope is Scope.FUNCTION else "key"
        self.findings.add(
            text.span(start, end),
            f"the {what} '{change.name}' of language {self.version} is gone since version {change.since}: {change.advice}; "
            f"then the file is of `language: {LANGUAGE}`",
        )


def _called(code: str, name: str) -> Iterator[tuple[int, int]]:
    return (match.span(1) for match in re.finditer(rf"(?<![\w.])({re.escape(name)})\s*\(", code))


def _renamed(text: Text, start: int, end: int, new: str) -> Text:
    """Replaces a name by another, whose characters have the places of the old one."""
    places = tuple(text.places[min(start + k, end - 1)] for k in range(len(new)))
    value = text.value[:start] + new + text.value[end:]
    return Text(value, text.file, (*text.places[:start], *places, *text.places[end:]))


def _each(node: YNode, update: Callable[[YMap], YMap]) -> YNode:
    """Updates the mappings that are values of a mapping."""
    if not isinstance(node, YMap):
        return node
    return replace(node, entries=tuple((k, update(v) if isinstance(v, YMap) else v) for k, v in node.entries))


def _at(node: YMap, keys: tuple[str, ...], update: Callable[[YNode], YNode]) -> YMap:
    """Updates the values of some keys."""
    return replace(node, entries=tuple((k, update(v) if k.text.value in keys else v) for k, v in node.entries))


def _calling(keys: tuple[Key, ...]) -> tuple[str, ...]:
    return tuple(key.name for key in keys if key.form in CALLING)
