"""Words of the language that may stand at a place of a spec: keys of mappings, and values of keys that are one of a few words.

In: the path to the place. Out: keys with their documentation, or words.
"""

from __future__ import annotations

from anyshape_gen.parse.keys import (
    ALGORITHM_KEYS,
    FAMILY_KEYS,
    FILE_KEYS,
    LAWS,
    MATRICES,
    OP_KEYS,
    PARAM_KEYS,
    TRAITS,
    Key,
)
from anyshape_gen.parse.signature import KINDS, VECTOR_KINDS
from anyshape_gen.parse.values import CLASSES, DTYPES, OTHER_DTYPES
from anyshape_gen.parse.versions import LANGUAGE

EXAMPLE_KEYS = (Key("error", "A part of the message with which the call is refused.", "prose"),)
VALUE_KEYS = (Key("value", "The elements; without it a list is a shape.", "scalar"),)
KEYWORDS = ("assert", "if", "else", "for", "in", "and", "or", "not", "None")
RULE, KERNEL, PYTHON, MAPPING = "rule", "kernel", "python", "mapping"
_CODE = {
    "define": KERNEL,
    "shape": RULE,
    "kernel": KERNEL,
    "procedure": KERNEL,
    "compose": MAPPING,
    "rewrites": MAPPING,
    "reference": PYTHON,
    "onnx": MAPPING,
    "aten": MAPPING,
    "inputs": RULE,
    "outputs": RULE,
    "layout": RULE,
}
_CODE_OF_FILES = {
    "define": KERNEL,
    "library": KERNEL,
    "oracles": PYTHON,
    "terms": MAPPING,
    "onnx": MAPPING,
    "aten": MAPPING,
}


def keys_at(path: tuple[str, ...]) -> tuple[Key, ...]:
    """The keys that a mapping at this path may have by the language, names of tensors and parameters apart."""
    match path:
        case ():
            return FILE_KEYS
        case ("ops", _):
            return OP_KEYS
        case ("families", _):
            return FAMILY_KEYS
        case ("ops" | "families", _, "params", _):
            return PARAM_KEYS
        case ("ops" | "families", _, "algorithms", _):
            return ALGORITHM_KEYS
        case ("ops" | "families", _, "examples", "[]"):
            return EXAMPLE_KEYS
        case ("ops" | "families", _, "examples", "[]", _):
            return VALUE_KEYS
        case ("ops" | "families", _, "bilinear"):
            return tuple(Key(name, "A matrix of the algorithm.", "matrices") for name in MATRICES)
        case ("ops" | "families", _, "weak"):
            return tuple(Key(name, "A law that says too little of this op.", "prose") for name in LAWS)
        case _:
            return ()


def words_at(path: tuple[str, ...]) -> tuple[str, ...]:
    """The words that a value at this path may be."""
    match path:
        case ("language",):
            return (str(LANGUAGE),)
        case ("ops" | "families", _, "params", _) | ("ops" | "families", _, "params", _, "kind"):
            return (*KINDS, *(f"{kind}[n]" for kind in VECTOR_KINDS))
        case ("ops" | "families", _, "params", _, "dyn"):
            return ("operand",)
        case ("ops" | "families", _, "dtypes", *_):
            return (*CLASSES, *DTYPES, *OTHER_DTYPES, "accum", "promote", "bitcast", "param")
        case ("ops" | "families", _, "traits", *_):
            return TRAITS
        case ("ops" | "families", _, "examples", *_):
            return ("family",)
        case ("ops" | "families", _, "inputs" | "outputs" | "layout", _):
            return ("seq", *DTYPES, *OTHER_DTYPES)
        case _:
            return ()


def code_at(path: tuple[str, ...]) -> str | None:
    """Which language a value at this path is written in: RULE, KERNEL, PYTHON or MAPPING; None where it is no code."""
    match path:
        case ("ops" | "families", _, "params", _, "default" | "of" | "empty"):
            return RULE
        case ("ops" | "families", _, "params", _, "kind", "[]"):
            return None
        case ("ops" | "families", _, "algorithms", _, "if"):
            return RULE
        case ("ops" | "families", _, key, *_):
            return _CODE.get(key)
        case (key, *_):
            return _CODE_OF_FILES.get(key)
        case _:
            return None
