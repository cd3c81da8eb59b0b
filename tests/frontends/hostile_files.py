"""Files of small whole models, made wrong anywhere in their structure, compiled and run in a child process that may not die.

    python -m tests.frontends.hostile_files [--first SEED] [--count N]

A seed picks a model and changes one to five fields of any message in it: numbers become extremes, names those of others,
messages are doubled, dropped, swapped or put in the place of others of their kind. Some files are then cut, or have bits turned. What is
left is compiled from its bytes and run on arrays of the shapes that it asks for. It must end in a result or in an AnyshapeError, within
seconds and within bounded memory. Prints what did not, by seed.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message

from anyshape.errors import AnyshapeError
from tests.frontends.hostile_texts import FIRST, LATER, MORE
from tests.frontends.isolated import run_from_command_line, run_isolated

EXTREMES = (0, 1, 2, 3, 7, 16, 99, 255, -1, -2, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, -0.0, 1e-45, 3e38, -1.0, float("nan"), float("inf"), float("-inf"))
WIDER = 1 << 24
"""The first seed that chooses from other models"""
LATEST = 1 << 25
"""The first seed of those that choose from the last ones"""
LARGEST_FEED = 1 << 14
"""Elements of an input that is fed"""


@cache
def whole() -> Mapping[str, onnx.ModelProto]:
    models = {name: onnx.parser.parse_model(text) for name, text in {**FIRST, **MORE, **LATER}.items()}
    graph = models["sparse"].graph
    values, at, *rest = graph.initializer
    graph.sparse_initializer.add(values=values, indices=at, dims=[2, 3])
    del graph.initializer[:]
    graph.initializer.extend(rest)
    constant = next(n for n in graph.node if n.op_type == "Constant").attribute[0]
    made_sparse = onnx.SparseTensorProto(values=constant.t, indices=at, dims=[2])
    made_sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([[0], [1]])))
    constant.CopyFrom(onnx.helper.make_attribute("sparse_value", made_sparse))
    return models


def messages(m: Message) -> Iterator[Message]:
    """The message and all below it."""
    yield m
    for field, value in m.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if _is_list(value) else [value]:
                yield from messages(part)


def _is_list(value: object) -> bool:
    return not isinstance(value, (Message, str, bytes, int, float, bool))


def _number(pick: random.Random, m: Message) -> None:
    field = _field(pick, m, lambda f: f.type not in (f.TYPE_MESSAGE, f.TYPE_STRING, f.TYPE_BYTES))
    if field is None:
        return
    real = field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE)
    new = pick.choice(REALS if real else EXTREMES)
    value = getattr(m, field.name)
    if not _is_list(value):
        setattr(m, field.name, new)
    elif len(value) and pick.random() < 0.7:
        value[pick.randrange(len(value))] = new
    else:
        value.append(new)


def _name(pick: random.Random, m: Message) -> None:
    field = _field(pick, m, lambda f: f.type in (f.TYPE_STRING, f.TYPE_BYTES))
    if field is None:
        return
    new: Any = pick.choice(NAMES)
    new = new if field.type == field.TYPE_STRING else new.encode()
    value = getattr(m, field.name)
    if not _is_list(value):
        setattr(m, field.name, new)
    elif len(value) and pick.random() < 0.8:
        value[pick.randrange(len(value))] = new
    else:
        value.append(new)


NAMES = (
    "", "x", "y", "a", "n", "at", "e", "Loop", "If", "Reshape", "Gather", "Conv", "Scan", "F", "G", "acme", "ai.onnx", "\u0000", "axis",
    "axes", "to", "perm", "body", "value", "kernel_shape", "../x", "/etc/passwd", "9" * 400, "location", "then_branch",
)  # fmt: skip


def _many(pick: random.Random, m: Message) -> None:
    """Items of a list doubled, dropped, swapped, or many more of them."""
    lists = [getattr(m, f.name) for f, v in m.ListFields() if _is_list(v) and len(v)]
    if not lists:
        return
    items = pick.choice(lists)
    at, other = pick.randrange(len(items)), pick.randrange(len(items))
    held = list(items)
    change = pick.randrange(4)
    if change == 0:
        held.insert(other, held[at])
    elif change == 1:
        del held[at]
    elif change == 2:
        held[at], held[other] = held[other], held[at]
    else:
        held += [held[at]] * pick.choice((2, 20, 200))
    held = [type(h).FromString(h.SerializeToString()) if isinstance(h, Message) else h for h in held]
    del items[:]
    items.extend(held)


def _graft(pick: random.Random, m: Message, root: Message) -> None:
    """A message becomes another one of its kind, which may be one that holds it."""
    alike = [o for o in messages(root) if o.DESCRIPTOR is m.DESCRIPTOR and o is not m]
    if alike:
        data = pick.choice(alike).SerializeToString()
        m.Clear()
        m.MergeFromString(data)


def _clear(pick: random.Random, m: Message) -> None:
    if fields := m.ListFields():
        m.ClearField(pick.choice(fields)[0].name)


def _field(pick: random.Random, m: Message, accepts: Callable[[Any], bool]) -> Any:
    """One that is said, mostly."""
    said = [f for f, _ in m.ListFields() if accepts(f)]
    fields = said if said and pick.random() < 0.9 else [f for f in m.DESCRIPTOR.fields if accepts(f)]
    return pick.choice(fields) if fields else None


def _bits(pick: random.Random, data: bytearray, count: int) -> None:
    for _ in range(count):
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)


def _cut(pick: random.Random, data: bytearray) -> None:
    del data[pick.randrange(len(data)) :]


KINDS = (
    "a number",
    "a name",
    "items of a list",
    "a message in another's place",
    "a field that is left out",
    "bits",
    "the end cut off",
)
"""What is changed in a file of `broken_alike`"""


def broken_alike(kind: str, seed: int) -> tuple[str, bytes]:
    """A model's name, and its file with one change of a kind."""
    pick = random.Random(f"{kind} {seed}")
    name = pick.choice(sorted(whole()))
    model = onnx.ModelProto()
    model.CopyFrom(whole()[name])
    places = list(messages(model))
    before, at = model.SerializeToString(deterministic=True), KINDS.index(kind)
    for _ in range(100):  # many places have nothing of the kind
        with suppress(ValueError, TypeError):
            if at < 5:
                m = pick.choice(places)
                (_number, _name, _many, lambda pick, m: _graft(pick, m, model), _clear)[at](pick, m)
        if at >= 5 or model.SerializePartialToString(deterministic=True) != before:
            break
    data = bytearray(model.SerializePartialToString())
    if kind == "bits":
        _bits(pick, data, 3)
    elif kind == "the end cut off":
        _cut(pick, data)
    return name, bytes(data)


