"""The law of long axes, on every op of specs/ that takes narrow floats."""

from anyshape_testing.long_axes import *  # noqa: F403

PACKAGE = "anyshape_ops"
