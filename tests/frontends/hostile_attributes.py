"""One node of every operator in every opset that has a mapping, its attributes anything at all, compiled and run in a child process that
may not die.

    python -m tests.frontends.hostile_attributes [--first SEED] [--count N]

The seeds go through the mappings in turn, so that as many seeds as there are mappings try each once. A seed gives the attributes that the
mapping asks for values: extremes, of the right kind or of another, names that stand in the mapping or elsewhere; and the inputs ranks,
dtypes and sizes, known, unknown or constant. It must end in a result or in an AnyshapeError, within seconds and within bounded memory.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from anyshape.frontends.onnx.mappings import all_mappings, find_schema
from tests.frontends.hostile_files import EXTREMES, REALS, tried
from tests.frontends.isolated import run_from_command_line, run_isolated

NEWEST = 23
"""The opset of ONNX around an operator of another domain"""
MOST = 4
"""Inputs of an operator that takes any number of them"""
WORDS = ("", "NOTSET", "SAME_UPPER", "VALID", "linear", "\xff", "ij,jk->ik", "x" * 300)
RANKS = (0, 1, 1, 2, 3, 4, 4)
T = onnx.TensorProto
DTYPES = (T.FLOAT, T.FLOAT, T.INT64, T.INT64, T.INT32, T.DOUBLE, T.BOOL, T.UINT8, T.FLOAT16, T.STRING)

INT, FLOAT, STRING, TENSOR, INTS, FLOATS, STRINGS = range(7)
KINDS = {
    "INT": INT,
    "FLOAT": FLOAT,
    "STRING": STRING,
    "TENSOR": TENSOR,
    "INTS": INTS,
    "FLOATS": FLOATS,
    "STRINGS": STRINGS,
}


@dataclass(frozen=True)
class Mapped:
    """An operator since an opset. `asked`: the attributes that its mapping reads, with their kinds where onnx declares them; `words`: the
    texts that stand in it."""

    operator: str
    since: int
    asked: tuple[tuple[str, int | None], ...]
    words: tuple[str, ...]
    inputs: int
    outputs: int


def source(function: Any) -> str:
    """The text of a mapping, and of the functions that it shares with others of its file, and calls."""
    text = inspect.getsource(function)
    names = dict.fromkeys(re.findall(r"\b(_\w+)\(\s*n[,)]", text))
    return "\n".join([text, *(source(function.__globals__[name]) for name in names if name != function.__name__)])


@cache
def mapped() -> tuple[Mapped, ...]:
    mappings = []
    for operator, versions in sorted(all_mappings().items()):
        for since, mapping in versions.items():
            if mapping is None:
                continue
            text = source(inspect.unwrap(mapping))
            asked = re.findall(r"\.(?:attr|attr_dtype|has_attr|named|region)\(\s*\"(\w+)\"", text)
            places = [int(k) for k in re.findall(r"\.input\((\d+)\)", text)]
            count = MOST if ".inputs(" in text else max(places, default=0) + 1
            words = re.findall(r'"(\w+)"', text)
            domain, _, name = operator.rpartition(":")
            schema = find_schema(domain, name, since)
            declared = {} if schema is None else {key: KINDS.get(a.type.name) for key, a in schema.attributes.items()}
            kinds = tuple((key, declared.get(key)) for key in dict.fromkeys(asked))
            outputs = 1 if schema is None else min(schema.max_output, MOST)
            mappings.append(Mapped(operator, since, kinds, tuple(dict.fromkeys(words)), count, outputs))
    return tuple(mappings)


def chosen(seed: int, only: str = "") -> Mapped:
    listed = [m for m in mapped() if only in m.operator]
    return listed[seed % len(listed)]


def node_of(m: Mapped, seed: int) -> tuple[str, bytes]:
    """The operator, and the file of a model of one node."""
    pick = random.Random(seed)
    domain, _, name = m.operator.rpartition(":")
    picked = [asked for asked in m.asked if pick.random() < 0.7]
    attributes = [a for key, kind in picked if (a := _attribute(pick, key, kind, m.words)) is not None]
    inputs, constants, names = [], [], []
    usual = (pick.choice(DTYPES), pick.choice(RANKS))
    for k in range(m.inputs if pick.random() < 0.8 else pick.randrange(m.inputs + 2)):
        names.append(f"x{k}" if k == 0 or pick.random() < 0.9 else "")
        dtype, rank = (pick.choice(DTYPES), pick.choice(RANKS)) if pick.random() < 0.3 else usual
        if names[-1] and k and pick.random() < 0.4 and dtype != onnx.TensorProto.STRING:
            constants.append(_constant(pick, names[-1], dtype, rank % 3))
        elif names[-1]:
            dims = [pick.choice((3, 3, 3, 1, 2, 4, f"n{k}", "m", None)) for _ in range(rank)]
            inputs.append(helper.make_tensor_value_info(names[-1], dtype, dims if pick.random() < 0.9 else None))
    outputs = [f"y{k}" for k in range(pick.randrange(m.outputs + 2) if pick.random() < 0.1 else m.outputs)]
    node = helper.make_node(name, names, outputs, name="node", domain=domain)
    node.attribute.extend(attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=y) for y in outputs], constants)
    opsets = [helper.make_opsetid("", NEWEST if domain else m.since)]
    opsets += [helper.make_opsetid(domain, m.since)] if domain else []
    return f"{m.operator}-{m.since}", helper.make_model(graph, opset_imports=opsets).SerializeToString()


def _attribute(pick: random.Random, key: str, kind: int | None, words: Sequence[str]) -> onnx.AttributeProto | None:
    """Makes an attribute mostly of its kind; None for an empty list, whose kind nobody could tell."""
    if kind is None or pick.random() < 0.1:
        kind = pick.choice(tuple(KINDS.values()))
    usual = pick.random() < 0.6
    numbers: Sequence[Any] = (0, 1, 2, -1, 3) if usual else EXTREMES if kind in (INT, INTS) else REALS
    texts = [w.encode("latin-1", "replace") for w in (words if usual and words else WORDS)]
    if kind in (INT, FLOAT):
        value: Any = pick.choice(numbers)
    elif kind == STRING:
        value = pick.choice(texts)
    elif kind in (INTS, FLOATS, STRINGS):
        value = [pick.choice(texts if kind == STRINGS else numbers) for _ in range(pick.choice((0, 1, 2, 2, 4)))]
    else:
        value = _constant(pick, "", pick.choice(DTYPES[:-1]), pick.randrange(3))
    if kind in (FLOAT, FLOATS):
        value = [float(v) for v in value] if isinstance(value, list) else float(value)
    return helper.make_attribute(key, value) if value != [] else None


def _constant(pick: random.Random, name: str, dtype: int, rank: int) -> onnx.TensorProto:
    shape = [pick.choice((0, 1, 2, 3, 4)) for _ in range(rank)]
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    values: Sequence[Any] = (
        (0, 1, 2, 3) if kind.kind in "bu" else (0, 1, 2, 3, -1, -2, *(EXTREMES if kind == np.int64 else ()))
    )
    array = np.array([pick.choice(values) for _ in range(int(np.prod(shape, dtype=int)))], kind).reshape(shape)
    return onnx.numpy_helper.from_array(array, name)


def outcome(seed: int, only: str = "") -> str:
    """Empty for a result or an AnyshapeError; else what came instead."""
    return tried(seed, *node_of(chosen(seed, only), seed))


def run(seeds: Any, only: str = "") -> Iterator[tuple[int, str]]:
    mapped()
    return run_isolated(seeds, lambda seed: outcome(seed, only), lambda seed: chosen(seed, only).operator)


if __name__ == "__main__":
    raise SystemExit(
        run_from_command_line("hostile_attributes", __doc__, run, only="operators whose name contains this")
    )
