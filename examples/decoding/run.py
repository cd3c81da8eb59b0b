"""A decoder whose whole loop is one compiled program: any prompt, a cache that grows by a row a turn, and an end that only data decide.

One layer of causal attention with seeded weights, greedy: it does not say anything sensible, but it has every shape that decoding has.
Run it with `python examples/decoding/run.py`, if you like with the lengths of prompts: `python examples/decoding/run.py 1 7 200`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import anyshape
from anyshape import control, ops

WORDS, WIDE, END, MOST = 96, 64, 0, 200
RNG = np.random.default_rng(1)


def weights(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return (RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


EMBED, QKV, OUT = weights(WORDS, WIDE) * 4, weights(WIDE, 3 * WIDE), weights(WIDE, WORDS) * 3


def rows(tokens: Any) -> tuple[Any, Any, Any]:
    """Queries, keys and values of tokens [n]: three of f32[n, 64]."""
    q, k, v = ops.split(ops.matmul(ops.gather(EMBED, tokens), QKV), axis=-1, parts=3)
    return q, k, v


def next_token(q: Any, keys: Any, values: Any) -> Any:
    """Computes the next token of the last row of q [m, 64], which sees all rows of the cache [n, 64]: an i64[]."""
    last = ops.slice(q, [-1], [2**63 - 1], axes=[0])
    scores = ops.mul(ops.matmul(last, ops.transpose(keys, (1, 0))), np.float32(1 / np.sqrt(WIDE)))
    seen = ops.matmul(ops.softmax(scores, axis=-1), values)
    return ops.squeeze(ops.argmax(ops.matmul(seen, OUT), axis=-1), axes=(0,))


def decoder() -> anyshape.Function:
    prompt = anyshape.input("prompt", "i64[n]")
    q, k, v = rows(prompt)
    first = next_token(q, k, v)

    def iteration(_: Any, token: Any, keys: Any, values: Any) -> list[Any]:
        q, k, v = rows(ops.reshape(token, (1,)))
        keys, values = ops.concat([keys, k], axis=0), ops.concat([values, v], axis=0)
        after = next_token(q, keys, values)
        return [ops.greater(after, END), after, keys, values, token]

    going = ops.greater(first, END)
    _, keys, _, said = control.loop(
        MOST, iteration, [first, k, v], going, collects=1, names=("token", "keys", "values")
    )
    return anyshape.function([prompt], {"said": said, "rows": ops.shape_of(keys)})


if __name__ == "__main__":
    f = decoder()
    print(f)
    model = anyshape.compile(f)
    print(model.report)
    for length in map(int, sys.argv[1:] or ("1", "5", "40")):
        prompt = np.random.default_rng(length).integers(1, WORDS, length)
        model(prompt)
        start = time.perf_counter()
        said, (cached, _) = model(prompt)
        took = time.perf_counter() - start
        print(
            f"prompt of {length}: {len(said)} tokens, {cached} rows cached, {took / max(len(said), 1) * 1e6:.0f} us a token: {said[:12]}"
        )