def broken(seed: int) -> tuple[str, bytes]:
    """The model's name, and its file with faults."""
    pick = random.Random(seed)
    name = pick.choice(sorted(FIRST if seed < WIDER else MORE if seed < LATEST else LATER))
    model = onnx.ModelProto()
    model.CopyFrom(whole()[name])
    for _ in range(pick.choice((0, 1, 1, 2, 3, 5))):
        m = pick.choice(list(messages(model)))
        change = pick.randrange(10)
        try:
            if change < 4:
                _number(pick, m)
            elif change < 6:
                _name(pick, m)
            elif change < 8:
                _many(pick, m)
            elif change < 9:
                _graft(pick, m, model)
            else:
                _clear(pick, m)
        except (ValueError, TypeError):
            continue  # the field takes no such number
    data = bytearray(model.SerializePartialToString())
    if data and pick.random() < 0.25:
        _bits(pick, data, pick.choice((1, 1, 3)))
    if data and pick.random() < 0.05:
        _cut(pick, data)
    return name, bytes(data)


def outcome(seed: int) -> str:
    """Empty for a result or an AnyshapeError; else what came instead."""
    return tried(seed, *broken(seed))


def tried(seed: int, name: str, data: bytes) -> str:
    """Compiles a file and runs it on arrays that the seed tells; returns the outcome in words."""
    import anyshape

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exe = anyshape.compile(data)
            pick, sizes = random.Random(seed), dict[Any, int]()
            feed = {n: drawn_array(pick, t, sizes) for n, t in zip(exe.input_names, exe.input_types, strict=True)}
            if all(a is not None for a in feed.values()):
                exe.run(feed)
    except AnyshapeError:
        return ""
    except BaseException as e:
        return f"{name}: {type(e).__name__}: {e}"
    return ""


def drawn_array(pick: random.Random, type_: Any, sizes: dict[Any, int]) -> Any:
    """An array of the type, or None where no small one is."""
    if getattr(type_, "shape", None) is None:
        return None
    shape = [n if isinstance(n, int) else sizes.setdefault(n, pick.choice((0, 1, 2, 3, 3, 4, 5))) for n in type_.shape]
    if max(shape, default=0) > LARGEST_FEED or int(np.prod(np.array(shape, object))) > LARGEST_FEED:
        return None
    kind = type_.dtype.numpy
    values = np.array([pick.choice((0, 1, 1, 2, 3, -1)) for _ in range(int(np.prod(shape, dtype=int)))])
    values = np.abs(values).astype(kind) if np.dtype(kind).kind in "ub" else values.astype(kind)
    try:
        return values.reshape(shape)
    except ValueError:  # more dims than an array has, or dims beside a 0 whose product is too large
        return None


def run(seeds: Any) -> Iterator[tuple[int, str]]:
    whole()
    return run_isolated(seeds, outcome, lambda seed: broken(seed)[0])


if __name__ == "__main__":
    raise SystemExit(run_from_command_line("hostile_files", __doc__, run))
