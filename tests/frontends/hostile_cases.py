"""Models of ONNX's own suite, made wrong at random, compiled and run in a child process that may not die.

    python -m tests.frontends.hostile_cases [--first SEED] [--count N] [--only TEXT]

A seed picks a case of the suite, breaks one to three things of the model (attributes, dims, dtypes, names, constants, opsets, whole
nodes) and of the arrays that it is run on (dtype, rank, byte order, alignment, strides, contents), and runs the result. It must end in a
result or in an AnyshapeError, within seconds and within bounded memory. Prints what did not, by seed.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from anyshape.errors import AnyshapeError
from tests.frontends.isolated import run_from_command_line, run_isolated
from tests.frontends.onnx_suite import as_array, cases

EXTREMES = (0, 1, -1, 2, 3, 7, 64, 255, -2, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, -0.0, 1e-45, 1e38, -1.0, float("nan"), float("inf"), float("-inf"), 0.5)
LARGEST_FEED = 1 << 16
"""Elements of an array that is fed; a model may ask for more"""


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(cases()))


def broken(seed: int, only: str = "") -> tuple[str, onnx.ModelProto, dict[str, Any]]:
    """The case's name, its model with faults, and what to feed it."""
    pick = random.Random(seed)
    listed = [n for n in names() if only in n]
    name = pick.choice(listed)
    case = cases()[name]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = [as_array(a) for a in case.data_sets[0][0]]
    feed: dict[str, Any] = dict(zip([i.name for i in model.graph.input], inputs))
    for _ in range(pick.choice((1, 1, 2, 3))):
        pick.choice(FAULTS)(pick, model, feed)
    return name, model, feed


def _attribute(pick: random.Random, model: Any, feed: Any) -> None:
    attributes = [a for n in model.graph.node for a in n.attribute]
    if not attributes:
        return
    a = pick.choice(attributes)
    if a.type == onnx.AttributeProto.INT:
        a.i = pick.choice(EXTREMES)
    elif a.type == onnx.AttributeProto.FLOAT:
        a.f = pick.choice(REALS)
    elif a.type == onnx.AttributeProto.INTS:
        change = pick.randrange(3)
        if change == 0 and a.ints:
            a.ints[pick.randrange(len(a.ints))] = pick.choice(EXTREMES)
        elif change == 1:
            a.ints.append(pick.choice(EXTREMES))
        else:
            del a.ints[pick.randrange(len(a.ints) + 1) :]
    elif a.type == onnx.AttributeProto.STRING:
        a.s = pick.choice((b"", b"\xff\xfe", b"NOTSET", a.s[:-1]))
    else:
        a.type = pick.choice((1, 2, 3, 6, 7, 14))


def _dims(pick: random.Random, model: Any, feed: Any) -> None:
    typed = [i.type.tensor_type for i in model.graph.input if i.type.HasField("tensor_type")]
    dims = [d for t in typed for d in t.shape.dim]
    if not dims:
        return
    d = pick.choice(dims)
    if pick.random() < 0.5:
        d.dim_param = pick.choice(("n", "n", "m", ""))
    else:
        d.dim_value = pick.choice(EXTREMES)


def _dtype(pick: random.Random, model: Any, feed: Any) -> None:
    typed = [i.type.tensor_type for i in model.graph.input if i.type.HasField("tensor_type")]
    if typed:
        pick.choice(typed).elem_type = pick.randrange(28)


def _name(pick: random.Random, model: Any, feed: Any) -> None:
    node = pick.choice(model.graph.node)
    side = node.input if pick.random() < 0.7 else node.output
    if len(side):
        side[pick.randrange(len(side))] = pick.choice(("", "nowhere", *node.input, *node.output))


def _constant(pick: random.Random, model: Any, feed: Any) -> None:
    """An input becomes a constant, perhaps of other contents."""
    arrays = [k for k, a in feed.items() if isinstance(a, np.ndarray) and a.dtype.kind in "iuf"]
    if not arrays:
        return
    key = pick.choice(arrays)
    a = _spoiled(pick, feed[key])
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ascontiguousarray(a, a.dtype.newbyteorder("=")), key)
    )
    keep = [i for i in model.graph.input if i.name != key]
    del model.graph.input[:]
    model.graph.input.extend(keep)
    del feed[key]


