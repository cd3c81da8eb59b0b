"""Keeps the results of mutation testing: a JSON file, which says when an op has to be tried again, and a page.

In: `OpResult`s, and the mutants that are declared equivalent. Out: the texts of both.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from anyshape_gen.model.spec import OpSpec
from anyshape_gen.mutants import mutants
from anyshape_testing.mutation.library import PREFIX
from anyshape_testing.mutation.running import OpResult

LEAST, MOST_DECLARED = 0.95, 0.03


@dataclass(frozen=True)
class Kept:
    """Results of one op, or of one function of the library. `rule` is a hash of all in its spec that can be mutated, `examples` are hashes
    of its examples when it was tried last; `survivors` are labels."""

    rule: str
    examples: tuple[str, ...]
    mutants: int = 0
    killed: int = 0
    refused: int = 0
    laws: int = 0
    """Mutants that laws kill without the examples, on random calls"""
    kinds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Numbers of killed and of all mutants by kind"""
    survivors: tuple[str, ...] = ()
    """Mutants that nothing killed, declared equivalent or not"""

    def covers(self, other: Kept) -> bool:
        """Whether the other's tests kill all that these kill: the rule is the same, and the examples are a superset."""
        return self.rule == other.rule and set(self.examples) <= set(other.examples)


def kept(r: OpResult, spec: OpSpec, before: Kept | None = None) -> Kept:
    """Converts results to what is kept. `before`: earlier results, of which only the survivors were tried again."""
    if before is not None:
        return _more_killed(before, r, spec)
    kinds: dict[str, tuple[int, int]] = {}
    for t in r.tried:
        killed, of = kinds.get(t.kind, (0, 0))
        kinds[t.kind] = (killed + (not t.survives), of + 1)
    survivors = tuple(t.label for t in r.tried if t.survives)
    return replace(
        untried(spec),
        mutants=len(r.tried),
        killed=len(r.tried) - len(survivors),
        refused=r.refused,
        laws=sum(t.killers.law is not None for t in r.tried),
        kinds=dict(sorted(kinds.items())),
        survivors=survivors,
    )


def _more_killed(before: Kept, r: OpResult, spec: OpSpec) -> Kept:
    killed = Counter(t.kind for t in r.tried if not t.survives)
    kinds = {kind: (n + killed[kind], of) for kind, (n, of) in before.kinds.items()}
    survivors = tuple(t.label for t in r.tried if t.survives)
    return replace(
        before,
        examples=untried(spec).examples,
        killed=before.mutants - len(survivors),
        laws=before.laws + sum(t.killers.law is not None for t in r.tried),
        kinds=kinds,
        survivors=survivors,
    )


def untried(spec: OpSpec) -> Kept:
    """Hashes a spec, without results. The code of tests is not hashed: after a change to it that may kill less, use `--again`."""
    rule = spell(replace(spec, examples=(), summary="", onnx=(), reference=None, functions=())).encode()
    labels = "\n".join(m.label for m in mutants(spec)).encode()
    return Kept(_mark(rule + labels, 16), tuple(_mark(repr(e).encode(), 8) for e in spec.examples))


def spell(v: Any) -> str:
    """Spells a value like `repr`, without fields that have their default, so that a new field of a class changes no hash."""
    if isinstance(v, (tuple, list)):
        return f"[{', '.join(map(spell, v))}]"
    if not is_dataclass(v):
        return repr(v)
    shown = [(f.name, getattr(v, f.name)) for f in fields(v) if f.repr and getattr(v, f.name) != f.default]
    return f"{type(v).__name__}({', '.join(f'{name}={spell(x)}' for name, x in shown)})"


def _mark(data: bytes, digits: int) -> str:
    return hashlib.sha256(data).hexdigest()[:digits]


def read(path: Path) -> dict[str, Kept]:
    """Reads the kept results; none where there is no file."""
    if not path.exists():
        return {}
    parsed: dict[str, Any] = json.loads(path.read_text())
    return {
        op: Kept(**{**k, "survivors": tuple(k["survivors"]), "examples": tuple(k["examples"])})
        for op, k in parsed["ops"].items()
    }


def day_of(path: Path) -> str:
    """Reads the day of the last trial."""
    return str(json.loads(path.read_text())["all"]["date"])


@dataclass(frozen=True)
class Score:
    """Numbers of mutants of one op or of all."""

    mutants: int
    killed: int
    declared: int

    @property
    def share(self) -> float:
        """The share of killed mutants among those that are not declared equivalent."""
        return self.killed / of if (of := self.mutants - self.declared) else 1.0

    @property
    def enough(self) -> bool:
        return self.share >= LEAST and self.declared <= MOST_DECLARED * self.mutants

    def __str__(self) -> str:
        return f"{self.killed} of {self.mutants} mutants killed, {self.declared} declared equivalent: {100 * self.share:.1f} %"


