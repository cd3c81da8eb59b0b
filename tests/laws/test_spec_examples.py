"""The examples of every spec."""

from anyshape_testing.examples import *

PACKAGE = "anyshape_ops"
