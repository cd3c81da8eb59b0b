"""Writes the lists of docs/gradients.md: ops without a gradient, each with the reason, and ops whose gradient law 10 cannot test.

    python -m anyshape_testing.gradient_page [--page docs/gradients.md]

In: the examples of the specs, and the page. Out: the page, with new lists after its marker.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

from anyshape import ops
from anyshape.errors import UnsupportedError
from anyshape.expansion.gradient import gradients
from anyshape.graph.value import Node
from anyshape.properties import Property
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.examples import shown
from anyshape_testing.calls.packages import register
from anyshape_testing.laws.catalogue import SPEAKS_OF

MARKER = "<!-- What follows is written by anyshape_testing.gradient_page. -->"
NO_FLOATS = "it makes no floats of floats"


def refusals(p: Property) -> list[str | None]:
    """Says for each example with a result why that has no gradient, None where it has one."""
    return [_refusal(node) for node in shown(p, wide=True)]


def _refusal(node: Node) -> str | None:
    by = [v for v in node.inputs if v is not None and v.type.dtype.is_float]
    results = [v for v in node.outputs if v.type.dtype.is_float]
    if not by or not results:
        return NO_FLOATS
    try:
        gradients(reduce(ops.add, (ops.sum(ops.cast(v, to="f64")) for v in results)), by)
    except UnsupportedError as e:
        return str(e)
    return None


def lists(properties: Mapping[str, Property]) -> Iterator[str]:
    """Yields the lines after the marker. The numbers of lines of specs are left out, as they change with every edit."""
    none: dict[str, str] = {}
    untested: dict[str, str] = {}
    nothing: list[str] = []
    for op, p in properties.items():
        why = refusals(p)
        if why and all(w == NO_FLOATS for w in why):
            nothing.append(op)
        elif variants(p.op)[0].is_random:
            none[op] = "it draws at random"
        elif why and None not in why:
            none[op] = re.sub(r"(specs/\w+\.yaml):\d+", r"\1", next(w for w in why if w is not None and w != NO_FLOATS))
        elif (silence := SPEAKS_OF["smooth_op"](p)) is not None:
            untested[op] = silence
    yield "## Ops without a gradient"
    yield ""
    yield "| op | what `gradients` says |"
    yield "|---|---|"
    yield from (f"| [{op}](ops/{op}.md) | {why} |" for op, why in none.items())
    yield ""
    yield "These make no floats of floats, so that there is nothing to differentiate: " + ", ".join(nothing) + "."
    yield ""
    yield "## Gradients that law 10 does not test"
    yield ""
    yield "| op | why |"
    yield "|---|---|"
    yield from (f"| [{op}](ops/{op}.md) | {why} |" for op, why in untested.items())


def with_lists(page: str, properties: Mapping[str, Property]) -> str:
    """Returns the page with new lists after its marker. Raises ValueError where it has none."""
    if MARKER not in page:
        raise ValueError(f"the page has no line {MARKER}")
    return page.split(MARKER)[0] + MARKER + "\n\n" + "\n".join(lists(properties)) + "\n"


def command(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "anyshape_testing.gradient_page", description="Write the lists of ops without a gradient into their page."
    )
    parser.add_argument("--page", type=Path, default=Path("docs/gradients.md"), help="the page, which has a marker")
    args = parser.parse_args(argv)
    args.page.write_text(with_lists(args.page.read_text(), dict(sorted(register("anyshape_ops").items()))))
    return 0


if __name__ == "__main__":
    sys.exit(command())
