"""Reads the small ops of `forms.yaml`: for each kind of op and class of dtypes the text of a correct spec, and of wrong ones.

In: the YAML file. Out: `Form`s, which write specs, and `Edit`s of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

import yaml

PATH = Path(__file__).with_name("forms.yaml")
ANY = "any"
"""The class of ops on any dtype, the only ones that are known to move strings as they move numbers"""


@dataclass(frozen=True)
class Edit:
    """A change that makes a spec wrong: `was` in its text becomes `becomes`. `group`: the part of the spec that is wrong (values, sizes, an
    assert …). `left_out`: laws that cannot notice it, and why."""

    group: str
    name: str
    was: str
    becomes: str
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_of: Mapping[str, str] = field(default_factory=dict)
    """Classes of dtypes in which the edit is no mistake, and why"""

    def of(self, text: str) -> str:
        assert text.count(self.was) >= 1, f"{self.group}, {self.name}: {self.was!r} is not in\n{text}"
        return text.replace(self.was, self.becomes, 1)


SPOILED = Edit("reference", "last element of the last output", "reference: ", "reference: ")


@dataclass(frozen=True, eq=False)
class Form:
    """A small op, in several classes of dtypes."""

    name: str
    kind: str
    text: str
    classes: tuple[str, ...]
    edits: tuple[Edit, ...]
    oracles: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Laws that have nothing to compare for any call, and why"""

    without: Mapping[str, str] = field(default_factory=dict)
    """Classes of dtypes without an op of this form, and why"""
    takes_any: bool = True
    """Whether the op may be one of any dtype: the form is not limited to some classes"""

    @property
    def composes(self) -> bool:
        """Whether the op calls ops of the package."""
        return "compose:" in self.text

    def op(self, dtypes: str) -> str:
        """Returns the op's name in a class of dtypes."""
        return re.sub(r"\W+", "_", f"tried {self.name} {dtypes}")

    def spec(self, dtypes: str, edit: Edit | None = None) -> str:
        """Writes the YAML text of a file with this op."""
        words = classes()[dtypes]
        text = self.text if edit is None else edit.of(self.text)
        if edit is SPOILED:
            text = re.sub(r"^reference: (.*)$", lambda m: f"reference: {_spoiled(m[1])}", text, flags=re.MULTILINE)
        body = Template(Template(text).substitute(words, op=self.op(dtypes))).substitute(op=self.op(dtypes))
        defined = [line for line in words["define"].splitlines() if re.search(rf"\b{_name(line)}\(", body)]
        define = "define: |\n" + indent("\n".join(defined), "  ") + "\n" if defined else ""
        head = f"summary: {self.name}.\ndtypes: {{T: [{words['dtypes']}]}}\n{define}"
        oracles = _used(_functions(words["oracles"] + self.oracles + everywhere()), body)
        said = f"oracles: |\n{indent(oracles, '  ')}\n" if oracles else ""
        return f"{said}ops:\n  {self.op(dtypes)}:\n{indent(head + body, '    ')}"


def _spoiled(reference: str) -> str:
    """Makes the last element of a reference wrong; keeps quotes around it."""
    inner = reference[1:-1] if reference[:1] == '"' else reference
    return f'"spoiled({inner})"' if reference[:1] == '"' else f"spoiled({inner})"


def _name(definition: str) -> str:
    match = re.match(r"def (\w+)", definition)
    assert match is not None, definition
    return match[1]


def _functions(text: str) -> dict[str, str]:
    return {_name(part): part for part in re.split(r"^(?=def )", text, flags=re.MULTILINE) if part.strip()}


def _used(functions: Mapping[str, str], text: str) -> str:
    """Selects the functions that a text calls, directly or by one another."""
    used: dict[str, str] = {}
    waiting = [text]
    while waiting:
        here = waiting.pop()
        for name, code in functions.items():
            if name not in used and re.search(rf"\b{name}\(", here):
                used[name] = code
                waiting.append(code)
    return "".join(code for name, code in functions.items() if name in used)


@cache
def _file() -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = yaml.safe_load(PATH.read_text())
    return parsed


@cache
def classes() -> Mapping[str, Mapping[str, str]]:
    """Maps classes of dtypes to the texts that replace the variables of forms."""
    merged: dict[str, Mapping[str, str]] = {}
    for name, words in _file()["classes"].items():
        merged[name] = {**merged.get(words.get("like", ""), {}), **words}
    return merged


def everywhere() -> str:
    """Returns the oracles of all classes of dtypes."""
    return str(_file()["oracles"])


def known_open() -> Mapping[str, str]:
    """Maps cells with known findings to the reasons."""
    known: Mapping[str, str] = _file().get("open") or {}
    return known


@cache
def forms() -> Mapping[str, Form]:
    """Maps names to forms."""
    named = [c for c in classes() if c != ANY]
    return {name: _form(name, entry, named) for name, entry in _file()["forms"].items()}


def _form(name: str, entry: Mapping[str, Any], all_classes: list[str]) -> Form:
    edits = [_edit(group, said, edit) for group, edits in entry["wrong"].items() for said, edit in edits.items()]
    without = _reasons(entry, "without")
    chosen = tuple(c for c in entry.get("classes", all_classes) if c not in without)
    return Form(
        name, entry.get("kind", name), entry["spec"], chosen, (*edits, SPOILED), entry.get("oracles", ""),
        _reasons(entry, "silent"), without, "classes" not in entry,
    )  # fmt: skip


def _edit(group: str, name: str, entry: Any) -> Edit:
    said = entry if isinstance(entry, dict) else {"edit": entry}
    was, becomes = said["edit"]
    return Edit(group, name, was, becomes, _reasons(said, "left_out"), _reasons(said, "not_of"))


def _reasons(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    return {str(name): why for name, why in entry.get(key, {}).items()}


__all__ = ["ANY", "Edit", "Form", "classes", "forms", "known_open"]
