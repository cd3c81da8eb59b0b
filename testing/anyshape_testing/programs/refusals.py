"""Collects the messages with which a run may refuse a program: the evaluation on numbers continues after each refused statement.

Within a refused branch or loop, messages are collected of the branch that is taken, and of the first iteration that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anyshape.errors import AnyshapeError
from anyshape_testing.compare.wording import is_implied, is_one_early, plain
from anyshape_testing.programs.numbers import Array, Env, Numbers
from anyshape_testing.programs.statements import (
    Block,
    Call,
    If,
    Loop,
    Program,
    Ref,
    Statement,
    elements_read,
    every,
    needs_of,
    results_of,
)


@dataclass
class Refused:
    """`said`: messages of refused statements, one for each assert that they break. `without`: statements of whose messages only the op is
    known: those that depend on refused ones, and those whose rule has asserts that cannot be evaluated on these numbers."""

    said: list[str] = field(default_factory=list)
    without: list[Statement] = field(default_factory=list)

    def has(self, message: str, sizes: Mapping[str, int]) -> bool:
        """Whether a run may refuse with this message; `sizes`: the dims of the arguments by name."""
        if any(is_one_early(message, s) or is_implied(message, s, sizes) for s in self.said):
            return True
        return plain(message).split(":")[0].split(" ")[0] in set(map(_called, every(self.without)))


def _called(s: Statement) -> str:
    return s.op if isinstance(s, Call) else "if" if isinstance(s, If) else "loop"


def refusals(p: Program, arrays: Mapping[str, Array], most: int) -> tuple[list[Array] | None, Refused]:
    """Evaluates a program; returns its results (None if a statement is refused), and the messages that may be given then."""
    reader = Numbers(most, elements_read(p), results=p.results)
    env = {ref: arrays[name] for name, ref in p.params.items()}
    refused = Refused()
    _statements(reader, p.statements, env, refused)
    return (None if refused.said else [env[r] for r in p.results]), refused


def _statements(reader: Numbers, statements: Iterable[Statement], env: Env, refused: Refused) -> bool:
    """Evaluates statements as far as possible, and adds their results to `env`; returns whether all ran."""
    missing: set[Ref] = set()
    for s in statements:
        if missing & set(needs_of(s)):
            refused.without.append(s)
            missing |= set(results_of(s))
            continue
        try:
            reader.run(s, env)
        except AnyshapeError as e:
            missing |= set(results_of(s))
            if isinstance(s, Call):
                said, all_of_them = reader.broken(s, env)
                refused.said += [str(e), *said]
                if not all_of_them:
                    refused.without.append(s)
            else:
                _inside(reader, s, env, refused)
    return not missing


def _inside(reader: Numbers, s: If | Loop, env: Env, refused: Refused) -> None:
    if isinstance(s, If):
        _block(reader, s.then if reader.condition(s.cond, env) else s.other, env, refused)
        return
    collected: list[Array] = []
    current: Array | None = env[s.initial]
    for iteration in range(max(int(env[s.trip]), 0)):
        assert current is not None
        current = _block(reader, s.body, {**env, s.inside: current}, refused)
        if current is None:
            return
        collected.append(current)
        if (
            s.stacked is not None
            and len(collected) > 1
            and (words := _unequal(collected[-2], collected[-1], iteration))
        ):
            refused.said += words
            return
    assert refused.said, "a loop is refused, and nothing in it is"


def _block(reader: Numbers, b: Block, env: Env, refused: Refused) -> Array | None:
    inner = dict(env)
    return inner[b.result] if _statements(reader, b.statements, inner, refused) else None


def _unequal(before: Array, now: Array, iteration: int) -> list[str]:
    """Lists the messages about an iteration whose collected value has another shape than that of the iteration before."""
    return [
        f"loop: dim {axis} of what iteration {iteration} collects is {n}, and was {m} before"
        for axis, (m, n) in enumerate(zip(before.shape, now.shape, strict=True))
        if m != n
    ]


__all__ = ["Refused", "refusals"]
