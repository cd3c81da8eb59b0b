"""Tuples of values: a tuple is its members, wherever values go in or come out, as deep as tuples are in one another.

A graph knows only the members. Code that people call takes tuples apart on the way in (`flat`), and puts together on the way out what has
the form of what came in (`formed`). A form is None for a value, and a tuple of forms for a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Form = Any
"""The type of a form: None, or a tuple of forms."""


def form_of(value: Any) -> Form:
    return tuple(map(form_of, value)) if isinstance(value, tuple) else None


def flat(value: Any) -> list[Any]:
    """The members, from left to right."""
    return [m for part in value for m in flat(part)] if isinstance(value, tuple) else [value]


def flats(values: Sequence[Any]) -> list[Any]:
    """The members of several values, from left to right."""
    return [m for part in values for m in flat(part)]


def formed(form: Form, members: Iterator[Any]) -> Any:
    """The next members, as many as the form has, in that form."""
    return tuple(formed(f, members) for f in form) if isinstance(form, tuple) else next(members)


def spelled(form: Form) -> str:
    """The text of a form in messages: `(*, (*, *))`."""
    if not isinstance(form, tuple):
        return "*"
    return f"({', '.join(map(spelled, form))}{',' if len(form) == 1 else ''})"


def member_names(name: str, form: Form) -> list[str]:
    """`state.0`, `state.1.0` … for the members of a tuple."""
    if not isinstance(form, tuple):
        return [name]
    return [n for k, f in enumerate(form) for n in member_names(f"{name}.{k}", f)]
