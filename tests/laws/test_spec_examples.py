"""The examples of every spec."""

from anyshape_testing.examples import *  # noqa: F403

PACKAGE = "anyshape_ops"
