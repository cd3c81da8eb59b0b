"""The law of gradients, on every op of specs/ that makes floats of floats."""

from anyshape_testing.gradients import *  # noqa: F403

PACKAGE = "anyshape_ops"
