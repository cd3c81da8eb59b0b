"""Converts names of a spec to names of Python: one that would hide a name that generated code calls gets a trailing underscore."""

from __future__ import annotations

import keyword
from collections.abc import Container

_RULES = """
    Bound Rule Vec all_ among any_ clamp count drop enumerate_ eq fill ge gt index int_ keep le lt ne not_ place prefix prod put
    range_ ravel reflect sorted_ sum_ unique unravel
    Elements count_of each_of numbers_of total_of
"""
_FUNCTIONS = """
    abs_ and_ at bit_and bit_or bit_xor bitcast
    cast ceil checked clamp cos entropy eq erf exp expm1 fit floor fmod fold ge gt inside int_
    item le log log1p lt maximum minimum ne not_ or_ pad philox pow_ present quotient range_index ravel reduce_ reduce_range reflect
    remainder round_even saturate shift_left shift_right sin sqrt tanh trunc trunc_div unravel where widened wrap
"""

RULE_NAMES: dict[str, str] = dict.fromkeys(_RULES.split(), "anyshape.rules")
"""Names that relations import, by module"""

KERNEL_NAMES: dict[str, str] = {
    **dict.fromkeys(_FUNCTIONS.split(), "anyshape.equations.functions"),
    **dict.fromkeys(("highest", "lowest", "parse_dtype"), "anyshape.dtypes"),
    **dict.fromkeys(("inf", "pi"), "math"),
    "as_expr": "anyshape.equations.expr",
    "Equations": "anyshape.equations",
    "Bound": "anyshape.rules",
    "Rule": "anyshape.rules",
    "rules": "anyshape",
    "Any": "typing",
}
"""Names that kernels import, by module"""

_LOCAL = frozenset((
    "rule", "rules", "bound", "passed", "eqs", "procedure", "len", "range", "zip", "float", "int", "bool", "str",
    "tuple", "list"
))  # fmt: skip


def relation_name(name: str) -> str:
    """Converts the name of a dim, operand, parameter or local of a rule to Python, for its relation."""
    return _beside(name, RULE_NAMES)


def kernel_name(name: str) -> str:
    """Converts the name of a dim, parameter, tensor or index variable to Python, for a kernel."""
    return _beside(name, KERNEL_NAMES)


def _beside(name: str, called: Container[str]) -> str:
    """Adds underscores to a name until it differs from all that are called; different names stay different."""
    stem = name.rstrip("_")
    taken = any(n in called or n in _LOCAL or keyword.iskeyword(n) for n in (name, stem, f"{stem}_"))
    return f"{name}_" if taken else name


def constant_name(op: str, variant: str = "") -> str:
    """Returns the name of the constant that is an OpDef: STATIC_RESHAPE."""
    return f"{variant}_{op}".strip("_").upper()
