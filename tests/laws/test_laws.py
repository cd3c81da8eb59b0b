"""The laws, on every op of specs/."""

from anyshape_testing.laws import *  # noqa: F403

PACKAGE = "anyshape_ops"
