"""Random calls of ATen operators whose arguments depend on each other: FORMS has a function for each, which draws one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tests.pytorch.aten_draws import Call, Draw, dtype, full_shape, index, like, number, shape, tensor


def _view(r: Draw) -> Call:
    dims = shape(r, 1)
    rest = math.prod(dims)
    if rest == 0:
        return (tensor(r, dims), [0, *dims[1:], 1] if dims[0] == 0 else dims), {}
    parts = []
    while rest > 1 and len(parts) < 4:
        p = r.choice([d for d in range(1, rest + 1) if rest % d == 0])
        parts.append(p)
        rest //= p
    parts.append(rest)
    if r.random() < 0.4:
        parts[r.randrange(len(parts))] = -1
    return (tensor(r, dims), parts), {}


def _expand(r: Draw) -> Call:
    dims = [r.choice([1, 1, 2, 3]) for _ in range(r.randint(0, 3))]
    to = [
        *[r.randint(1, 3) for _ in range(r.randint(0, 2))],
        *[r.randint(1, 4) if n == 1 else r.choice([n, -1]) for n in dims],
    ]
    return (tensor(r, dims), to), {}


def _pad(count: int, least: int) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        dims = full_shape(r, max(count, 1), 4) if not least else [r.randint(1, 3) for _ in range(r.randint(0, 1))]
        dims = [*dims, *[r.randint(3, 5) for _ in range(count)]] if least else dims
        if least:
            dims = [r.randint(1, 2)] * (count + r.choice([1, 2]) - count) + [r.randint(3, 5) for _ in range(count)]
        pads = [r.randint(0, 2) for _ in range(2 * (count if least else r.randint(1, len(dims))))]
        return (tensor(r, dims), pads), {}

    return draw


def _constant_pad(r: Draw) -> Call:
    dims = full_shape(r, 1, 4)
    pads = [r.randint(-1, 2) for _ in range(2 * r.randint(1, len(dims)))]
    return (tensor(r, dims, dtype(r)), pads, r.choice([0, 1, 2.5])), {}


def _cat(r: Draw) -> Call:
    dims = full_shape(r, 1, 4)
    axis = r.randrange(len(dims))
    parts = [
        tensor(r, [*dims[:axis], r.randint(0, 4), *dims[axis + 1 :]], r.choice([torch.float32, torch.int64]))
        for _ in range(r.randint(1, 4))
    ]
    if r.random() < 0.2:
        parts.insert(0, torch.zeros(0))
    return (parts, r.choice([axis, axis - len(dims)])), {}


def _split(r: Draw) -> Call:
    dims = full_shape(r, 1, 3)
    axis = r.randrange(len(dims))
    sizes = [r.randint(0, 3) for _ in range(r.randint(1, 4))]
    dims[axis] = sum(sizes)
    return (tensor(r, dims), sizes, axis), {}


def _gathered(r: Draw) -> tuple[torch.Tensor, int, torch.Tensor]:
    dims = full_shape(r, 1, 3)
    axis = r.randrange(len(dims))
    size = [r.randint(1, n) if k != axis else r.randint(0, 4) for k, n in enumerate(dims)]
    return tensor(r, dims), axis, index(r, size, dims[axis])


def _gather(r: Draw) -> Call:
    x, axis, at = _gathered(r)
    return (x, axis, at), {}


def _scatter(value: bool, *more: Any, unique: bool = True) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        x, axis, at = _gathered(r)
        if unique and at.numel():  # what several updates of one element leave, torch does not say
            size = list(at.shape)
            size[axis] = min(size[axis], x.shape[axis])
            order = torch.argsort(tensor(r, [*size[:axis], x.shape[axis], *size[axis + 1 :]]), dim=axis)
            at = order.narrow(axis, 0, size[axis])
        src = [n + r.randint(0, 1) for n in at.shape]
        chosen = [r.choice(m) if isinstance(m, list) else m for m in more]
        return (x, axis, at, number(r) if value else tensor(r, src), *chosen), {}

    return draw


def _index(r: Draw) -> Call:
    dims = full_shape(r, 1, 4)
    x = tensor(r, dims, r.choice([torch.float32, torch.int64]))
    if r.random() < 0.25:
        count = r.randint(1, len(dims))
        return (x, [tensor(r, dims[:count], torch.bool)]), {}
    common = full_shape(r, 0, 2)
    at: list[Any] = [
        None if r.random() < 0.35 else index(r, like(r, common), n) - (n if r.random() < 0.3 else 0)
        for n in dims[: r.randint(1, len(dims))]
    ]
    return (x, at), {}


def _index_put(r: Draw) -> Call:
    (x, at), _ = _index(r)
    accumulate = r.random() < 0.5
    if not accumulate:  # one update for each element, else torch does not say which one stays
        at = [None if v is None else v.reshape(-1)[:1] if v.dtype is torch.int64 else v for v in at]
    target = x[tuple(slice(None) if v is None else v for v in at)]
    return (x, at, tensor(r, like(r, list(target.shape)), x.dtype), accumulate), {}


def _conv(r: Draw) -> Call:
    d, groups, transposed = r.choice([1, 2, 3]), r.choice([1, 1, 2]), r.random() < 0.35
    inside, outside = groups * r.randint(1, 3), groups * r.randint(1, 3)
    x = tensor(r, [r.randint(1, 2), inside, *[r.randint(5, 8) for _ in range(d)]])
    kernel = [r.randint(1, 3) for _ in range(d)]
    w = tensor(r, [inside, outside // groups, *kernel] if transposed else [outside, inside // groups, *kernel])
    stride = [r.randint(1, 3) for _ in range(d)]
    more = [r.randint(0, s - 1) if transposed else 0 for s in stride]
    bias = tensor(r, [outside]) if r.random() < 0.5 else None
    return (
        x,
        w,
        bias,
        stride,
        [r.randint(0, 2) for _ in range(d)],
        [r.randint(1, 2) for _ in range(d)],
        transposed,
        more,
        groups,
    ), {}


def _pool(d: int, average: bool) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        x = tensor(r, [*full_shape(r, 1, 2), *[r.randint(5, 8) for _ in range(d)]])
        kernel = [r.randint(2, 3) for _ in range(d)]
        stride = r.choice([[], [r.randint(1, 3) for _ in range(d)]])
        padding = [r.randint(0, 1) for _ in range(d)]
        ceil = r.random() < 0.3
        more = (ceil, r.random() < 0.5) if average else ([r.randint(1, 2) for _ in range(d)], ceil)
        return (x, kernel, stride, padding, *more), {}

    return draw


def _mm(r: Draw) -> Call:
    n, k, m = (r.randint(0, 5) if r.random() < 0.2 else r.randint(1, 6) for _ in range(3))
    return (tensor(r, [n, k]), tensor(r, [k, m])), {}


def _bmm(r: Draw) -> Call:
    b, n, k, m = (r.randint(1, 5) for _ in range(4))
    return (tensor(r, [b, n, k]), tensor(r, [b, k, m])), {}


def _addmm(r: Draw) -> Call:
    (a, b), _ = _mm(r)
    return (tensor(r, like(r, [a.shape[0], b.shape[1]])), a, b), {
        "alpha": r.choice([1, 2, 0.5]),
        "beta": r.choice([1, 0.5]),
    }


def _matmul(r: Draw) -> Call:
    k = r.randint(1, 4)
    lead = full_shape(r, 0, 2)
    a = tensor(r, [*like(r, lead), *[r.randint(1, 4)][: r.randint(0, 1)], k])
    b = tensor(r, r.choice([[k], [*like(r, lead), k, r.randint(1, 4)]]))
    return (a, b), {}


def _linear(r: Draw) -> Call:
    i, o = r.randint(1, 6), r.randint(1, 6)
    bias = tensor(r, [o]) if r.random() < 0.6 else None
    return (tensor(r, [*shape(r, 0, 3), i]), tensor(r, [o, i]), bias), {}


def _norm(r: Draw) -> Call:
    dims = full_shape(r, 1, 4)
    inner = dims[r.randrange(len(dims)) :]
    w, b = (tensor(r, inner) if r.random() < 0.7 else None for _ in range(2))
    return (tensor(r, dims), inner, w, b, r.choice([1e-5, 1e-3])), {}


def _rms(r: Draw) -> Call:
    (x, inner, w, _, eps), _ = _norm(r)
    return (x, inner, w, eps), {}


def _group_norm(r: Draw) -> Call:
    groups = r.randint(1, 3)
    c, n = groups * r.randint(1, 3), r.randint(1, 3)
    dims = full_shape(r, 0, 2)
    w, b = (tensor(r, [c]) if r.random() < 0.7 else None for _ in range(2))
    return (tensor(r, [n, c, *dims]), w, b, n, c, math.prod(dims), groups, 1e-5), {}


def _batch_norm(training: bool | None, stats: bool) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        c = r.randint(1, 4)
        x = tensor(r, [r.randint(2, 3), c, *full_shape(r, 0, 2)])
        w, b = (tensor(r, [c]) if r.random() < 0.7 else None for _ in range(2))
        known = (tensor(r, [c]), tensor(r, [c]).abs() + 0.1) if stats else ()
        return (x, w, b, *known, *([] if training is None else [training]), 0.1, 1e-5), {}

    return draw


def _embedding(r: Draw) -> Call:
    n = r.randint(1, 7)
    return (tensor(r, [n, r.randint(1, 4)]), index(r, shape(r, 0, 3), n)), {}


def _index_select(r: Draw) -> Call:
    dims = full_shape(r, 1, 4)
    axis = r.randrange(len(dims))
    return (tensor(r, dims, dtype(r)), r.choice([axis, axis - len(dims)]), index(r, [r.randint(0, 5)], dims[axis])), {}


def _upsample(mode: str) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        x = tensor(r, [r.randint(1, 2), r.randint(1, 3), r.randint(2, 5), r.randint(2, 5)])
        corners = [] if mode == "nearest" else [r.random() < 0.5]
        if r.random() < 0.5:
            return (x, [r.randint(1, 9), r.randint(1, 9)], *corners, None), {}
        return (x, None, *corners, [r.choice([0.5, 2.0, 3.0, 1.5]), r.choice([2.0, 1.0, 2.5])]), {}

    return draw


def _grid(r: Draw) -> Call:
    n = r.randint(1, 2)
    x = tensor(r, [n, r.randint(1, 3), r.randint(2, 5), r.randint(2, 5)])
    g = torch.Generator().manual_seed(r.getrandbits(32))
    grid = torch.rand([n, r.randint(1, 4), r.randint(1, 4), 2], generator=g) * 2.6 - 1.3
    return (x, grid, r.choice([0, 1, 2]), r.choice([0, 1, 2]), r.random() < 0.5), {}


def _col2im(r: Draw) -> Call:
    size, kernel = [r.randint(3, 6), r.randint(3, 6)], [r.randint(1, 3), r.randint(1, 3)]
    dilation, padding, stride = ([r.randint(low, low + 1) for _ in range(2)] for low in (1, 0, 1))
    many = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(size, padding, dilation, kernel, stride)]
    x = tensor(r, [r.randint(1, 2), r.randint(1, 2) * math.prod(kernel), math.prod(many)])
    return (x, size, kernel, dilation, padding, stride), {}


def _sdpa(r: Draw) -> Call:
    b, h, s, t, e, f = (r.randint(1, 4) for _ in range(6))
    lead = r.choice([[b, h], [b]])
    mask, causal = r.choice([(None, False), (None, True), ("bool", False), ("float", False)])
    masked = None if mask is None else tensor(r, r.choice([[s, t], [*lead, s, t]]))
    if mask == "bool":
        assert masked is not None
        masked = masked > -2.0  # a query that sees no key has no answer
        masked[..., 0] = True
    qkv = tensor(r, [*lead, s, e]), tensor(r, [*lead, t, e]), tensor(r, [*lead, t, f])
    return (*qkv, masked, 0.0, causal), {"scale": r.choice([None, 0.3])}


def _recurrent(gates: int, states: int) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        layers, both, biased, first = r.randint(1, 2), r.random() < 0.5, r.random() < 0.7, r.random() < 0.5
        i, h, t, b = (r.randint(1, 4) for _ in range(4))
        d = 2 if both else 1
        weights = []
        for layer in range(layers):
            for _ in range(d):
                weights += [tensor(r, [gates * h, i if layer == 0 else d * h]) / 2, tensor(r, [gates * h, h]) / 2]
                weights += [tensor(r, [gates * h]), tensor(r, [gates * h])] if biased else []
        hx = [tensor(r, [layers * d, b, h]) for _ in range(states)]
        x = tensor(r, [b, t, i] if first else [t, b, i])
        return (x, hx if states == 2 else hx[0], weights, biased, layers, 0.0, False, both, first), {}

    return draw


def _put_along(sliced: bool) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        dims = full_shape(r, 1, 3)
        axis = r.randrange(len(dims))
        if not sliced:
            return (
                tensor(r, dims),
                tensor(r, [*dims[:axis], *dims[axis + 1 :]]),
                axis,
                r.randint(-dims[axis], dims[axis] - 1),
            ), {}
        start, end, step = r.choice([None, 0, 1, -2]), r.choice([None, 3, -1, 2]), r.randint(1, 2)
        part = len(range(*slice(start, end, step).indices(dims[axis])))
        return (tensor(r, dims), tensor(r, [*dims[:axis], part, *dims[axis + 1 :]]), axis, start, end, step), {}

    return draw


def _masked_scatter(r: Draw) -> Call:
    dims = full_shape(r, 1, 3)
    return (tensor(r, dims), tensor(r, like(r, dims), torch.bool), tensor(r, [math.prod(dims)])), {}


def _slice(r: Draw) -> Call:
    dims = shape(r, 1, 3)
    return (
        tensor(r, dims),
        r.randrange(len(dims)),
        r.choice([None, 0, 1, -2, 9]),
        r.choice([None, 2, -1, 9]),
        r.randint(1, 3),
    ), {}


def _arange(r: Draw) -> Call:
    whole = r.random() < 0.6
    start, count, step = r.randint(-3, 3), r.randint(0, 9), r.choice([1, 2, 3])
    ends = (start, start + count * step, step) if whole else (start + 0.5, start + 0.5 + count * 0.25, 0.25)
    return ends, {
        "dtype": r.choice([None, torch.float32, torch.float64] + ([torch.int64, torch.int32] if whole else []))
    }


def _adaptive(d: int) -> Callable[[Draw], Call]:
    def draw(r: Draw) -> Call:
        x = tensor(r, [*full_shape(r, 1, 2), *[r.randint(2, 7) for _ in range(d)]])
        return (x, r.choice([[1] * d, [r.randint(1, 5) for _ in range(d)]])), {}

    return draw


def _topk(r: Draw) -> Call:
    dims = full_shape(r, 1, 3)
    axis = r.randrange(len(dims))
    return (torch.randperm(math.prod(dims)).reshape(dims).float(), r.randint(0, dims[axis]), axis, r.random() < 0.5), {}


def _sort(r: Draw) -> Call:
    dims = full_shape(r, 1, 3)
    return (
        torch.randperm(math.prod(dims)).reshape(dims).float(),
        r.randrange(-len(dims), len(dims)),
        r.random() < 0.5,
    ), {}


def _full(r: Draw) -> Call:
    return (shape(r), number(r)), {"dtype": r.choice([None, torch.float32, torch.float64, torch.int64])}


def _repeat(r: Draw) -> Call:
    dims = full_shape(r, 0, 3)
    return (tensor(r, dims), [r.randint(0, 3) for _ in range(len(dims) + r.randint(0, 2))]), {}


def _permute(r: Draw) -> Call:
    dims = shape(r)
    return (tensor(r, dims, dtype(r)), r.sample(range(-len(dims), 0), len(dims))), {}


def _to_copy(r: Draw) -> Call:
    return (tensor(r, shape(r), dtype(r)),), {
        "dtype": r.choice([None, torch.float32, torch.float64, torch.int32, torch.bool])
    }


def _along(r: Draw) -> Call:
    dims = shape(r, 1)
    return (tensor(r, dims, r.choice([torch.float32, torch.float64])), r.randrange(-len(dims), len(dims)), False), {}


def _stack(r: Draw) -> Call:
    dims = shape(r, 0, 3)
    return ([tensor(r, dims) for _ in range(r.randint(1, 3))], r.randint(-len(dims) - 1, len(dims))), {}


def _cdist(r: Draw) -> Call:
    k, lead = r.randint(1, 4), full_shape(r, 0, 1)
    return (
        tensor(r, [*lead, r.randint(1, 4), k]),
        tensor(r, [*lead, r.randint(1, 4), k]),
        r.choice([1.0, 2.0, 3.0]),
        None,
    ), {}


def _integers(r: Draw) -> Call:
    dims, t = shape(r), r.choice([torch.int64, torch.int32, torch.bool, torch.uint8])
    return (tensor(r, dims, t), tensor(r, like(r, dims), t)), {}


def _integer_and_number(r: Draw) -> Call:
    t = r.choice([torch.int64, torch.bool])
    return (tensor(r, shape(r), t), r.choice([True, False]) if t is torch.bool else r.randint(-4, 5)), {}


def _empty(r: Draw) -> Call:
    return (shape(r),), {"dtype": r.choice([None, torch.float64, torch.int64])}


def _flash(r: Draw) -> Call:
    while True:
        (q, k, v, mask, drop, causal), kwargs = _sdpa(r)
        if q.dim() == 4 and k.shape[-1] == v.shape[-1]:
            return (q, k, v, drop, causal), {
                "attn_mask": None if mask is None or mask.dtype is torch.bool else mask,
                **kwargs,
            }


FORMS: dict[str, Callable[[Draw], Call]] = {
    "softmax.int": lambda r: (_along(r)[0][:2], {}),
    "view": _view, "reshape": _view, "_unsafe_view": _view, "expand": _expand, "constant_pad_nd": _constant_pad,
    **{f"{kind}_pad{d}d": _pad(d, 1) for kind in ("reflection", "replication") for d in (1, 2, 3)},
    "cat": _cat, "stack": _stack, "split_with_sizes": _split, "gather": _gather, "scatter.src": _scatter(False),
    "scatter.value": _scatter(True), "scatter_add": _scatter(False, unique=False),
    "scatter_reduce.two": _scatter(False, ["sum", "prod", "amax", "amin"], unique=False),
    "index.Tensor": _index, "index_put": _index_put, "convolution": _conv, "adaptive_avg_pool1d": _adaptive(1),
    **{f"avg_pool{d}d": _pool(d, True) for d in (1, 2, 3)},
    "max_pool2d_with_indices": _pool(2, False), "max_pool3d_with_indices": _pool(3, False), "mm": _mm, "bmm": _bmm, "addmm": _addmm,
    "matmul": _matmul, "linear": _linear, "native_layer_norm": _norm, "layer_norm": _norm, "rms_norm": _rms,
    "native_group_norm": _group_norm,
    "_native_batch_norm_legit_no_training": _batch_norm(None, True), "_native_batch_norm_legit": _batch_norm(False, True),
    "_native_batch_norm_legit.no_stats": _batch_norm(True, False), "embedding": _embedding, "index_select": _index_select,
    "upsample_nearest2d.vec": _upsample("nearest"), "upsample_bilinear2d.vec": _upsample("bilinear"),
    "upsample_bicubic2d.vec": _upsample("bicubic"), "grid_sampler_2d": _grid, "col2im": _col2im, "scaled_dot_product_attention": _sdpa,
    "_scaled_dot_product_flash_attention_for_cpu": _flash,
    "lstm.input": _recurrent(4, 2), "gru.input": _recurrent(3, 1), "rnn_tanh.input": _recurrent(1, 1), "rnn_relu.input": _recurrent(1, 1),
    "slice_scatter": _put_along(True), "select_scatter": _put_along(False), "masked_scatter": _masked_scatter, "slice.Tensor": _slice,
    "arange.start_step": _arange, "_adaptive_avg_pool2d": _adaptive(2), "_adaptive_avg_pool3d": _adaptive(3), "topk": _topk, "sort": _sort,
    "sort.stable": lambda r: (_sort(r)[0][:1], dict(zip(("dim", "descending"), _sort(r)[0][1:]), stable=True)), "full": _full,
    "repeat": _repeat,
    **dict.fromkeys(("_softmax", "_log_softmax"), _along),
    "prims::convert_element_type": lambda r: ((tensor(r, shape(r), dtype(r)), dtype(r)), {}),
    "permute": _permute, "empty.memory_format": _empty, "empty_strided": lambda r: (((2, 3), (3, 1)), {}), "_to_copy": _to_copy,
    "_cdist_forward": _cdist, "native_dropout": lambda r: ((tensor(r, shape(r)), 0.5, False), {}),
    **{f"bitwise_{op}.Tensor": _integers for op in ("and", "or", "xor")},
    **{f"bitwise_{op}.Scalar": _integer_and_number for op in ("and", "or", "xor")},
    "_local_scalar_dense": lambda r: ((tensor(r, [], torch.int64),), {}), "item": lambda r: ((tensor(r, [], torch.int64),), {}),
    "scalar_tensor": lambda r: ((number(r),), {"dtype": r.choice([None, torch.float64, torch.int64])}),
}  # fmt: skip
