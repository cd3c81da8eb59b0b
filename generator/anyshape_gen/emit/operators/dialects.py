"""What differs between mappings of ONNX and of ATen: tables, nodes, and the names that generated code may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape_gen.check.onnx import ATEN_FUNCTIONS
from anyshape_gen.model.functions import LIST_FUNCTIONS

KNOWN = {
    **dict.fromkeys(
        (
            *("OnnxNode", "accumulate", "aligned", "choice", "dtype_of", "each", "einsum", "fold", "groups"),
            *("length_of", "needed", "positions", "rank_of", "scalar", "strings", "interleaved", "vector"),
        ),
        "anyshape.frontends.onnx.node",
    ),
    **dict.fromkeys(LIST_FUNCTIONS, "anyshape.frontends.onnx.lists"),
    "Value": "anyshape.graph.value",
    "Mapping": "anyshape.frontends.onnx.node",
    "Sequence": "collections.abc",
    "Any": "typing",
    **dict.fromkeys(("inf", "pi"), "math"),
    "parse_dtype": "anyshape.dtypes",
}


@dataclass(frozen=True)
class Dialect:
    """What differs between mappings of ONNX and of ATen."""

    name: str
    """the name that readers know"""
    table: str
    """the name of the table of a module"""
    node: str
    """the class of a node"""
    known: Mapping[str, str]
    """names that generated code may use, with the modules that have them"""
    has_versions: bool


ONNX = Dialect("ONNX", "ONNX", "OnnxNode", KNOWN, True)

ATEN = Dialect(
    "ATen",
    "ATEN",
    "AtenNode",
    {
        **{
            name: KNOWN[name]
            for name in ("fold", "each", "needed", "rank_of", "dtype_of", "length_of", "choice", "einsum")
        },
        **{name: KNOWN[name] for name in ("Value", "Sequence", "Any", "inf", "pi", "parse_dtype")},
        **dict.fromkeys(("AtenNode", "Mapping", "scalar", "vector"), "anyshape.frontends.torch.node"),
        **dict.fromkeys(ATEN_FUNCTIONS, "anyshape.frontends.torch.terms"),
    },
    False,
)
