"""The laws, on every op of specs/."""

from anyshape_testing.laws.agreement import *

PACKAGE = "anyshape_ops"
