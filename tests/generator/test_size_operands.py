"""Parameters that shape a result can be operands: those of which sizes are computed and that no variant takes as operands, each with the
reason why."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.resolve.shaping import sizing_attributes
from tests.specs import all_specs

CHOICES = {
    "bool": "it chooses between equations, or whether a dim is there: another kernel, not another size",
    "enum": "it chooses between equations: another kernel, not another size",
    "axis": "it says which dim, not how long one is; `transpose`, whose axes can be operands, brings any axis to a known place",
    "axes": "they say which dims, not how long they are; `transpose`, whose axes can be operands, brings any axes to known places",
}
"""Reasons that hold of all parameters of a kind."""

NAMED = {
    "codes_in_words.bits": "it is the format of the codes, which their file says",
    "codes_in_words.c": "it is how a constant is laid out when a model is compiled; a `reshape` can bring columns into groups of any size",
    "contract.left": "it says which dims of the operands are one, by letters, and so the form of the product",
    "contract.right": "it says which dims of the operands are one, by letters, and so the form of the product",
    "contract.result": "it says which dims come out, by letters, and so the form of the product",
    "gather_nd.batch_dims": "it decides the rank of the result",
    "quantize_blocks.block": "it is the block of weights that are multiplied with what comes out, an attribute of their product",
    "reshape_by_all_codes.newshape": "its codes decide the rank of the result; newshape of `reshape` can be an operand",
    "shape_of.end": "it decides how many dims are read; starts and ends of a `slice` of what shape_of gives can be operands",
    "shape_of.start": "it decides how many dims are read; starts and ends of a `slice` of what shape_of gives can be operands",
    "split.parts": "it is the number of results, which a graph has when it is built; their sizes can be an operand",
}


def test_attributes_that_shape_results_are_known_by_name() -> None:
    attributes = sizing_attributes(all_specs())
    assert attributes
    assert {name for name, kind in attributes.items() if kind.base not in CHOICES} == set(NAMED)


SPEC = """
define: |
  def room(n, k): return n - k + 1
ops:
  inner:
    summary: The sums of so many neighbours.
    inputs: {{x: "i64[n]"}}
    params: {{width: {{kind: int{0}}}, times: {{kind: int, default: 1}}}}
    outputs: {{y: "i64[m]"}}
    shape: |
      assert 0 < width and width <= n, "width {{width}}"
      m = room(n, width)
    kernel: "y[i] = times * sum(x[i + k] for k in width)"
  bounded:
    summary: The sums of the first elements, or of their square.
    inputs: {{x: "i64[n]"}}
    params: {{many: {{kind: int{0}}}, power: {{kind: int, default: 1}}}}
    outputs: {{y: "i64[]"}}
    shape: assert 0 <= many and many <= n, "many {{many}}"
    kernel: "y[()] = sum(x[k] for k in many) * power"
  stepped:
    summary: The same, one after the other.
    inputs: {{x: "i64[n]"}}
    params: {{many: {{kind: int{0}}}, first: {{kind: int, default: 0}}}}
    outputs: {{y: "i64[]"}}
    shape: assert 0 <= many and many <= n, "many {{many}}"
    procedure: |
      t = first
      for k in many:
          t += x[k]
      y[()] = t
"""


@pytest.mark.parametrize(
    "written, names", [("", {"inner.width", "bounded.many", "stepped.many"}), (", dyn: operand", set())]
)
def test_sizes_of_results_and_bounds_of_sums_and_loops_are_found(written: str, names: set[str]) -> None:
    assert set(sizing_attributes(analyse({"specs/sizes.yaml": SPEC.format(written)}, complete=False))) == names


def test_what_a_composition_passes_on_as_a_size_is_found() -> None:
    spec = (
        SPEC.format(", dyn: operand")
        + """
  outer:
    summary: The sums of so many neighbours, of other numbers.
    inputs: {x: "i64[n]"}
    params: {width: {kind: int}, times: {kind: int}}
    outputs: {y: "i64[*s]"}
    shape: s = [n]
    compose: "y = inner(x, width=width, times=times)"
"""
    )
    assert set(sizing_attributes(analyse({"specs/sizes.yaml": spec}, complete=False))) == {"outer.width"}
