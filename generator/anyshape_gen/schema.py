"""Generates the JSON Schema of spec files, by which editors complete and check.

In: the loader's own tables of keys, kinds, traits and dtypes. Out: the text of `spec.schema.json`, written by `make gen`.
Names, scopes and shapes are checked by the generator alone.
"""

from __future__ import annotations

import json
from typing import Any

from anyshape_gen.parse.keys import (
    ALGORITHM_KEYS,
    FAMILY_KEYS,
    FILE_KEYS,
    LAWS,
    MATRICES,
    OP_KEYS,
    PARAM_KEYS,
    TRAITS,
    Key,
)
from anyshape_gen.parse.signature import KINDS, VECTOR_KINDS
from anyshape_gen.parse.values import CLASSES, DTYPES, OTHER_DTYPES
from anyshape_gen.parse.versions import FIRST, LANGUAGE

Schema = dict[str, Any]
SCHEMA_NAME = "spec.schema.json"
"""The schema's file, beside the specs, whose first line names it"""

_TEXT: Schema = {"type": "string"}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_VECTORS = "|".join(VECTOR_KINDS)


def _map_of(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def forms() -> dict[str, Schema]:
    """Builds the schema of every form of a key's value."""
    dtype = {"enum": [*CLASSES, *DTYPES, *OTHER_DTYPES]}
    computed = {"type": "string", "pattern": r"^(param [A-Za-z_]\w*|(accum|promote|bitcast)\(.*\))$"}
    signature = {"type": "string", "pattern": r"^(seq\s+)?[A-Za-z]\w*\s*\[.*\]"}
    kind: Schema = {
        "anyOf": [
            {"enum": list(KINDS)},
            {"type": "string", "pattern": rf"^({_VECTORS})\[.+\]$"},
            {"type": "array", "items": _SCALAR, "minItems": 1},
        ]
    }
    param = {"anyOf": [{"$ref": "#/$defs/kind"}, _object(PARAM_KEYS, required=("kind",))]}
    return {
        "language": {"type": "integer", "minimum": FIRST, "maximum": LANGUAGE},
        "code": _TEXT,
        "python": _TEXT,
        "terms": _TEXT,
        "prose": _TEXT,
        "word": _TEXT,
        "scalar": _SCALAR,
        "operand": {"const": "operand"},
        "texts": _list_of(_TEXT),
        "names": _map_of(_TEXT),
        "signatures": _map_of(signature),
        "kind": kind,
        "params": _map_of(param),
        "dtypes": _map_of({"anyOf": [dtype, computed, _list_of(dtype)]}),
        "traits": _list_of({"enum": list(TRAITS)}),
        "onnx": _map_of({"type": "object", "patternProperties": {"^[0-9]+$": {"type": ["string", "null"]}}}),
        "aten": _map_of(_TEXT),
        "examples": _list_of({"anyOf": [{"type": "object"}, {"const": "family"}]}),
        "spellings": _map_of({"type": ["object", "null"]}),
        "weak": _map_of(_TEXT) | {"propertyNames": {"enum": list(LAWS)}},
        "matrices": _object_of(MATRICES, _list_of(_list_of({"type": ["number", "string"]}))),
        "rotations": _map_of(_list_of({"type": ["number", "string"]})),
        "algorithms": _map_of(_object(ALGORITHM_KEYS, required=("if", "constant"))),
        "op": _object(OP_KEYS),
        "ops": _map_of({"$ref": "#/$defs/op"}),
        "family": _object(FAMILY_KEYS),
        "families": _map_of({"$ref": "#/$defs/family"}),
    }


def _object(keys: tuple[Key, ...], required: tuple[str, ...] = ()) -> Schema:
    properties = {key.name: {"description": key.doc, "$ref": f"#/$defs/{key.form}"} for key in keys}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def _object_of(names: tuple[str, ...], values: Schema) -> Schema:
    return {
        "type": "object",
        "properties": dict.fromkeys(names, values),
        "additionalProperties": False,
        "required": [*names],
    }


def schema() -> Schema:
    """Builds the whole schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"anyshape operator specs, version {LANGUAGE} of the language",
        **_object(FILE_KEYS),
        "$defs": forms(),
    }


def schema_text() -> str:
    """Prints the schema as the text of its file."""
    return json.dumps(schema(), indent=2) + "\n"