def _opset(pick: random.Random, model: Any, feed: Any) -> None:
    if model.opset_import:
        pick.choice(model.opset_import).version = pick.choice((1, 6, 9, 11, 13, 18, 21, 26, 2**40, -1))


def _node(pick: random.Random, model: Any, feed: Any) -> None:
    nodes = model.graph.node
    k = pick.randrange(len(nodes))
    if pick.random() < 0.5:
        nodes.append(nodes[k])
    elif len(nodes) > 1:
        del nodes[k]
    else:
        nodes[k].op_type = pick.choice(("Loop", "Reshape", "Gather", "Nothing", "Scan", "TopK", "Div"))


def _contents(pick: random.Random, model: Any, feed: Any) -> None:
    arrays = [k for k, a in feed.items() if isinstance(a, np.ndarray) and a.dtype.kind in "iuf"]
    if arrays:
        key = pick.choice(arrays)
        feed[key] = _spoiled(pick, feed[key])


def _spoiled(pick: random.Random, a: np.ndarray) -> np.ndarray:
    a = np.array(a)
    if a.size:
        at = pick.randrange(a.size)
        if a.dtype.kind == "f":
            a.reshape(-1)[at] = np.asarray(pick.choice(REALS)).astype(a.dtype)
        else:
            a.reshape(-1)[at] = np.asarray(pick.choice(EXTREMES)).astype(np.int64).astype(a.dtype)
    return a


def _shape(pick: random.Random, model: Any, feed: Any) -> None:
    arrays = [k for k, a in feed.items() if isinstance(a, np.ndarray) and a.size]
    if not arrays:
        return
    key = pick.choice(arrays)
    a = feed[key]
    change = pick.randrange(4)
    if change == 0:
        feed[key] = a[None]
    elif change == 1 and a.ndim:
        feed[key] = a[0]
    elif change == 2 and a.ndim:
        feed[key] = np.take(a, [], axis=pick.randrange(a.ndim))
    elif a.ndim and a.size < LARGEST_FEED:
        axis = pick.randrange(a.ndim)
        feed[key] = np.concatenate([a, a], axis)


def _layout(pick: random.Random, model: Any, feed: Any) -> None:
    arrays = [k for k, a in feed.items() if isinstance(a, np.ndarray) and a.dtype.kind in "iuf" and a.ndim]
    if not arrays:
        return
    key = pick.choice(arrays)
    a = feed[key]
    change = pick.randrange(5)
    if change == 0:
        feed[key] = a.astype(a.dtype.newbyteorder(">"))
    elif change == 1:  # at an odd address
        raw = np.zeros(a.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8)
        feed[key] = raw[1:].view(a.dtype).reshape(a.shape)
    elif change == 2:
        feed[key] = np.asfortranarray(a)
    elif change == 3:
        feed[key] = a[::-1]
    else:
        feed[key] = a.astype(pick.choice((np.float64, np.int8, np.bool_, np.complex64, object)))


FAULTS = (
    _attribute,
    _attribute,
    _dims,
    _dtype,
    _name,
    _constant,
    _constant,
    _opset,
    _node,
    _contents,
    _contents,
    _shape,
    _layout,
)


def outcome(seed: int, only: str = "") -> str:
    """Empty for a result or an AnyshapeError; else what came instead."""
    from anyshape import onnx_backend

    name, model, feed = broken(seed, only)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            prepared = onnx_backend.prepare(model)
            prepared.run({k: a for k, a in feed.items() if k in prepared.executable.input_names})
    except AnyshapeError:
        return ""
    except BaseException as e:
        return f"{name}: {type(e).__name__}: {e}"
    return ""


def run(seeds: Sequence[int], only: str = "") -> Iterator[tuple[int, str]]:
    names()
    return run_isolated(seeds, lambda seed: outcome(seed, only), lambda seed: broken(seed, only)[0])


if __name__ == "__main__":
    raise SystemExit(run_from_command_line("hostile_cases", __doc__, run, only="cases whose name contains this"))
