"""Law 5, on every op of specs/ that has rewrites."""

from anyshape.testing.rewriting import *  # noqa: F403

PACKAGE = "anyshape_ops"
