"""What attention takes for one query, by what keys and values are in memory.

    python -m benchmarks.caches [--threads 1] [--rounds 40]

Comes in: nothing; queries, keys and values are drawn. Goes out: two tables of the least and the median time of a call in us, in turns. The
first is of ONNX's Attention: with keys and values of f32, multiplied exactly and rounded to bf16 (`precision="bf16"`), of bf16 that is
widened by Cast, of bf16 as queries and results are too, and of bytes with constant scales, one or one for each element, by
DequantizeLinear. The second is of com.microsoft's
GroupQueryAttention, whose cache has room for one more token and is passed as the result too, so that it is not copied: of f32, of 8 bits
and of 4, with one scale or one for each element of each head. Last is what onnxruntime takes for the first column. The code of another
checkout is measured with its `runtime` and `generated` first in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anyshape
from anyshape.precision import Precision


class Heads(NamedTuple):
    """Heads of queries, heads of keys, elements of each."""

    queries: int
    keys: int
    width: int


SHAPES = (Heads(32, 8, 128), Heads(64, 8, 128), Heads(12, 12, 64))
TOKENS = (100, 1000, 4000)
RNG = np.random.default_rng(0)


class Stored(NamedTuple):
    """What keys and values are, what becomes of them before they are read, and what queries and results are."""

    dtype: int
    before: tuple[str, ...] = ()
    queries: int = TensorProto.FLOAT
    precision: Precision = "exact"


ATTENTION = {
    "f32": Stored(TensorProto.FLOAT),
    "f32, as bf16": Stored(TensorProto.FLOAT, precision="bf16"),
    "bf16": Stored(TensorProto.BFLOAT16, ("Cast",)),
    "all bf16": Stored(TensorProto.BFLOAT16, queries=TensorProto.BFLOAT16),
    "i8, one scale": Stored(TensorProto.INT8, ("DequantizeLinear",)),
    "i8, scales of elements": Stored(TensorProto.INT8, ("DequantizeLinear", "each")),
}
GROUPED: dict[str, tuple[int, str]] = {
    "f32": (32, "NONE"),
    "i8, one scale": (8, "PER_TENSOR"),
    "i8, scales of elements": (8, "PER_CHANNEL"),
    "i4, one scale": (4, "PER_TENSOR"),
    "i4, scales of elements": (4, "PER_CHANNEL"),
}
"""Bits of an element of the cache, and of what there are scales."""
Arguments = dict[str, NDArray[Any]]
Call = Callable[[], Any]


def attention(heads: Heads, stored: Stored) -> ModelProto:
    before = stored.before
    lies = {
        "q": (stored.queries, heads.queries, "s"),
        "k": (stored.dtype, heads.keys, "t"),
        "v": (stored.dtype, heads.keys, "t"),
    }
    inputs = [
        helper.make_tensor_value_info(n, dtype, ["b", h, tokens, heads.width]) for n, (dtype, h, tokens) in lies.items()
    ]
    scale = RNG.uniform(0.01, 0.03, heads.width if "each" in before else ()).astype(np.float32)
    constants = [numpy_helper.from_array(scale, "scale")] if "DequantizeLinear" in before else []
    nodes = []
    for name in "kv" if before else "":
        if before[0] == "Cast":
            nodes.append(helper.make_node("Cast", [name], [f"{name}0"], to=TensorProto.FLOAT))
        else:
            nodes.append(helper.make_node(before[0], [name, "scale"], [f"{name}0"], axis=3))
    names = ["q", "k0", "v0"] if before else ["q", "k", "v"]
    nodes.append(helper.make_node("Attention", names, ["y"]))
    results = [helper.make_tensor_value_info("y", stored.queries, None)]
    graph = helper.make_graph(nodes, "step", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def arguments(heads: Heads, stored: Stored, tokens: int) -> Arguments:
    dtype, of_queries = (helper.tensor_dtype_to_np_dtype(t) for t in (stored.dtype, stored.queries))

    def drawn(*of: int) -> Any:
        return RNG.normal(size=of) * (40 if dtype.kind == "i" else 1)

    return {
        "q": RNG.normal(size=(1, heads.queries, 1, heads.width)).astype(of_queries),
        "k": np.clip(drawn(1, heads.keys, tokens, heads.width), -127, 127).astype(dtype),
        "v": np.clip(drawn(1, heads.keys, tokens, heads.width), -127, 127).astype(dtype),
    }


def grouped(heads: Heads, bits: int, kind: str) -> ModelProto:
    stored = {32: TensorProto.FLOAT, 8: TensorProto.INT8, 4: TensorProto.UINT8}[bits]
    width = heads.width // 2 if bits == 4 else heads.width
    value = helper.make_tensor_value_info
    inputs = [
        *(
            value(n, TensorProto.FLOAT, ["b", "s", h * heads.width])
            for n, h in zip("qkv", (heads.queries, *[heads.keys] * 2))
        ),
        *(value(n, stored, ["b", heads.keys, "t", width]) for n in ("past_k", "past_v")),
        value("last", TensorProto.INT32, ["b"]),
        value("total", TensorProto.INT32, []),
    ]
    scale = RNG.uniform(0.01, 0.03, (1, heads.keys, 1, heads.width) if kind == "PER_CHANNEL" else 1).astype(np.float32)
    constants = [] if bits == 32 else [numpy_helper.from_array(scale, f"{n}_scale") for n in "kv"]
    attributes: dict[str, Any] = {"num_heads": heads.queries, "kv_num_heads": heads.keys}
    names = [i.name for i in inputs]
    if bits < 32:
        attributes |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
        names += [""] * 5 + ["k_scale", "v_scale"]
    node = helper.make_node("GroupQueryAttention", names, ["y", "keys", "values"], domain="com.microsoft", **attributes)
    results = [value("y", TensorProto.FLOAT, None), *(value(n, stored, None) for n in ("keys", "values"))]
    graph = helper.make_graph([node], "step", inputs, results, constants)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def grouped_arguments(heads: Heads, bits: int, tokens: int) -> Arguments:
    def cache() -> NDArray[Any]:
        shape = (1, heads.keys, tokens, heads.width)
        if bits == 32:
            return RNG.normal(size=shape).astype(np.float32)
        if bits == 8:
            return RNG.integers(-127, 127, shape).astype(np.int8)
        return RNG.integers(0, 256, (*shape[:3], heads.width // 2)).astype(np.uint8)

    new = {
        n: RNG.normal(size=(1, 1, h * heads.width)).astype(np.float32)
        for n, h in zip("qkv", (heads.queries, *[heads.keys] * 2))
    }
    sizes = {"last": np.array([tokens - 1], np.int32), "total": np.array(tokens, np.int32)}
    return {**new, "past_k": cache(), "past_v": cache(), **sizes}


def in_place(feeds: Arguments) -> Arguments:
    """The results that are written over the cache."""
    return {"keys": feeds["past_k"], "values": feeds["past_v"]}


def bound(session: onnxruntime.InferenceSession, feeds: Arguments) -> Call:
    """A call of onnxruntime in which past and present are one memory."""
    binding = session.io_binding()
    values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a) for n, a in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    for result, past in (("keys", "past_k"), ("values", "past_v")):
        binding.bind_ortvalue_output(result, values[past])
    return partial(session.run_with_iobinding, binding)


def timed(calls: Sequence[Call], rounds: int) -> list[str]:
    """The least and the median microseconds of each, in turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for own, call in zip(taken, calls):
            call()  # what the others left in the caches
            start = time.perf_counter()
            call()
            own.append((time.perf_counter() - start) * 1e6)
    return [f"{min(own):.0f}, {median(own):.0f}" for own in taken]


