"""Calls of ATen operators through their mappings, compiled."""

from __future__ import annotations

from typing import Any

import torch

import anyshape
from anyshape.dims import fresh
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch, tensor_of
from anyshape.frontends.torch.importer import GraphImport
from anyshape.graph.value import Value
from anyshape.types import TensorType
from tests.pytorch.aten_calls import overload
from tests.pytorch.aten_draws import Call


def ours(name: str, call: Call, answer: Any) -> list[Any]:
    """Makes the call through our mapping, compiled for dims that are open where they are not 1."""
    graph = torch.fx.Graph()
    leaves: list[torch.Tensor] = []
    of = GraphImport(name)
    params: list[Value] = []

    def placed(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            node = graph.placeholder(f"x{len(leaves)}")
            dims = [n if n == 1 or x.shape == (0,) else fresh(f"n{k}_") for k, n in enumerate(x.shape)]
            params.append(anyshape.input(node.name, TensorType(dtype_of_torch(x.dtype), tuple(dims))))
            of.values[node] = params[-1]
            leaves.append(x)
            return node
        return [placed(v) for v in x] if isinstance(x, (list, tuple)) else x

    arguments, keywords = tuple(placed(a) for a in call[0]), {k: placed(v) for k, v in call[1].items()}
    node = graph.call_function(overload(name), arguments, keywords)
    node.meta["val"] = answer
    of.run([node])
    of.refusals.finish()
    values = of.values[node]
    results = list(values)[: ONLY.get(name)] if isinstance(values, tuple) else [values]
    executable = anyshape.compile(anyshape.function(params, results), threads=1)
    return [tensor_of(a) for a in executable.run({p.name: array_of(x) for p, x in zip(params, leaves)})]


ONLY = {
    "native_group_norm": 1, "_native_batch_norm_legit_no_training": 1, "_native_batch_norm_legit": 1,
    "_native_batch_norm_legit.no_stats": 1,
    "native_dropout": 1, "_scaled_dot_product_flash_attention_for_cpu": 1,
}  # fmt: skip
"""Operators of whose results a mapping computes only the first"""
