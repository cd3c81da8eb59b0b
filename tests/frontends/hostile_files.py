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
from functools import cache
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message

from anyshape.errors import AnyshapeError
from tests.frontends.isolated import run_from_command_line, run_isolated

EXTREMES = (0, 1, 2, 3, 7, 16, 99, 255, -1, -2, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, -0.0, 1e-45, 3e38, -1.0, float("nan"), float("inf"), float("-inf"))
LARGEST_FEED = 1 << 14
"""Elements of an input that is fed"""
TEXTS = {
    "images": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 2, h, w] x) => (float[n, k] y)
        <int64[4] fs = {3, 2, 3, 3}, int64[1] bs = {3}, int64[2] s = {0, -1}> {
            f = ConstantOfShape <value = float[1] {0.5}> (fs) b = ConstantOfShape (bs)
            c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x, f, b)
            r = Relu (c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (r)
            q = GlobalAveragePool (p) t = Reshape (q, s) y = Softmax <axis = 1> (t) }""",
    "attention": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[b, s, 8] x) => (float[b, s, 8] y)
        <int64[1] two = {2}, int64[1] minus = {-1}, int64[1] zero = {0}, int64[1] one = {1}, float scale = {0.5}> {
            shape = Shape (x) n = Slice (shape, zero, two) target = Concat <axis = 0> (n, two, minus)
            h = Reshape (x, target) q = Transpose <perm = [0, 2, 1, 3]> (h) k = Transpose <perm = [0, 2, 3, 1]> (h)
            a = MatMul (q, k) m = Mul (a, scale) p = Softmax <axis = -1> (m) v = MatMul (p, q)
            t = Transpose <perm = [0, 2, 1, 3]> (v) y = Reshape (t, shape) }""",
    "tokens": """
        <ir_version: 8, opset_import: ["" : 17]> g (int64[b, s] ids, float[50, 4] table) => (float[b, k, 4] y, int64[b, k] at)
        <int64[1] three = {3}, int64[1] last = {-1}> {
            e = Gather (table, ids) r = ReduceSum <keepdims = 0> (e, last) v, at = TopK <axis = 1> (r, three)
            u = Unsqueeze (at, last) w = Expand (u, shape) shape = Constant <value = int64[3] {1, 1, 4}> ()
            y = GatherElements <axis = 1> (e, w) }""",
    "turns": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64 k, bool go) => (float[n] y, float[m, n] all) {
            y, all = Loop <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] e, float[n] o)
                { d = Identity (c) f = CastLike (i, a) e = Add (a, f) o = Neg (e) }> (k, go, x) }""",
    "choice": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, bool c) => (y)
        { y = If <then_branch = t () => (float[n] p) { p = Exp (x) }, else_branch = e () => (float[n] q) { q = Abs (x) }> (c) }""",
    "cells": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[s, b, 2] x, int32[b] lens) => (y, h)
        <int64[3] wide = {1, 12, 2}, int64[3] deep = {1, 12, 3}> {
            w = ConstantOfShape <value = float[1] {0.1}> (wide) r = ConstantOfShape <value = float[1] {0.2}> (deep)
            y, h = LSTM <hidden_size = 3, direction = "forward"> (x, w, r, , lens) }""",
    "places": """
        <ir_version: 8, opset_import: ["" : 18]> g (float[n, m] x, int64[k] at, float[k, m] add) => (y, z, u) {
            last = Constant <value = int64[1] {-1}> () i = Unsqueeze (at, last) y = ScatterND <reduction = "add"> (x, i, add)
            nz = NonZero (x) z = Transpose <perm = [1, 0]> (nz) u, f, v, c = Unique <axis = 0, sorted = 1> (at) }""",
    "sizes": """
        <ir_version: 8, opset_import: ["" : 18]> g (float[n, 1, h, w] x, int64[2] by, float[4] f) => (y, z)
        { r = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , f)
          p = Pad <mode = "reflect"> (r, pads) pads = Constant <value = int64[8] {0, 0, 0, 1, 0, 0, 1, 0}> ()
          y = DepthToSpace <blocksize = 1, mode = "CRD"> (p) z = Tile (by, one) one = Constant <value = int64[1] {2}> () }""",
    "lists": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x, int64 at) => (y, z)
        { l = SplitToSequence <axis = 0, keepdims = 1> (x) e = SequenceAt (l, at) m = SequenceInsert (l, e)
          z = SequenceLength (m) y = ConcatFromSequence <axis = 0> (m) }""",
    "calls": """
        <ir_version: 8, opset_import: ["" : 17, "acme" : 1]> g (float[n] x) => (y) { a = acme.F <slope = 0.5> (x) y = acme.G (a) }
        <opset_import: ["" : 17, "acme" : 1], domain: "acme"> F <slope> (v) => (w) { w = LeakyRelu <alpha : float = @slope> (v) }
        <opset_import: ["" : 17, "acme" : 1], domain: "acme"> G (v) => (w) { u = acme.F <slope = 2.0> (v) w = Tanh (u) }""",
    "numbers": """
        <ir_version: 8, opset_import: ["" : 17]> g (int64[n] a, int64[n] b, float[n] x) => (q, r, o, c)
        { q = Div (a, b) r = Mod (a, b) k = ConstantOfShape (s) s = Shape (x) o = Add (k, x)
          e = CumSum (x, axis) axis = Constant <value = int64 {0}> () c = Cast <to = 7> (e) }""",
}


