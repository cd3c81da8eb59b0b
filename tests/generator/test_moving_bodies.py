"""What a composed op only moves follows from the ops that its body calls, in the modes that decide which it calls and how."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.resolve.moving import Moved, moved_dtypes

SPEC = """
ops:
  turned:
    inputs: {x: "T[n]"}
    outputs: {y: "T[n]"}
    dtypes: {T: number}
    kernel: "y[i] = x[n - 1 - i]"

  doubled:
    inputs: {x: "T[n]"}
    outputs: {y: "T[n]"}
    dtypes: {T: number}
    kernel: "y[i] = x[i] + x[i]"

  perhaps:
    inputs: {x: "T[n]", other: "i64[n]"}
    params: {how: {kind: [same, twice], default: same}}
    outputs: {y: "T[n]"}
    dtypes: {T: number}
    kernel: |
      if how == "same": y[i] = x[i]
      if how != "same": y[i] = x[i] + x[i]

  an_op:
    inputs: {x: "T[n]", other: "i64[n]"}
    params: {PARAMS}
    outputs: {y: "T[n]"}
    dtypes: {T: number}
    compose: |
      BODY
"""

PARAMS = {"way ==": "way: {kind: [one, two], default: one}", "how=how": "how: {kind: [same, twice], default: same}"}
"""Parameters by how a body reads one: every parameter must be read"""


@pytest.mark.parametrize(
    ("body", "moved"),
    [
        ("y = turned(turned(x))", Moved(("T",))),
        ("z = turned(x)\ny = turned(z)", Moved(("T",))),
        ("y = doubled(x)", Moved()),
        ("y = turned(doubled(x))", Moved()),
        ("z = doubled(x)\ny = perhaps(z, other)", Moved()),
        ("y = perhaps(x, other)", Moved(("T",))),
        ("y = perhaps(x, other, how='twice')", Moved()),
        ("y = perhaps(x, other, how=how)", Moved(("T",), {"how": ("same",)})),
        ("y = perhaps(x, cast(x, to=i64), how='same')", Moved()),
        ("if way == 'one':\n    y = turned(x)\nelse:\n    y = doubled(x)", Moved(("T",), {"way": ("one",)})),
        ("if n > 2:\n    y = turned(x)\nelse:\n    y = doubled(x)", Moved()),
        ("if n > 2:\n    y = turned(x)\nelse:\n    y = x", Moved(("T",))),
        (
            "if way == 'two' and n > 2:\n    y = doubled(x)\nelse:\n    y = perhaps(x, other, how=how)",
            Moved(("T",), {"way": ("one",), "how": ("same",)}),
        ),
    ],
)
def test_what_a_body_only_moves(body: str, moved: Moved) -> None:
    params = ", ".join(p for sign, p in PARAMS.items() if sign in body)
    text = SPEC.replace("PARAMS", params).replace("BODY", body.replace("'", '"').replace("\n", "\n      "))
    ops = {a.spec.name: a for a in analyse({"specs/m.yaml": text}, complete=False).ops}
    assert moved_dtypes(ops["an_op"], ops) == moved
