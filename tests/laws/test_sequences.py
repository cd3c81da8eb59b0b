"""The law of lists, on every op of specs/ that takes one for several tensors."""

from anyshape_testing.calls.call import variants
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.laws.sequences import *

PACKAGE = "anyshape_ops"


def test_which_ops_take_lists():
    assert {"concat", "stack"} <= {n for n in PROPERTIES if variants(n)[0].sequence is not None}
