"""Law 6, on every op of specs/."""

from anyshape_testing.laws.refusals import *

PACKAGE = "anyshape_ops"
