"""The laws, on every op of specs/."""

from anyshape_testing.laws import *

PACKAGE = "anyshape_ops"
