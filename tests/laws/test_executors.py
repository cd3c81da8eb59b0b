"""Law 7, on every op of specs/."""

from anyshape_testing.laws.executors import *

PACKAGE = "anyshape_ops"
