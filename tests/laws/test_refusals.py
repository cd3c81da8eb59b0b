"""Law 6, on every op of specs/."""

from anyshape_testing.refusals import *  # noqa: F403

PACKAGE = "anyshape_ops"
