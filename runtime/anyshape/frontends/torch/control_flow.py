"""Control flow of torch as ours: what operators mean that call graphs within their graph, as torch.cond does.

In: how such a graph is imported on some operands, the arguments of the operator, how many results it has. Out: the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshape import control
from anyshape.graph.value import Value

RunSubgraph = Callable[[Any, Sequence[Any]], list[Value]]
"""The results of a graph within the graph, on operands"""


def _cond(region: RunSubgraph, count: int, pred: Any, then: Any, otherwise: Any, operands: Sequence[Any] = ()) -> Any:
    return control.if_(pred, lambda: region(then, operands), lambda: region(otherwise, operands))


def _while_loop(
    region: RunSubgraph, count: int, again: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    def iteration(_: Any, *before: Value) -> list[Value]:
        after = region(body, [*before, *additional])
        return [*region(again, [*after, *additional]), *after]

    (first,) = region(again, [*carried, *additional])
    return control.loop(None, iteration, carried, cond=first)


def _scan(
    region: RunSubgraph,
    count: int,
    combine: Any,
    init: Sequence[Any],
    scanned: Sequence[Any],
    additional: Sequence[Any] = (),
) -> Any:
    return control.scan(
        lambda *operands: region(combine, [*operands, *additional]), init, scanned, collects=count - len(init)
    )


def _map(region: RunSubgraph, count: int, f: Any, scanned: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    return _scan(region, count, f, (), scanned, additional)


CONTROL_FLOW: dict[str, Callable[..., Sequence[Value]]] = {
    "torch.ops.higher_order.cond": _cond,
    "torch.ops.higher_order.while_loop": _while_loop,
    "torch.ops.higher_order.scan": _scan,
    "torch.ops.higher_order.map_impl": _map,
}
"""What operators mean, by name: functions of how graphs are imported, the number of results, and the arguments"""
