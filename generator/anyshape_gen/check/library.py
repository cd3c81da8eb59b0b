"""Checks the functions of the library.

In: the functions by name. Out: findings of names that they may not read and of calls that are wrong or go in circles.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.check.names import NameChecker
from anyshape_gen.model.nodes import Function
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import NO_OP
from anyshape_gen.parse.load import check_recursion


def check_library(functions: Mapping[str, Function], findings: Findings) -> None:
    """Checks that functions read their arguments only, since any op may call them, and what they call."""
    names = NameChecker(NO_OP, findings, functions)
    for f in functions.values():
        names.function(f, {}, "kernel")
    check_recursion(functions.values(), functions, findings)
