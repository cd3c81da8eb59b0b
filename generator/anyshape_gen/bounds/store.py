"""Stores verdicts by op, so that only ops that changed are proved again.

In: an analysed op, or the file of verdicts. Out: a `Safety`, or the text of that file. A stored one is valid as long as
the prover and what it reads of the op are the same; `at`, the place of an index, is written anew each time, so that a spec may move in
its file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyshape_gen.bounds.check_op import How, Verdict, verdicts
from anyshape_gen.bounds.version import prover_version
from anyshape_gen.model.accesses import accesses
from anyshape_gen.model.analysis import Analysis, OpAnalysis
from anyshape_gen.model.nodes import Node

FILE = "index_safety.json"


@dataclass(frozen=True, kw_only=True)
class Rest:
    """An index that is not proved."""

    access: int
    """the number of the read or store in the kernel"""
    tensor: str
    store: bool
    index: str
    how: str
    """`checked` (data) or `unknown`"""
    why: str = ""
    """the goal that is not proved, and what stopped its proof"""


@dataclass(frozen=True)
class Safety:
    """The verdicts on the indices of one op."""

    key: str
    counts: dict[str, int]
    """numbers of indices by verdict: structural, linear, cases, checked, unknown"""
    data: int
    """the number of indices that depend on elements that are read"""
    rest: tuple[Rest, ...]
    lazy: frozenset[int] = frozenset()
    """the numbers of reads that are in bounds only where the operands left of them in an `and` or `or` leave the result open"""

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def proved(self) -> int:
        return sum(self.counts.get(how, 0) for how in (How.STRUCTURAL, How.LINEAR, How.CASES))

    @property
    def affine(self) -> int:
        """The number of indices that shapes and parameters decide."""
        return self.total - self.counts.get(How.CHECKED, 0)

    @property
    def unproved(self) -> frozenset[int]:
        """The numbers of reads that are checked at run time although no data decides them."""
        return frozenset(r.access for r in self.rest if r.how == How.UNKNOWN)


def key_of(a: OpAnalysis) -> str:
    spec = a.spec
    read = (spec.inputs, spec.params, spec.outputs, spec.dtypes, spec.shape, spec.defines, a.steps, a.kernel)
    return hashlib.sha256(repr(read).encode()).hexdigest()[:16]


def read_record(path: Path) -> dict[str, Safety]:
    """Reads the verdicts of a file; none from one that is missing, malformed or by another version of the prover."""
    try:
        record = json.loads(path.read_text())
        if record["prover"] != prover_version():
            return {}
        return {op: _from_json(entry) for op, entry in record["ops"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _from_json(entry: Mapping[str, Any]) -> Safety:
    rest = tuple(Rest(**{k: v for k, v in r.items() if k != "at"}) for r in entry["rest"])
    return Safety(entry["key"], dict(entry["counts"]), entry["data"], rest, frozenset(entry.get("lazy", ())))


def safety(a: OpAnalysis, key: str = "") -> Safety:
    """Proves one op."""
    counts: dict[str, int] = {}
    rest: list[Rest] = []
    of_op = verdicts(a)
    for v in of_op:
        counts[v.how.value] = counts.get(v.how.value, 0) + 1
        if v.how in (How.CHECKED, How.UNKNOWN):
            rest.append(_rest(v))
    data = sum(v.data for v in of_op)
    lazy = frozenset(v.obligation.access for v in of_op if v.lazy)
    return Safety(key, {how.value: counts[how.value] for how in How if how.value in counts}, data, tuple(rest), lazy)


def _rest(v: Verdict) -> Rest:
    o = v.obligation
    return Rest(access=o.access, tensor=o.tensor, store=o.store, index=o.index, how=v.how.value, why=v.why)


def record_text(analysis: Analysis, verdicts: Mapping[str, Safety]) -> str:
    """Prints the file of verdicts, with the present places of indices."""
    ops = {}
    for a in sorted(analysis.ops, key=lambda a: a.spec.name):
        safe = verdicts.get(a.spec.name)
        if safe is not None and a.kernel is not None:
            places = accesses(a.kernel) if safe.rest else []
            rest = [{**asdict(r), "at": place(places, r)} for r in safe.rest]
            ops[a.spec.name] = {
                "key": safe.key,
                "total": safe.total,
                "proved": safe.proved,
                "counts": safe.counts,
                "data": safe.data,
                "rest": rest,
            } | ({"lazy": sorted(safe.lazy)} if safe.lazy else {})
    return json.dumps({"prover": prover_version(), "ops": ops}, indent=1) + "\n"


def place(places: Iterable[Node], r: Rest) -> str:
    """Returns file:line:col of an access."""
    return str(next((n.span for k, n in enumerate(places) if k == r.access), ""))
