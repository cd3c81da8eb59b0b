"""Names that may stand in several places of specs: `bad_specs/one_name_twice.yaml` has those that may not."""

from __future__ import annotations

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse

SPEC = """
oracles: |
  def own(v): return doubled(v)
  def doubled(v): return v + v
ops:
  {name}:
    inputs: {{x: "T[*d]"}}
    outputs: {{y: "T[*d]"}}
    dtypes: {{T: [i64]}}
    define: |
      def summed(v, w):
          a = v + w
          b = a + a
          return b
    kernel: "y[*i] = summed(x[*i], sum(j for j in 2 for k in 3) + sum(j for j in 2))"
    reference: own(x)
    onnx: {{"com.example:Of": {{{since}: "x -> {name}(x)"}}}}
"""


def test_files_and_ops_have_names_of_their_own():
    analyse({"a.yaml": SPEC.format(name="a", since=1), "b.yaml": SPEC.format(name="b", since=2)}, complete=False)


def test_an_operator_means_one_thing_in_an_opset():
    with pytest.raises(
        SpecError, match=r"b.yaml:.*the mapping of 'com.example:Of 1' is there a second time; the first is at a.yaml:"
    ):
        analyse({"a.yaml": SPEC.format(name="a", since=1), "b.yaml": SPEC.format(name="b", since=1)}, complete=False)