Declared = Mapping[str, Mapping[str, str]]


def score(ops: Mapping[str, Kept], declared: Declared) -> Score:
    named = sum(label in declared.get(op, {}) for op, k in ops.items() for label in k.survivors)
    return Score(sum(k.mutants for k in ops.values()), sum(k.killed for k in ops.values()), named)


def left(op: str, k: Kept, declared: Declared) -> list[str]:
    """Lists survivors that are not declared equivalent."""
    return [label for label in k.survivors if label not in declared.get(op, {})]


def json_text(ops: Mapping[str, Kept], declared: Declared, when: str) -> str:
    total = score(ops, declared)
    summary = {
        "date": when,
        "mutants": total.mutants,
        "killed": total.killed,
        "equivalent": total.declared,
        "score": round(total.share, 4),
    }
    return json.dumps({"all": summary, "ops": {op: asdict(ops[op]) for op in sorted(ops)}}, indent=1) + "\n"


def page(ops: Mapping[str, Kept], declared: Declared, when: str) -> str:
    """Writes `docs/mutation.md`; `when`: the day of the last trial."""
    kinds: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for k in ops.values():
        for kind, (here, of) in k.kinds.items():
            kinds[kind] += of
            killed[kind] += here
    rows = [f"| {kind} | {n} | {killed[kind]} | {100 * killed[kind] / n:.0f} % |" for kind, n in sorted(kinds.items())]
    open_ = [(op, label) for op in sorted(ops) for label in left(op, ops[op], declared)]
    worst = sorted((score({op: k}, declared).share, op) for op, k in ops.items())
    named = [(op, label, why) for op in sorted(declared) for label, why in declared[op].items()]
    return "\n".join(
        [
            *_HEAD,
            f"**{score(ops, declared)}** ({_tried(ops)} tried so far, {when}).",
            "",
            f"Laws alone, without the examples, kill {_share(ops)}. What only examples kill depends on somebody having thought of it:",
            "",
            "| op | mutants | killed by examples alone |",
            "|---|---:|---:|",
            *_by_examples(ops),
            "",
            "| what is changed | mutants | killed | |",
            "|---|---:|---:|---:|",
            *rows,
            "",
            "## Not killed",
            "",
            *([f"- `{op}`, {_code_text(label)}" for op, label in open_] or ["None."]),
            "",
            "## Declared equivalent",
            "",
            *([f"- `{op}`, {_code_text(label)}: {why}" for op, label, why in named] or ["None."]),
            "",
            "## Below 95 %",
            "",
            *([f"- `{op}`: {score({op: ops[op]}, declared)}" for share, op in worst if share < LEAST] or ["None."]),
            "",
        ]
    )


MOST_LISTED = 25


def _tried(names: Collection[str]) -> str:
    functions = sum(name.startswith(PREFIX) for name in names)
    return f"{len(names) - functions} ops and {functions} functions of the library"


def _share(ops: Mapping[str, Kept]) -> str:
    mutants, laws = sum(k.mutants for k in ops.values()), sum(k.laws for k in ops.values())
    return f"{laws} of {mutants} ({100 * laws / max(mutants, 1):.1f} %)"


def _by_examples(ops: Mapping[str, Kept]) -> list[str]:
    """Lists the ops of which most mutants are killed by examples and by no law."""
    most = sorted(ops, key=lambda op: (ops[op].laws - ops[op].killed, op))[:MOST_LISTED]
    return [f"| `{op}` | {k.mutants} | {k.killed - k.laws} |" for op in most if (k := ops[op]).killed > k.laws]


def _code_text(label: str) -> str:
    room, _, words = label.partition(": ")
    before, _, after = words.partition(" >> ")
    return f"{room}: `{before}` becomes `{after}`"


_HEAD = (
    "# Mutation: tests of the tests",
    "",
    "Written by `make mutate`; do not edit. A spec is changed in one place at a time: an operator, a comparison, a constant by one, a",
    "default, a condition or an assert left out, a filter dropped, a reduction, dims, indices or operands swapped. Each such mutant is",
    "generated in memory and tried against the spec's own tests: its examples, then laws 1 and 2 (law 5 for rewrites) on calls drawn from",
    "it, each by itself. A mutant that no test notices is something the spec says and nothing checks. Mutants that the generator refuses",
    "do not count, nor those whose code is that of the op or of another mutant; a function of `define:` that several ops use is changed",
    "for the first of them. A function of the library is changed by itself, as `library.NAME`, and tried against the tests of the ops that",
    "call it, one after the other. ONNX mappings are not changed: ONNX's own node tests check them. Where only examples were added since,",
    "what was killed is not tried again; `python -m anyshape_testing.mutation --again` tries everything.",
    "",
)