def session_of(proto: ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def of_attention(heads: Heads, threads: int) -> Callable[[int], list[Call]]:
    """The calls of the first table, of so many tokens."""
    ours = {
        name: anyshape.compile(attention(heads, stored), precision=stored.precision, threads=threads)
        for name, stored in ATTENTION.items()
    }
    theirs = session_of(attention(heads, ATTENTION["f32"]), threads)

    def calls(tokens: int) -> list[Call]:
        own = [partial(exe.run, arguments(heads, ATTENTION[name], tokens)) for name, exe in ours.items()]
        return [*own, partial(theirs.run, None, arguments(heads, ATTENTION["f32"], tokens))]

    return calls


def of_grouped(heads: Heads, threads: int) -> Callable[[int], list[Call]]:
    """The calls of the second table, of so many tokens."""
    ours = {name: anyshape.compile(grouped(heads, *form), threads=threads) for name, form in GROUPED.items()}
    theirs = session_of(grouped(heads, *GROUPED["f32"]), threads)

    def calls(tokens: int) -> list[Call]:
        own: list[Call] = []
        for name, exe in ours.items():
            feeds = grouped_arguments(heads, GROUPED[name][0], tokens)
            own.append(partial(exe.run, feeds, in_place(feeds)))
        return [*own, bound(theirs, grouped_arguments(heads, 32, tokens))]

    return calls


def main() -> None:
    parser = argparse.ArgumentParser("caches", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of both")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of turns")
    parser.add_argument("--table", choices=("attention", "grouped"), help="one of the tables alone")
    options = parser.parse_args()
    tables = {"attention": (list(ATTENTION), of_attention), "grouped": (list(GROUPED), of_grouped)}
    for names, of in [tables[options.table]] if options.table else tables.values():
        print("| heads, of keys, elements | tokens | " + " | ".join([*names, "onnxruntime, f32"]) + " |")
        print("|---|---|" + "---|" * (len(names) + 1))
        for heads in SHAPES:
            calls = of(heads, options.threads)
            for tokens in TOKENS:
                cells = " | ".join(timed(calls(tokens), options.rounds))
                print(f"| {', '.join(map(str, heads))} | {tokens} | {cells} |", flush=True)
        print()


if __name__ == "__main__":
    main()
