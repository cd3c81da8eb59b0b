"""`layout:` moves the axes of a family's reference and examples to where an op has them; nested families and `family` among examples."""

from __future__ import annotations

from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.parse.load import load_file

SPEC = """
families:
  sized: {params: {size: {kind: int, default: 1}}, shape: 'assert size > 0, "no size"'}
  image:
    family: sized
    inputs:  {x: "F[b, (g, c), *d]", w: "F[c, n]"}
    outputs: {y: "F[b, (g, c), *d]", z: "F[c, n]"}
    shape: e = size + 1
    reference: "(x * w.sum(), np.exp(w))"
    examples:
      - {x: [2, 6, 4, 5], w: [3, 7], y: [2, 6, 4, 5], z: [3, 7]}
      - {x: {value: [[[1, 2, 3], [4, 5, 6]]]}, w: {value: [[7, 8]]}, y: [1, 2, 3], z: {value: [[9, 10]]}}
      - {x: [2], w: [1, 1], error: rank}
ops:
  planes:
    family: image
    kernel: "y[*i] = x[*i]"
  pixels:
    family: image
    layout: {x: "F[b, *d, (g, c)]", w: "F[n, c]", y: "F[*d, b, (g, c)]"}
    kernel: "y[*i] = x[*i]"
    examples:
      - {x: [8, 8], w: [8, 8], y: [8, 8], z: [8, 8]}
      - family
"""


def ops() -> dict[str, OpSpec]:
    findings = Findings()
    file = load_file("layouts.yaml", SPEC, findings)
    findings.raise_if_any()
    return {op.name: op for op in file.ops}


def values(op: OpSpec, example: int) -> dict[str, object]:
    e = op.examples[example]
    return {name: value.value for name, value in (*e.arguments, *e.expected)}


def test_signatures_are_in_the_order_of_the_op_and_references_in_the_order_of_the_family() -> None:
    op = ops()["pixels"]
    assert [o.signature.text for o in (*op.inputs, *op.outputs)] == [
        "F[b, *d, (g, c)]",
        "F[n, c]",
        "F[*d, b, (g, c)]",
        "F[c, n]",
    ]
    assert op.reference is not None
    x, w = "np.moveaxis(x, -1, 1)", "np.moveaxis(w, (0, 1), (1, 0))"
    assert op.reference.text == f"(np.moveaxis({x} * {w}.sum(), (0, 1), (-2, -1)), np.exp({w}))"


def test_examples_of_the_family_are_moved_and_those_of_the_op_are_not() -> None:
    op = ops()["pixels"]
    assert values(op, 0) == {"x": (8, 8), "w": (8, 8), "y": (8, 8), "z": (8, 8)}
    assert values(op, 1) == {"x": (2, 4, 5, 6), "w": (7, 3), "y": (4, 5, 2, 6), "z": (3, 7)}
    assert values(op, 2) == {"x": (((1, 4), (2, 5), (3, 6)),), "w": ((7,), (8,)), "y": (3, 1, 2), "z": ((9, 10),)}
    assert values(op, 3) == {"x": (2,), "w": (1, 1)}  # of another rank than the signature, as the error says


def test_a_family_has_what_its_own_family_has() -> None:
    op = ops()["planes"]
    assert [p.name for p in op.params] == ["size"]
    assert len(op.shape) == 2
    assert len(op.examples) == 3
