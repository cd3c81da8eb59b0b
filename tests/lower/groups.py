"""Small groups of equations for tests and benchmarks, written as a generated kernel builder writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import F32, DType
from anyshape.dtypes import parse_dtype as parse
from anyshape.equations import Equations, Expr, Tensor
from anyshape.equations.functions import erf, exp, fit, reduce_, sqrt
from anyshape.lower import Group

N, M, K, B = (dims.symbol(name) for name in ("n", "m", "k", "b"))
ROW_SIZES = [{N: n, M: m, K: 3, B: 2} for n, m in ((3, 77), (0, 4), (5, 0), (1, 1), (40, 300), (7, 16), (2, 1000))]


class Builder:
    """Collects ops' equations into one group; every op adds its own tensors."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.eqs = Equations(name, {}, {})

    def input(self, shape: Sequence[Size], dtype: str | DType = F32) -> Tensor:
        t = Tensor(f"x{len(self.inputs)}", parse(str(dtype)), tuple(shape))
        self.inputs.append(t)
        return t

    def tensor(self, shape: Sequence[Size], dtype: str | DType = F32) -> Tensor:
        return self.eqs.scratch(f"t{len(self.eqs.scratches)}", parse(str(dtype)), shape)

    def output(self, t: Tensor) -> Tensor:
        self.outputs.append(t)
        return t

    def group(self) -> Group:
        return Group(self.name, tuple(self.eqs.equations), tuple(self.inputs), outputs=tuple(self.outputs))

    # ops, as the specs write them

    def map(
        self, f: Callable[..., Expr], *xs: Tensor, shape: Sequence[Size] | None = None, dtype: str | None = None
    ) -> Tensor:
        """An elementwise op with implicit broadcasting."""
        full: list[Size] = []
        for x in xs:
            s = list(x.shape)
            s = [1] * (len(full) - len(s)) + s
            full = [1] * (len(s) - len(full)) + full
            full = [dims.bcast(p, q) for p, q in zip(full, s, strict=True)]
        y = self.tensor(shape if shape is not None else full, dtype or xs[0].dtype)
        i = self.eqs.indices("i", y.shape)
        self.eqs.define(y[i], f(*(x[fit(i, x.shape)] for x in xs)))
        return y

    def reduce(self, kind: str, x: Tensor, axes: Sequence[int], keepdims: bool = False) -> Tensor:
        rank = len(x.shape)
        axes = [a % rank for a in axes]
        kept = (
            [1 if a in axes else n for a, n in enumerate(x.shape)]
            if keepdims
            else [n for a, n in enumerate(x.shape) if a not in axes]
        )
        kinds = {"any": "bool", "all": "bool", "argmax": "i64", "argmin": "i64", "count": "i64"}
        y = self.tensor(kept, kinds.get(kind, x.dtype))
        i = self.eqs.indices("i", kept)

        def body(*r: Expr) -> Expr:
            inner = iter(r)
            outer = iter(i)
            at = []
            for a in range(rank):
                if a in axes:
                    at.append(next(inner))
                    if keepdims:
                        next(outer)
                else:
                    at.append(next(outer))
            return x[tuple(at)]

        self.eqs.define(
            y[tuple(0 if keepdims and a in axes else v for a, v in enumerate(i)) if keepdims else i],
            reduce_(kind, [x.shape[a] for a in axes], body),
        )
        return y

    def softmax(self, x: Tensor, axis: int = -1) -> Tensor:
        axis %= len(x.shape)
        n = x.shape[axis]
        rest = [s for a, s in enumerate(x.shape) if a != axis]
        peak, total, y = self.tensor(rest, x.dtype), self.tensor(rest, x.dtype), self.tensor(x.shape, x.dtype)
        i = self.eqs.indices("i", rest)
        k = self.eqs.index("k", n)

        def at(v: Expr) -> tuple[Expr, ...]:
            return (*i[:axis], v, *i[axis:])

        self.eqs.define(peak[i], reduce_("max", [n], lambda r: x[at(r)]))
        self.eqs.define(total[i], reduce_("sum", [n], lambda r: exp(x[at(r)] - peak[i])))
        self.eqs.define(y[at(k)], exp(x[at(k)] - peak[i]) / total[i])
        return y

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        *rest, n = x.shape
        mean, var, y = self.tensor(rest, x.dtype), self.tensor(rest, x.dtype), self.tensor(x.shape, x.dtype)
        i = self.eqs.indices("i", rest)
        k = self.eqs.index("k", n)
        from anyshape.equations.expr import scalar

        self.eqs.define(mean[i], reduce_("sum", [n], lambda r: x[(*i, r)]) / scalar(n))
        self.eqs.define(
            var[i], reduce_("sum", [n], lambda r: (x[(*i, r)] - mean[i]) * (x[(*i, r)] - mean[i])) / scalar(n)
        )
        self.eqs.define(y[(*i, k)], (x[(*i, k)] - mean[i]) / sqrt(var[i] + 1e-5) * scale[k] + bias[k])
        return y

    def matmul(self, a: Tensor, b: Tensor, ta: bool = False, tb: bool = False) -> Tensor:
        """[..., m, k] x [..., k, n]; ta and tb read an operand transposed."""
        *p, m, k = a.shape if not ta else (*a.shape[:-2], a.shape[-1], a.shape[-2])
        *q, _, n = b.shape if not tb else (*b.shape[:-2], b.shape[-1], b.shape[-2])
        while len(p) < len(q):
            p = [1, *p]
        while len(q) < len(p):
            q = [1, *q]
        g = [dims.bcast(x, y) for x, y in zip(p, q, strict=True)]
        y = self.tensor([*g, m, n], a.dtype)
        v = self.eqs.indices("g", g)
        i, j = self.eqs.index("i", m), self.eqs.index("j", n)

        def product(r: Expr) -> Expr:
            ia = fit(v, a.shape[:-2])
            ib = fit(v, b.shape[:-2])
            return a[(*ia, *((r, i) if ta else (i, r)))] * b[(*ib, *((j, r) if tb else (r, j)))]

        self.eqs.define(y[(*v, i, j)], reduce_("sum", [k], product))
        return y

    def gelu(self, x: Tensor) -> Tensor:
        return self.map(lambda v: v * 0.5 * (erf(v * 0.7071067811865476) + 1.0), x)
