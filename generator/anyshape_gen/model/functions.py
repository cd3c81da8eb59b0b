"""The functions of the rule language: their numbers of arguments, keywords, and where calls of them may stand.

In: nothing. Out: `FUNCTIONS`, read by the checker. `anyshape.rules` and `anyshape.equations` implement them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageFunction:
    """One function of the language; `most` None: any number of arguments. `where` is `rule`, `kernel`, `both` or `rewrite`."""

    least: int
    most: int | None
    where: str = "both"
    keywords: tuple[str, ...] = ()


def _table(where: str, entries: dict[str, tuple[int, int | None]]) -> dict[str, LanguageFunction]:
    return {name: LanguageFunction(least, most, where) for name, (least, most) in entries.items()}


UNARY = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "tanh",
    "erf",
    "sin",
    "cos",
    "abs",
    "floor",
    "ceil",
    "round_even",
    "trunc",
)
"""Functions of one element"""
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
FUNCTIONS: dict[str, LanguageFunction] = {
    # vectors
    **_table(
        "both", {"len": (1, 1), "fill": (2, 2), "put": (3, 3), "range": (1, 2), "prefix": (1, 1), "zip": (2, None)}
    ),
    **_table("both", {"enumerate": (1, 1), "sorted": (1, 1), "unique": (1, 1), "list": (1, 1), "index": (2, 2)}),
    **_table("both", {"sum": (1, 1), "prod": (1, 1), "count": (1, 1), "any": (1, 1), "all": (1, 1)}),
    **_table("both", {"min": (1, None), "max": (1, None), "ravel": (2, 2), "unravel": (2, 2)}),
    # shapes
    **_table("both", {"shape": (1, 1), "rank": (1, 1), "broadcast": (2, None), "broadcasts": (2, 2), "inside": (2, 2)}),
    **_table("both", {"present": (1, 1)}),
    **_table("rule", {"infer_size": (2, 2)}),
    # scalars
    **_table("both", {"ceil_div": (2, 2), "exact_div": (2, 2), "trunc_div": (2, 2), "fmod": (2, 2), "clamp": (3, 3)}),
    **_table("both", {"wrap": (2, 2), "reflect": (2, 2), "abs": (1, 1), "floor": (1, 1), "ceil": (1, 1)}),
    **_table("both", {"round_even": (1, 1), "int": (1, 1), "f32": (1, 1), "f64": (1, 1), "i32": (1, 1), "i64": (1, 1)}),
    **_table("both", {"sqrt": (1, 1), "exp": (1, 1), "log": (1, 1)}),
    # dtypes
    **_table(
        "both", {"is_int": (1, 1), "is_float": (1, 1), "is_narrow_float": (1, 1), "lowest": (1, 1), "highest": (1, 1)}
    ),
    # values of elements
    **_table(
        "kernel",
        {
            "expm1": (1, 1),
            "log1p": (1, 1),
            "tanh": (1, 1),
            "erf": (1, 1),
            "sin": (1, 1),
            "cos": (1, 1),
            "cast": (2, 2),
            "saturate": (2, 2),
        },
    ),
    **_table(
        "kernel", {"pad": (2, 2), "philox": (2, 2), "entropy": (0, 0), "array": (2, 2), "first": (1, 1), "last": (1, 1)}
    ),
    **_table("kernel", {"char": (1, 1), "bitcast": (2, 2), "search": (1, 1)}),
    **_table("kernel", dict.fromkeys(BITS, (2, 2))),
    # the condition of a rewrite
    **_table("rewrite", {"finite": (1, 1)}),
    "argsort": LanguageFunction(1, 1, "kernel", ("descending",)),
    "argmax": LanguageFunction(1, 1, "kernel", ("last",)),
    "argmin": LanguageFunction(1, 1, "kernel", ("last",)),
}
ALLOWED = {"rule": ("both", "rule"), "kernel": ("both", "kernel"), "rewrite": ("both", "rule", "rewrite")}
"""What `where` of a function may be for a call of it in a rule, in a kernel and in the condition of a rewrite."""
CONSTANTS = ("inf", "pi")
OF_SIGNATURES = ("shape", "rank", "len", "present")
"""Functions of the type of an input, which are never ops."""
LIST_FUNCTIONS = {
    **dict.fromkeys(("is_list", "list_empty", "list_of", "list_length", "optional_element", "has_element"), 1),
    **dict.fromkeys(("list_at", "list_erase", "optional"), 2),
    "list_insert": 3,
    "list_split": 4,
}
"""Functions of lists in terms of ONNX mappings, and how many arguments each has"""
CASTS = ("f32", "f64", "i32", "i64", "char")
"""Dtypes whose names are functions that cast to them."""


def arity_text(name: str, least: int, most: int | None, count: int) -> str:
    """Words a message about a wrong number of arguments."""
    range_text = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    plural = "" if range_text == "1" else "s"
    return f"'{name}' takes {range_text} argument{plural}, got {count}"
