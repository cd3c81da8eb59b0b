"""Parses YAML with the exact place of every character.

In: the text of a spec file. Out: a tree of `YMap`, `YSeq` and `YScalar`, whose scalars are `Text`: every character of a
block scalar, a quoted string or a plain one knows its line and column. Duplicate keys and YAML errors are findings.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from anyshape_gen.model.source import Findings, Span
from anyshape_gen.parse.text import Text

DEEPEST = 24
"""The greatest depth of maps and lists; specs have less than half of it"""


@dataclass(frozen=True)
class YScalar:
    """A scalar; `quoted` tells "1" from 1."""

    text: Text
    quoted: bool

    @property
    def span(self) -> Span:
        return self.text.span()

    def python(self) -> object:
        """Converts the scalar as YAML does: to None, bool, int, float or str."""
        if self.quoted:
            return self.text.value
        try:
            return yaml.load(self.text.value or "null", Loader=FAST)
        except (yaml.YAMLError, ValueError):  # 2001-99-99, or a number of thousands of digits
            return self.text.value


@dataclass(frozen=True)
class YSeq:
    """A sequence."""

    items: tuple[YNode, ...]
    span: Span


@dataclass(frozen=True)
class YMap:
    """A mapping in the order written; keys are scalars."""

    entries: tuple[tuple[YScalar, YNode], ...]
    span: Span

    def get(self, key: str) -> YNode | None:
        return next((value for name, value in self.entries if name.text.value == key), None)


YNode: TypeAlias = YScalar | YSeq | YMap
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, where PyYAML was built with it: the same tree in an eighth of the time"""


def read_yaml(path: str, content: str, findings: Findings) -> YNode | None:
    """Parses one file; None (with findings) where it is not YAML."""
    lines = content.split("\n")
    findings.sources[path] = lines
    try:
        root = _composed(content)
    except yaml.reader.ReaderError as error:
        before = content[: error.position] if isinstance(error.position, int) else ""
        line, col = before.count("\n") + 1, len(before) - before.rfind("\n")
        findings.add(Span(path, line, col, col + 1), f"not valid YAML: {error.reason}")
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, col = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        findings.add(Span(path, line, col, col + 1), f"not valid YAML: {error.problem or error.context}")
        return None
    return _Converter(path, lines, findings).node(root) if root is not None else None


def _composed(content: str) -> yaml.Node | None:
    """Parses a text; errors are raised by the parser in Python, whose messages do not depend on how PyYAML was built."""
    with suppress(yaml.YAMLError, UnicodeError):
        _check_events(content, FAST)
        return yaml.compose(content, Loader=FAST)
    _check_events(content, yaml.SafeLoader)
    return yaml.compose(content, Loader=yaml.SafeLoader)


def _check_events(content: str, loader: Any) -> None:
    """Checks that depth is limited and that there are no aliases, so that a hostile file takes no more time than its length does."""
    depth = 0
    events: Any = yaml.parse(content, Loader=loader)
    for event in events:
        wrong = "aliases are not allowed" if isinstance(event, yaml.AliasEvent) else ""
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if wrong or depth > DEEPEST:
            wrong = wrong or f"maps and lists are nested more than {DEEPEST} deep"
            raise yaml.composer.ComposerError(None, None, wrong, event.start_mark)


@dataclass
class _Converter:
    path: str
    lines: list[str]
    findings: Findings

    def node(self, node: yaml.Node) -> YNode:
        span = self._span(node)
        if isinstance(node, yaml.MappingNode):
            return YMap(tuple(self._entries(node)), span)
        if isinstance(node, yaml.SequenceNode):
            return YSeq(tuple(self.node(item) for item in node.value), span)
        assert isinstance(node, yaml.ScalarNode)
        return YScalar(self._text(node), bool(node.style))

    def _entries(self, node: yaml.MappingNode) -> list[tuple[YScalar, YNode]]:
        out: list[tuple[YScalar, YNode]] = []
        seen: dict[str, Span] = {}
        for key_node, value_node in node.value:
            key = self.node(key_node)
            if not isinstance(key, YScalar):
                self.findings.add(self._span(key_node), "a key must be a plain word")
                continue
            name = key.text.value
            if name in seen:
                self.findings.add(key.span, f"the key '{name}' is duplicate; the first is at {seen[name]}")
                continue
            seen[name] = key.span
            out.append((key, self.node(value_node)))
        return out

    def _span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        line = self.lines[start.line] if start.line < len(self.lines) else ""
        stop = end.column if end.line == start.line else len(line)
        return Span(self.path, start.line + 1, start.column + 1, max(stop, start.column + 1) + 1)

    def _text(self, node: yaml.ScalarNode) -> Text:
        value: str = node.value
        start = node.start_mark
        if node.style == "|":
            return Text(value.rstrip("\n"), self.path, tuple(self._block(value.rstrip("\n"), start.line + 1)))
        return Text(value, self.path, tuple(self._aligned(value, start.line, start.column, node.style)))

    def _block(self, value: str, line: int) -> list[tuple[int, int]]:
        """Returns the places of a literal block: the lines below the bar, without their indentation."""
        places: list[tuple[int, int]] = []
        for text in value.split("\n"):
            source = self.lines[line] if line < len(self.lines) else ""
            indent = len(source) - len(text) if source.endswith(text) else len(source) - len(source.lstrip())
            places += [(line + 1, indent + k + 1) for k in range(len(text) + 1)]
            line += 1
        return places

    def _aligned(self, value: str, line: int, col: int, style: str | None) -> list[tuple[int, int]]:
        """Returns the places of any other scalar: its characters occur in the source in order, with quotes and folds between."""
        if style in ("'", '"'):
            col += 1
        elif style == ">":
            line, col = line + 1, 0
        places: list[tuple[int, int]] = []
        for char in value:
            line, col = self._seek(char, line, col)
            places.append((line + 1, col + 1))
            if not char.isspace() or (line < len(self.lines) and col < len(self.lines[line])):
                col += 1
        return [*places, (line + 1, col + 1)]

    def _seek(self, char: str, line: int, col: int) -> tuple[int, int]:
        """Returns the next place of this character at or after (line, col); a blank may be a folded line break."""
        if char.isspace():
            return line, col
        at, where = line, col
        while at < len(self.lines):
            column = self.lines[at].find(char, where)
            if column >= 0:
                return at, column
            at, where = at + 1, 0
        return line, col
