"""The law of code for other processors, on every op of specs/."""

from anyshape_testing.laws.processors import *

PACKAGE = "anyshape_ops"
