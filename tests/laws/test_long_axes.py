"""The law of long axes, on every op of specs/ that takes narrow floats."""

from anyshape.testing.long_axes import *  # noqa: F403

PACKAGE = "anyshape_ops"
