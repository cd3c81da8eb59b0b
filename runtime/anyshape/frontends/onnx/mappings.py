"""Which mapping an ONNX operator has in an opset: those generated from the specs, and what is syntax of a graph.

A mapping holds from the opset that names it until the next one; None says that the operator was removed.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from functools import cache
from importlib import import_module
from typing import Any

from anyshape.errors import UnsupportedError
from anyshape.frontends.onnx.bookkeeping import BOOKKEEPING
from anyshape.frontends.onnx.control import CONTROL
from anyshape.frontends.onnx.node import Mapping
from anyshape.graph.registry import packages

Table = MappingType[str, MappingType[int, Mapping | None]]


@cache
def all_mappings() -> Table:
    """{operator: {since: mapping}}; an operator of another domain than ONNX's own is `domain:Operator`.

    Of all packages of ops. Raises UnsupportedError where two say what one operator means.
    """
    from anyshape.frontends.onnx.gradient import TRAINING

    found: dict[str, MappingType[int, Mapping | None]] = {**BOOKKEEPING, **CONTROL, **TRAINING}
    for package in packages():
        table: Table = import_module(f"{package.__name__}.onnx").ONNX
        for operator, versions in table.items():
            if operator in found and package.__name__ != "anyshape_ops":
                raise UnsupportedError(
                    f"{package.__name__} says what the ONNX operator {operator} means, which is known already; "
                    "give it a domain of its own in the spec, as in `com.example:Name`"
                )
            found[operator] = versions
    return found


def known_domains(table: Table) -> frozenset[str]:
    """Domains other than ONNX's own of which there are mappings, or operators that say why they have none."""
    return frozenset(name.rpartition(":")[0] for name in (*table, *all_refusals())) - {""}


def find_mapping(table: Table, domain: str, op: str, opset: int) -> Mapping | None:
    """The mapping with the greatest `since` that is not above the opset; None if there is none."""
    versions = table.get(op if domain == "" else f"{domain}:{op}", {})
    since = max((v for v in versions if v <= opset), default=None)
    return None if since is None else versions[since]


@cache
def all_refusals() -> MappingType[str, str]:
    """{operator: why it has no mapping}, of all packages of ops."""
    found: dict[str, str] = {}
    for package in packages():
        found.update(import_module(f"{package.__name__}.onnx").REFUSED)
    return found


def why_missing(table: Table, domain: str, op: str, opset: int) -> str:
    name = op if domain == "" else f"{domain}:{op}"
    versions = table.get(name, {})
    if not versions and name in all_refusals():
        return f"no mapping: {all_refusals()[name]}"
    if not versions:
        return (
            "no mapping"
            if _is_defined(domain, op)
            else "no mapping; ONNX does not define it, and the model has no such function"
        )
    first = min(versions)
    return f"supported from opset {first}" if opset < first else f"removed from ONNX before opset {opset}"


def _is_defined(domain: str, op: str) -> bool:
    import onnx

    return bool(onnx.defs.has(op, domain))


def normal_domain(domain: str) -> str:
    """ONNX's own domain has two spellings."""
    return "" if domain == "ai.onnx" else domain


def declaration(domain: str, op: str, opset: int) -> Any:
    """As `find_schema`; of what is syntax of a graph the newest, since how a value is spelled means the same in any opset."""
    import onnx

    return find_schema(domain, op, onnx.defs.onnx_opset_version() if not domain and op in BOOKKEEPING else opset)


def find_schema(domain: str, op: str, opset: int) -> Any:
    """ONNX's declaration of the operator in this opset; None if the installed onnx knows none."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
