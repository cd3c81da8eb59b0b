"""The law of integers near the ends of i64, on every op of specs/ that takes some."""

from anyshape_testing.laws.extremes import *

PACKAGE = "anyshape_ops"
