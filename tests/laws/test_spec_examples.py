"""The examples of every spec."""

from anyshape_testing.laws.examples import *

PACKAGE = "anyshape_ops"
