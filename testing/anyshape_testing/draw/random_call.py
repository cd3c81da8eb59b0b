"""Draws a random call of one op: shapes and parameters, dtypes and contents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis.errors import UnsatisfiedAssumption

from anyshape.dtypes import ALL, NARROW, parse_dtype
from anyshape.errors import ShapeError
from anyshape.graph.opdef import OpDef
from anyshape.properties import Case, Property
from anyshape.rules import Vec
from anyshape_testing.calls.call import Call, Recipe, build_call, input_shapes, variants
from anyshape_testing.calls.contents import STYLES
from anyshape_testing.calls.dtypes import computed
from anyshape_testing.draw.choices import MOST_ELEMENTS, SEEDS, Choosing, HypothesisDraw, choosing
from anyshape_testing.process.profile import LONG

MOST_STEPPED = 120
"""The most elements of operands and results of a procedure: the interpreter executes its steps one by one, in Python."""
MOST_ITEMS = 8
"""The most items of a parameter, and so of axes where a parameter has one item for each."""
COMMON = ("f32", "f64", "i32", "i64", "bool")
"""Half of all draws of a dtype are among these, where the op allows any of them."""


def random_call(
    p: Property, draw: Any, dtypes: Mapping[str, str] | None = None, choices: Any = None, case: Case | None = None
) -> Call:
    """Draws shapes and params (unless it has a `case`), dtypes (except those in `dtypes`) and contents. Too many elements, or an index into
    nothing, reject a draw."""
    choose = choosing(draw)
    case = case or random_case(p, choices or HypothesisDraw(choose))
    op = variants(p.op)[0]
    chosen = {v: (dtypes or {}).get(v) or _dtype(choose, allowed) for v, allowed in op.dtypes.items()}
    return build_call(p, Recipe(_as_wide(op, case, chosen, choose), chosen, draw(SEEDS), choose.among(STYLES)))


def random_case(p: Property, choices: Any) -> Case:
    """Draws shapes and params, and draws them again with smaller sizes where they are too large, or have no element for an index."""
    said = ""
    for again in (lambda: None, *getattr(choices, "again", ())):
        again()
        try:
            case = p.case(choices)
        except ShapeError as e:  # an axis of nothing
            said = str(e)
            continue
        if any(n < 0 for s in input_shapes(case) for n in s):
            said = "a negative size"
        elif any(isinstance(v, (tuple, Vec)) and len(v) > MOST_ITEMS for v in case.params.values()):
            said = f"a parameter of more than {MOST_ITEMS} items"
        elif _elements(case) > (MOST_STEPPED if p.stepped else MOST_ELEMENTS):
            said = f"more than {MOST_ELEMENTS} elements"
        elif _has_no_index(case):
            said = "an index into nothing"
        else:
            return case
    raise UnsatisfiedAssumption(said)


def _as_wide(op: OpDef, case: Case, chosen: Mapping[str, str], choose: Choosing) -> Case:
    """Replaces a parameter that says as which dtype bits are read by a dtype of as many bits, which few random ones have. Vectors of
    parameters become tuples, as callers pass them."""
    read = [of for name, *of in op.computed.values() if name == "bitcast"]
    fitting = {
        param.removeprefix("param:"): [
            t for t in (*ALL, *NARROW) if t.code_bits == parse_dtype(chosen.get(var, var)).code_bits
        ]
        for var, param in read
    }
    params = {name: tuple(v) if isinstance(v, Vec) else v for name, v in case.params.items()}
    return replace(case, params={**params, **{p: choose.among(known) for p, known in fitting.items()}})


def _dtype(choose: Choosing, allowed: Sequence[str]) -> str:
    """Draws a dtype that the op allows and references compute with; a common one, unless `LONG`."""
    allowed = computed(allowed)
    common = [c for c in allowed if c in COMMON] or allowed
    return choose.among(allowed if LONG and choose.among((False, True)) else common)


def _elements(case: Case) -> int:
    return sum(map(math.prod, input_shapes(case)))


def _has_no_index(case: Case) -> bool:
    ranges = [(case.shapes[name], low, high) for name, (low, high) in case.ranges.items()]
    return any(shape is not None and math.prod(shape) > 0 and low >= high for shape, low, high in ranges)
