"""Layers of recurrent networks of torch as calls of one op for each, for mappings.

In: a node, and its tensors: x, then the initial states, each [layers * directions, batch, hidden], then, for each layer and direction, the
weights of inputs and of states, and their biases where there are any. Out: outputs of the last layer, and the states at the end of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape import ops
from anyshape.frontends.torch.node import AtenNode
from anyshape.graph.value import Value

Layer = Callable[[Value, Value, Value, Value | None, Sequence[Value], str], Sequence[Value]]
"""One layer over a time-major x: of x, weights of inputs and of states, bias, initial states and direction, the outputs and last states"""


def lstm_layers(n: AtenNode, tensors: Sequence[Value]) -> list[Value]:
    """Long short-term memory; torch has the gates input, forget, cell, output, and ours are input, output, forget, cell."""

    def layer(
        x: Value, w: Value, r: Value, bias: Value | None, states: Sequence[Value], direction: str
    ) -> Sequence[Value]:
        return ops.lstm(x, w, r, bias, None, states[0], states[1], direction=direction, source=n.source)

    return _layers(n, layer, tensors, 2, (0, 3, 1, 2))


def gru_layers(n: AtenNode, tensors: Sequence[Value]) -> list[Value]:
    """Gated recurrent units; torch has the gates reset, update, new, and ours are update, reset, new."""

    def layer(
        x: Value, w: Value, r: Value, bias: Value | None, states: Sequence[Value], direction: str
    ) -> Sequence[Value]:
        return ops.gru(x, w, r, bias, None, states[0], direction=direction, linear_before_reset=True, source=n.source)

    return _layers(n, layer, tensors, 1, (1, 0, 2))


def rnn_layers(n: AtenNode, tensors: Sequence[Value], activation: str) -> list[Value]:
    """Simple recurrent networks with one activation."""

    def layer(
        x: Value, w: Value, r: Value, bias: Value | None, states: Sequence[Value], direction: str
    ) -> Sequence[Value]:
        both = [activation] * (2 if direction == "bidirectional" else 1)
        return ops.rnn(x, w, r, bias, None, states[0], direction=direction, activations=both, source=n.source)

    return _layers(n, layer, tensors, 1, (0,))


def _layers(n: AtenNode, layer: Layer, tensors: Sequence[Value], states: int, gates: Sequence[int]) -> list[Value]:
    """Runs one layer after the other; `gates` says where each gate of ours is among those of torch."""
    if n.attr("train") and n.attr("dropout"):
        n.refuse("dropout between layers in training; call model.eval()")
    x, initial, weights = tensors[0], tensors[1 : 1 + states], tensors[1 + states :]
    biased, count = n.attr("has_biases"), n.attr("num_layers")
    directions = 2 if n.attr("bidirectional") else 1
    each = 4 if biased else 2
    if len(weights) != count * directions * each:
        n.refuse(
            f"{len(weights)} weights, and {count * directions * each} are of {count} layers: projections are not supported"
        )
    y = ops.transpose(x, axes=(1, 0, 2)) if n.attr("batch_first") else x
    ends: list[list[Value]] = [[] for _ in initial]
    for number in range(count):
        own = [weights[(number * directions + d) * each :][:each] for d in range(directions)]
        w, r = (ops.stack([_ordered(of[k], gates) for of in own], axis=0) for k in (0, 1))
        bias = None
        if biased:
            both = [ops.concat([_ordered(of[2], gates), _ordered(of[3], gates)], axis=0) for of in own]
            bias = ops.stack(both, axis=0)
        low, high = number * directions, (number + 1) * directions
        start = [ops.slice(s, starts=(low,), ends=(high,), axes=(0,)) for s in initial]
        y, *last = layer(y, w, r, bias, start, "bidirectional" if directions == 2 else "forward")
        for end, state in zip(ends, last, strict=True):
            end.append(state)
        hidden = r.shape[2]
        y = ops.reshape(ops.transpose(y, axes=(0, 2, 1, 3)), (0, 0, directions * hidden))
    return [
        ops.transpose(y, axes=(1, 0, 2)) if n.attr("batch_first") else y,
        *(ops.concat(end, axis=0) for end in ends),
    ]


def _ordered(weight: Value, gates: Sequence[int]) -> Value:
    """The gates, which are parts of the first axis, in another order."""
    if len(gates) == 1:
        return weight
    parts = ops.split(weight, axis=0, parts=len(gates), outputs=len(gates))
    return ops.concat([parts[k] for k in gates], axis=0)
