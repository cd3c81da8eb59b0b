"""Law 5, on every op of specs/ that has rewrites."""

from anyshape_testing.laws.rewriting import *

PACKAGE = "anyshape_ops"
