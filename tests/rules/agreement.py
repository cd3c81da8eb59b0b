"""The law of every rule: run on symbols with numbers put in afterwards, it says what it says run on the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim
from anyshape.errors import ShapeError
from anyshape.rules import Bound, Rule

Run = Callable[[Rule], Bound]


class Symbolic:
    """One run on symbols: its outputs and checks, or the error it raised at once."""

    def __init__(self, op: str, run: Run) -> None:
        self.rule = Rule(op)
        self.error = ""
        self.outputs: dict[str, Any] = {}
        try:
            self.outputs = run(self.rule).outputs
        except ShapeError as e:
            self.error = str(e)

    def at(self, values: Mapping[Dim, int]) -> dict[str, Any] | str:
        """The outputs, or the message of the first check that fails."""
        if self.error:
            return self.error
        for check in self.rule.checks:
            if not dims.evaluate(check.cond, values):
                return check.format(values)
        return {name: put_in(v, values) for name, v in self.outputs.items()}


def put_in(v: Any, values: Mapping[Dim, int]) -> Any:
    if isinstance(v, Dim | Cond):
        return dims.evaluate(v, values)
    return tuple(put_in(x, values) for x in v) if isinstance(v, tuple | list) else v


def on_numbers(op: str, run: Run) -> dict[str, Any] | str:
    """The outputs of a run on integers, which leaves no checks, or its error message."""
    rule = Rule(op)
    try:
        outputs = run(rule).outputs
    except ShapeError as e:
        return str(e)
    assert rule.checks == []
    return {name: put_in(v, {}) for name, v in outputs.items()}


def kinds_of(v: Any) -> set[str]:
    """The kinds of atoms anywhere in a result."""
    if isinstance(v, tuple | list):
        return set().union(*map(kinds_of, v))
    if isinstance(v, Cond):
        return kinds_of(v.args)
    if isinstance(v, Dim):
        return set().union(*({a.kind} | kinds_of(a.args) for m, _ in v.terms for a in m))
    return set()
