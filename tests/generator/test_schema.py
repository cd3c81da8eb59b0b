"""The schema for editors accepts every spec, refuses slips, and the committed file is current."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from anyshape_gen.parse.keys import OP_KEYS, PARAM_KEYS
from anyshape_gen.parse.versions import LANGUAGE
from anyshape_gen.schema import SCHEMA_NAME, schema, schema_text

ROOT = Path(__file__).parents[2]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def accepts(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> bool:
    """The part of JSON Schema that our schema uses."""
    if "$ref" in rule and not accepts(value, root["$defs"][rule["$ref"].rsplit("/", 1)[1]], root):
        return False
    if "anyOf" in rule and not any(accepts(value, option, root) for option in rule["anyOf"]):
        return False
    kinds = rule.get("type", [])
    if kinds and not isinstance(
        value, tuple(t for k in ([kinds] if isinstance(kinds, str) else kinds) for t in TYPES[k])
    ):
        return False
    if "enum" in rule and value not in rule["enum"]:
        return False
    if "const" in rule and value != rule["const"]:
        return False
    if isinstance(value, int) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        return False
    if "pattern" in rule and isinstance(value, str) and not re.search(rule["pattern"], value):
        return False
    if isinstance(value, list) and not all(accepts(item, rule.get("items", {}), root) for item in value):
        return False
    return not isinstance(value, dict) or _accepts_entries(value, rule, root)


def _accepts_entries(value: dict[Any, Any], rule: dict[str, Any], root: dict[str, Any]) -> bool:
    for key, entry in value.items():
        if key in rule.get("properties", {}):
            inner = rule["properties"][key]
        else:
            patterns = rule.get("patternProperties", {})
            matching = [s for p, s in patterns.items() if re.search(p, str(key))]
            inner = matching[0] if matching else rule.get("additionalProperties", True)
        if inner is False or (isinstance(inner, dict) and not accepts(entry, inner, root)):
            return False
    return all(name in value for name in rule.get("required", ()))


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda path: path.stem)
def test_specs_are_accepted(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=spec.schema.json\n")
    assert accepts(yaml.safe_load(path.read_text()), schema(), schema())


@pytest.mark.parametrize(
    "text",
    [
        "op: {}",
        "language: two",
        "language: 99",
        "ops: {a: {kernal: x}}",
        'ops: {a: {inputs: {x: "*d"}}}',
        "ops: {a: {params: {k: {kind: integer}}}}",
        "ops: {a: {params: {k: {default: 1}}}}",
        "ops: {a: {params: {k: {kind: int, dyn: attribute}}}}",
        "ops: {a: {traits: [comutative]}}",
        "ops: {a: {dtypes: {T: nummber}}}",
        "ops: {a: {examples: {}}}",
    ],
)
def test_slips_are_refused(text: str) -> None:
    assert not accepts(yaml.safe_load(text), schema(), schema())


def test_the_present_version_is_accepted() -> None:
    assert (
        accepts({"language": LANGUAGE}, schema(), schema())
        and f"version {LANGUAGE} of the language" in schema()["title"]
    )


def test_every_key_is_described() -> None:
    op = schema()["$defs"]["op"]["properties"]
    assert list(op) == [key.name for key in OP_KEYS]
    assert all(key.doc.endswith((".", "`.")) for key in (*OP_KEYS, *PARAM_KEYS))


def test_committed_schema_is_current() -> None:
    assert (ROOT / "specs" / SCHEMA_NAME).read_text() == schema_text(), "run `make gen`"
