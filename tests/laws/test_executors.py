"""Law 7, on every op of specs/."""

from anyshape_testing.executors import *  # noqa: F403

PACKAGE = "anyshape_ops"
