"""What was inferred of a call before, for calls of which the same is known.

In: a node of which nothing is inferred yet, and what is known of dims. Out: its `Question`, equal for calls that infer the same: all that a
relation and a kernel read when they run on dims. A model repeats its layers, and every pass infers what the one before it did
(`python -m benchmarks.passes_speed` prints what that saves).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from anyshape.dims import Dim, Facts
from anyshape.dtypes import DType
from anyshape.graph.value import SMALL, Node, Value
from anyshape.types import TensorType

Question = tuple[Any, ...]
Cached = TypeVar("Cached")

MOST = 1 << 12
"""The most answers that are kept. A BERT has some two hundred, each about a kilobyte."""
_AS_THEY_ARE = (int, bool, str, Dim, DType, type(None))


class Unlike(Exception):
    """Raised where nothing tells whether another call is the same."""


class InferenceCache(Generic[Cached]):
    """The last answers, by question. Safe from any number of threads: each step is one operation of a dict."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._answers: dict[Question, Cached] = {}

    def get(self, question: Question) -> Cached | None:
        return self._answers.get(question)

    def put(self, question: Question, answer: Cached) -> None:
        if len(self._answers) >= self._most:  # symbols of models long gone
            self._answers.clear()
        self._answers[question] = answer


def question_of(node: Node, facts: Facts | None) -> Question | None:
    """The cache key of a call; None for calls that do not recur unchanged: control flow, lists, large operands, facts of a region alone."""
    op = node.op
    state = 0 if facts is None else facts.state()
    if op.control is not None or op.structure is not None or state is None:
        return None
    first_operand = len(node.data_inputs)
    try:
        attributes = tuple([(name, _spelled(a)) for name, a in node.attrs.items()])
        inputs = tuple([None if v is None else _known_of(v, k >= first_operand) for k, v in enumerate(node.inputs)])
    except Unlike:
        return None
    return (op, state, node.count, attributes, inputs)


def _known_of(v: Value, is_operand: bool) -> tuple[Any, ...]:
    """What inference reads of a value. Of large constants it reads the elements of operands alone."""
    if not isinstance(v.type, TensorType):
        raise Unlike
    a = v.constant
    if a is None:
        return (v.type, v.contents, v.floats)
    if a.size <= SMALL:
        return (v.type, a.tobytes())
    if is_operand:
        raise Unlike
    return (v.type, None)


def _spelled(a: Any) -> Any:
    """An attribute such that equal ones are the same: 1, 1.0 and True are not, nor are 0.0 and -0.0."""
    if a.__class__ in _AS_THEY_ARE:
        return (a.__class__, a)
    if isinstance(a, float):
        return (float, a.hex())
    if isinstance(a, (tuple, list)) and len(a) <= SMALL:
        return (a.__class__, *[_spelled(each) for each in a])
    if isinstance(a, np.ndarray) and a.size <= SMALL and a.dtype != object:
        return (np.ndarray, a.dtype, a.shape, a.tobytes())
    raise Unlike
