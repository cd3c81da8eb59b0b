"""The keys of spec files, with the forms and meanings of their values: one table for the loader, the schema and
messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """A key of a mapping."""

    name: str
    doc: str
    form: str
    """the form of the key's value, a name in `schema.FORMS`"""


FILE_KEYS = (
    Key("language", "The version of the language that the file is written in; 1 where there is none.", "language"),
    Key("define", "Functions for all ops of the file: `def f(a): return …`.", "code"),
    Key("library", "Functions for the ops of all files of the folder, which read their arguments only.", "code"),
    Key("oracles", "Python functions over np and scipy for the references of the file.", "python"),
    Key("families", "Entries that ops and other families take over with `family:`; their own entries win.", "families"),
    Key("ops", "The operators of this file, by name.", "ops"),
    Key("onnx", 'ONNX operators that are terms of several ops, or of lists: `{Op: {since: "x -> term"}}`.', "onnx"),
    Key("aten", 'ATen operators that are terms of several ops: `{op.overload: "x -> term"}`.', "aten"),
    Key("terms", "Functions that the ONNX and ATen mappings of the file share: `def f(x): return term`.", "terms"),
    Key(
        "refused",
        "ONNX operators that have no mapping, each with the reason, which models are told: `{Op: reason}`.",
        "names",
    ),
    Key(
        "refused_aten",
        "ATen operators that have no mapping, each with the reason, which models are told: `{op.overload: reason}`.",
        "names",
    ),
)
OP_KEYS = (
    Key("family", "The family whose entries are taken over.", "word"),
    Key("summary", "One sentence for the op's page.", "prose"),
    Key("inputs", 'Names and signatures: `{x: "T[*d]"}`.', "signatures"),
    Key("params", "Names and kinds: `{axis: {kind: axis, default: -1}}`.", "params"),
    Key("outputs", 'Names and signatures: `{y: "T[*d]"}`.', "signatures"),
    Key("layout", 'Signatures of the family with the axes in another order: `{x: "F[b, *d, c]"}`.', "signatures"),
    Key("dtypes", "Classes, lists or rules of the dtype variables: `{T: number, U: accum(T)}`.", "dtypes"),
    Key("traits", "Properties that passes may use.", "traits"),
    Key("define", "Functions for this op.", "code"),
    Key("shape", "The shape rule: assignments and asserts.", "code"),
    Key("kernel", "The op as index equations.", "code"),
    Key("view", "`{y: x}`: the output is the input's buffer under another shape.", "names"),
    Key("procedure", "The op as bounds-checked loops, where no equation says it.", "code"),
    Key("compose", "The op as calls of other ops.", "code"),
    Key(
        "bilinear",
        "Matrices of an algorithm with fewer products: `{windows: [[…]], weights: …, results: …}`.",
        "matrices",
    ),
    Key(
        "rotations",
        "Turns of the circle of a transform in steps: `{whole: [sample, frequency, size], table: [place, place, size]}`.",
        "rotations",
    ),
    Key(
        "algorithms",
        "Ops that are this one where a condition holds: `{op: {if: condition, constant: input}}`.",
        "algorithms",
    ),
    Key(
        "operator", "The sign that stands for a call of the op in `compose:`, such as `+`, `<`, `not` or `[]`.", "word"
    ),
    Key(
        "python",
        "How a Value calls the op: `{x.sum(axis=axes): {param: constant, dtype variable: class}}`; what `operator:` says, it says too.",
        "spellings",
    ),
    Key("rewrites", "`pattern [as y] >> term [if condition]`.", "texts"),
    Key("reference", "The independent oracle, an expression over np, scipy, inputs and params.", "python"),
    Key("onnx", '`{Op: {since: "x, p=attr"}}`.', "onnx"),
    Key("aten", '`{op.overload: "x, p=attr"}`.', "aten"),
    Key(
        "examples",
        "Inputs and params with the outputs or the error they give; `family` stands for the examples of the family.",
        "examples",
    ),
    Key("weak", "Laws that say too little of this op, each with the reason: `{7b: reason}`.", "weak"),
)
FAMILY_KEYS = tuple(key for key in OP_KEYS if key.name != "layout")
LAWS = (
    "1a", "1b", "2", "2b", "2c", "3a", "3b", "4a", "4b", "5", "6a", "6b", "7a", "7b", "9", "10", "11", "12", "13",
    "14"
)  # fmt: skip
"""Numbers of the laws on random calls, as `anyshape_testing.laws.catalogue` has them."""
PARAM_KEYS = (
    Key(
        "kind",
        "bool int float number str dtype axis ints[L] floats[L] axes[L], or the members of an enumeration.",
        "kind",
    ),
    Key("default", "An expression over other params, dims and ranks; None: may be absent.", "scalar"),
    Key("dyn", "`operand`: an operand of the dyn variant, an attribute of the static one.", "operand"),
    Key("of", "The rank that an axis is normalised against.", "code"),
    Key("empty", "A condition over other params under which an empty vector stands for the default.", "code"),
)
ALGORITHM_KEYS = (
    Key("if", "A condition of names of the rule, under which the other op has the same results.", "code"),
    Key("constant", "The input that is transformed when a model is compiled, so that the other op pays.", "word"),
)
MATRICES = ("windows", "weights", "results")
TRAITS = ("commutative", "associative", "idempotent", "involution", "random", "finite", "asserts_dims")
FORMS_OF_BODY = ("kernel", "view", "procedure", "compose")


def names(keys: tuple[Key, ...]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)
