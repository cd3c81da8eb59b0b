"""Finds the mapping of an ONNX operator in an opset: mappings are generated from the specs; those of constants, control flow
and gradients are written by hand.

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

UPDATE = "a newer onnx and anyshape may know it"
Table = MappingType[str, MappingType[int, Mapping | None]]


@cache
def all_mappings() -> Table:
    """Collects {operator: {since: mapping}} of all packages of ops; an operator of another domain than ONNX's own is `domain:Operator`.

    Raises UnsupportedError where two packages map one operator.
    """
    from anyshape.frontends.onnx.gradient import TRAINING

    mappings: dict[str, MappingType[int, Mapping | None]] = {**BOOKKEEPING, **CONTROL, **TRAINING}
    for package in packages():
        table: Table = import_module(f"{package.__name__}.onnx").ONNX
        for operator, versions in table.items():
            if operator in mappings and package.__name__ != "anyshape_ops":
                raise UnsupportedError(
                    f"{package.__name__} maps the ONNX operator {operator}, which has a mapping already; "
                    "use a domain of your own in the spec, as in `com.example:Name`"
                )
            mappings[operator] = versions
    return mappings


def known_domains(table: Table) -> frozenset[str]:
    """Collects the domains, other than ONNX's own, of operators with a mapping or with a reason why they have none."""
    return frozenset(name.rpartition(":")[0] for name in (*table, *all_refusals())) - {""}


NEWEST_OF_ONNXRUNTIME = {"com.microsoft": 1, "com.microsoft.nchwc": 1}
"""The newest opset of each domain that onnxruntime declares and onnx does not: it has had one since these domains exist."""


@cache
def _newest() -> MappingType[str, int]:
    """Collects {domain: its newest opset} of the domains that the installed onnx, or onnxruntime, declares."""
    import onnx

    newest = dict(NEWEST_OF_ONNXRUNTIME)
    for domain, version in onnx.helper.OP_SET_ID_VERSION_MAP:
        newest[normal_domain(domain)] = max(version, newest.get(normal_domain(domain), 0))
    return newest


def is_from_the_future(table: Table, domain: str, opset: int) -> bool:
    """Whether an opset of a domain of ONNX or onnxruntime is newer than what is declared, and all mappings: what its operators mean is not
    known. Of other domains nobody says what is the newest."""
    if opset <= _newest().get(domain, opset):
        return False
    names = (name for name in table if name.rpartition(":")[0] == domain)
    return opset > max((since for name in names for since in table[name]), default=0)


def find_mapping(table: Table, domain: str, op: str, opset: int) -> Mapping | None:
    """Returns the mapping with the greatest `since` that is not above the opset; None if there is none."""
    versions = table.get(op if domain == "" else f"{domain}:{op}", {})
    since = max((v for v in versions if v <= opset), default=None)
    return None if since is None else versions[since]


@cache
def all_refusals() -> MappingType[str, str]:
    """Collects {operator: why it has no mapping} of all packages of ops."""
    reasons: dict[str, str] = {}
    for package in packages():
        reasons.update(import_module(f"{package.__name__}.onnx").REFUSED)
    return reasons


def why_missing(table: Table, domain: str, op: str, opset: int) -> str:
    """Says why an operator has no mapping in an opset."""
    name = op if domain == "" else f"{domain}:{op}"
    versions = table.get(name, {})
    if is_from_the_future(table, domain, opset):
        declares = "onnxruntime" if domain in NEWEST_OF_ONNXRUNTIME else "the installed onnx"
        return f"opset {opset} is newer than {_newest()[domain]}, the newest that {declares} declares; {UPDATE}"
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
    """Returns the empty text for both spellings of ONNX's own domain, and other domains unchanged."""
    return "" if domain == "ai.onnx" else domain


def declaration(domain: str, op: str, opset: int) -> Any:
    """Finds ONNX's declaration of an operator in an opset; of Constant the newest, since its attributes mean the same in any opset."""
    import onnx

    return find_schema(domain, op, onnx.defs.onnx_opset_version() if not domain and op in BOOKKEEPING else opset)


def find_schema(domain: str, op: str, opset: int) -> Any:
    """Finds ONNX's declaration of an operator in an opset; None if the installed onnx has none."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
