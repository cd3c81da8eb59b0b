"""`python -m anyshape.torch [NAME…]`: the schemas of operators of torch, then the ops that torch cannot have, with reasons.

In: names of ops; none are all. Out: text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from anyshape.torch import ops


def lines(names: Sequence[str]) -> Iterator[str]:
    """A line for each op. Raises AttributeError for a name that no op has."""
    refused = ops.refused()
    yield from (str(getattr(ops, n)._opoverload._schema) for n in names or ops.OPERATORS if n not in refused)
    yield from (f"refused: {n}: {refused[n]}" for n in names or refused if n in refused)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point. Returns the exit code."""
    try:
        print("\n".join(lines(sys.argv[1:] if argv is None else argv)))
    except AttributeError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