@cache
def whole() -> Mapping[str, onnx.ModelProto]:
    return {name: onnx.parser.parse_model(text) for name, text in TEXTS.items()}


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


def _field(pick: random.Random, m: Message, wanted: Callable[[Any], bool]) -> Any:
    """One that is said, mostly."""
    said = [f for f, _ in m.ListFields() if wanted(f)]
    fields = said if said and pick.random() < 0.9 else [f for f in m.DESCRIPTOR.fields if wanted(f)]
    return pick.choice(fields) if fields else None


def broken(seed: int) -> tuple[str, bytes]:
    """The model's name, and its file with faults."""
    pick = random.Random(seed)
    name = pick.choice(sorted(TEXTS))
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
        for _ in range(pick.choice((1, 1, 3))):
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    if data and pick.random() < 0.05:
        del data[pick.randrange(len(data)) :]
    return name, bytes(data)


def outcome(seed: int) -> str:
    """Empty for a result or an AnyshapeError; else what came instead."""
    import anyshape

    name, data = broken(seed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exe = anyshape.compile(data)
            pick, sizes = random.Random(seed), dict[Any, int]()
            feed = {n: _array(pick, t, sizes) for n, t in zip(exe.input_names, exe.input_types, strict=True)}
            if all(a is not None for a in feed.values()):
                exe.run(feed)
    except AnyshapeError:
        return ""
    except BaseException as e:
        return f"{name}: {type(e).__name__}: {e}"
    return ""


def _array(pick: random.Random, type_: Any, sizes: dict[Any, int]) -> Any:
    """An array of the type, or None where no small one is."""
    if getattr(type_, "shape", None) is None:
        return None
    shape = [n if isinstance(n, int) else sizes.setdefault(n, pick.choice((0, 1, 2, 3, 3, 4, 5))) for n in type_.shape]
    if max(shape, default=0) > LARGEST_FEED or int(np.prod(np.array(shape, object))) > LARGEST_FEED:
        return None
    kind = type_.dtype.numpy
    values = np.array([pick.choice((0, 1, 1, 2, 3, -1)) for _ in range(int(np.prod(shape, dtype=int)))])
    return (
        np.abs(values).astype(kind).reshape(shape)
        if np.dtype(kind).kind in "ub"
        else values.astype(kind).reshape(shape)
    )


def run(seeds: Any) -> Iterator[tuple[int, str]]:
    whole()
    return run_isolated(seeds, outcome, lambda seed: broken(seed)[0])


if __name__ == "__main__":
    raise SystemExit(run_from_command_line("hostile_files", __doc__, run))
