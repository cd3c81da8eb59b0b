"""Writes the section of docs/testing.md that says which law notices what, of which kind of op, in which dtypes.

In: the cells, and the known findings. Out: text, which a run of all cells confirms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from anyshape_testing.matrix.cells import DOUBLE, GRADIENTS, MOVING, Cell, edits, silence, tries
from anyshape_testing.matrix.forms import ANY, classes, forms
from anyshape_testing.matrix.table import LAWS

BEGIN, END = "<!-- matrix: `python -m anyshape_testing.matrix --write` -->", "<!-- end of the matrix -->"
WRONG = {
    "values": "what is computed: off by one, the last element only, operands or inputs swapped, another reduction",
    "reference": "the last element of the reference",
    "sizes": "a shape of the signature or the rule",
    "bounds": "a bound of a data-dependent size",
    "body": "shape or dtype of what a body makes",
    "rewrites": "a rewrite, or its condition",
    "defaults": "a default of a parameter or an input",
    "left out": "an assert that is not there",
    "boundary": "an assert that lets one more pass",
    "stronger": "an assert that refuses one more",
    "message": "the words of an assert",
    "told": "a value in the words of an assert",
    "unmet": "an assert that nothing can break",
    "equality": "an equality of two dims that is not there",
    "examples": "an example",
}
"""Descriptions of the groups of edits"""


def written(page: str, cells: Sequence[Cell], open_: Mapping[str, str]) -> str:
    """Returns the page with a new section."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{section(cells, open_)}{END}{rest.split(END)[1]}"


def section(cells: Sequence[Cell], open_: Mapping[str, str]) -> str:
    notes: dict[str, int] = {}
    by_place: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_place[cell.kind, cell.law].append(cell)
    kinds = list(dict.fromkeys(form.kind for form in forms().values()))
    rows = [[kind, *(_place(kind, law, by_place[kind, law], open_, notes) for law in LAWS)] for kind in kinds]
    trials = sum(tries(c) for c in cells)
    return "\n".join(
        [
            f"{len(cells)} cells, {len(kinds)} kinds of op, {len(named())} classes of dtypes, {trials} trials of wrong ops.",
            "",
            *(f"- law {law.name}: {law.about}" for law in LAWS.values()),
            "",
            "| kind of op | " + " | ".join(LAWS) + " |",
            "|---|" + "---|" * len(LAWS),
            *("| " + " | ".join(row) + " |" for row in rows),
            "",
            *(f"{number}. {why}" for why, number in notes.items()),
            "",
            "| wrong | laws that must notice | wrong ops |",
            "|---|---|---:|",
            *_groups(cells),
            "",
            "What is wrong, and no mistake that a law could see:",
            "",
            *_not_seen(),
            "",
            *(
                ["Open, with the reason:", "", *(f"- {cell}: {why}" for cell, why in open_.items()), ""]
                if open_
                else []
            ),
        ]
    )


def named() -> list[str]:
    """The classes of dtypes that laws have calls in."""
    return [c for c in classes() if c != ANY]


def _place(kind: str, law: str, cells: Sequence[Cell], open_: Mapping[str, str], notes: dict[str, int]) -> str:
    def note(why: str) -> str:
        return f"[{notes.setdefault(why, len(notes) + 1)}]"

    of_kind = [f for f in forms().values() if f.kind == kind]
    if not cells:
        return note(next((f.silent[law] for f in of_kind if law in f.silent), silence(of_kind[0], LAWS[law])))
    missed = {c.dtypes for c in cells if str(c) in open_}
    known = list(dict.fromkeys(c.dtypes for c in cells))
    absent = [
        note(why)
        for f in of_kind
        for dtypes, why in f.without.items()
        if dtypes not in known and law not in (MOVING, GRADIENTS)
    ]
    return " ".join([_listed([d for d in known if d not in missed]), *dict.fromkeys(absent)])


def _listed(dtypes: Sequence[str]) -> str:
    left = [d for d in named() if d not in dtypes]
    if not left:
        return "all"
    if list(dtypes) in ([ANY], [DOUBLE]):
        return "strings" if dtypes[0] == ANY else DOUBLE
    return ", ".join(dtypes) if len(left) > len(dtypes) else f"all but {', '.join(left)}"


def _groups(cells: Sequence[Cell]) -> list[str]:
    laws: dict[str, dict[str, None]] = defaultdict(dict)
    ops: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for cell in cells:
        for edit in edits(forms()[cell.form], cell.dtypes, LAWS[cell.law]):
            laws[edit.group][cell.law] = None
            ops[edit.group].add((cell.form, cell.dtypes, edit.name))
    return [
        f"| {what} | {', '.join(law for law in LAWS if law in laws[g])} | {len(ops[g])} |" for g, what in WRONG.items()
    ]


def _not_seen() -> list[str]:
    """Lists the edits that a law cannot notice, or that are no mistake in some dtypes."""
    unseen: dict[str, dict[str, None]] = defaultdict(dict)
    for form in forms().values():
        for e in form.edits:
            for law, why in e.left_out.items():
                unseen[f"law {law}: {why}"][f"{form.name} ({e.name})"] = None
            for dtypes, why in e.not_of.items():
                unseen[f"{dtypes}: {why}"][f"{form.name} ({e.name})"] = None
    return [f"- {why}: {', '.join(edited)}" for why, edited in unseen.items()]
