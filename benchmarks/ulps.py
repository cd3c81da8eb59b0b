"""How far from the exact value each transcendental function is: the largest error over all of its domain, in units in the last place.

    PYTHONPATH=runtime:generated:. python -m benchmarks.ulps [exp tanh ...] [--count 200000] [--page]

Functions run as compiled ops, for this processor, for AVX2 and for SSE 4.2. Arguments are every number of 16 bits; of f32 and f64 as
many bit patterns as the count says, at equal distances, so that every binade has as many, from the least subnormal number to the
largest, and as many again around 0, 1, 10 and 100. The exact value is computed in C's `long double`, which on x86-64 has 64 bits of
precision. A result below the least normal number counts by the least subnormal one. Where the exact value is none that the dtype has
(an overflow, NaN), the result must be the same infinity, or NaN. `--page` writes docs/vector-math.md. BOUNDS are what tests hold
functions to.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special
from numpy.typing import NDArray

import anyshape
from anyshape import ops

Array = NDArray[Any]
PAGE = Path(__file__).parents[1] / "docs" / "vector-math.md"
DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
LEVELS = ("host", "avx2", "sse")
IS_WIDE = bool(np.finfo(np.longdouble).nmant >= 63)
"""Whether `long double` has digits to hold f64 against."""
COUNT = 200_000
ONCE_ROUNDED = 0.51
"""Bound of 16-bit floats, in ulps: they are computed in f32 and rounded once."""


@dataclass(frozen=True)
class Function:
    """`exact` takes long doubles. `f32` and `f64` are bounds; without fused multiply-adds there may be `more`."""

    exact: Callable[..., Array]
    f32: float
    f64: float
    more: float = 0.0

    def bound(self, dtype: str, level: str) -> float:
        if dtype in ("f16", "bf16"):
            return ONCE_ROUNDED
        return float(getattr(self, dtype)) + (self.more if level == "sse" else 0.0)


def erf(x: Array) -> Array:
    """Computes erf up to 3 by the series of positive terms (Abramowitz and Stegun 7.1.6), beyond that 1 - erfc, of which f64's digits
    do."""
    a = np.minimum(np.abs(x), 3)
    term = total = a
    for k in range(1, 90):
        term = term * 2 * a * a / (2 * k + 1)
        total = total + term
    near = 2 / np.sqrt(np.longdouble(np.pi) + np.longdouble(1.2246467991473532e-16)) * np.exp(-a * a) * total
    far = 1 - scipy.special.erfc(np.abs(x).astype(np.float64)).astype(np.longdouble)
    return np.where(np.isnan(x), x, np.copysign(np.where(np.abs(x) <= 3, near, far), x))


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


FUNCTIONS: dict[str, Function] = {
    "exp": Function(np.exp, 1.0, 1.0, 1.0),
    "expm1": Function(np.expm1, 2.0, 2.0, 1.0),
    "log": Function(np.log, 1.0, 1.0, 1.0),
    "log1p": Function(np.log1p, 1.5, 1.5, 1.0),
    "sqrt": Function(np.sqrt, 0.5, 0.5),
    "tanh": Function(np.tanh, 3.0, 3.0, 1.0),
    "erf": Function(erf, 3.0, 4.0, 1.0),
    "sin": Function(np.sin, 1.0, 2.0, 1.0),
    "cos": Function(np.cos, 1.0, 2.0, 1.0),
    "pow": Function(np.power, 1.0, 2.0, 1.0),
}
"""What equations have."""
COMPOSED: dict[str, Function] = {
    "sigmoid": Function(sigmoid, 3.0, 3.0, 1.0),
    "tan": Function(np.tan, 3.0, 4.0, 1.0),
    "asin": Function(np.arcsin, 3.0, 3.0, 1.0),
    "acos": Function(np.arccos, 2.0, 2.0, 1.0),
    "atan": Function(np.arctan, 3.0, 3.0, 1.0),
    "sinh": Function(np.sinh, 4.0, 4.0, 1.0),
    "cosh": Function(np.cosh, 4.0, 4.0, 1.0),
    "asinh": Function(np.arcsinh, 4.0, 4.0, 1.0),
    "acosh": Function(np.arccosh, 4.0, 4.0, 1.0),
    "atanh": Function(np.arctanh, 4.0, 4.0, 1.0),
}
"""Ops whose equations are made of these functions."""
BOUNDS = {**FUNCTIONS, **COMPOSED}


@cache
def executable(name: str, dtype: str, level: str) -> anyshape.Executable:
    inputs = [anyshape.input(n, f"{dtype}[n]") for n in ("x", "y")[: 1 + (name == "pow")]]
    return anyshape.compile(anyshape.function(inputs, getattr(ops, name)(*inputs)), target=level, threads=1)


def arguments(dtype: str, count: int) -> Array:
    """Bit patterns at equal distances, an odd number, and what lies around 0, 1, 10 and 100."""
    of = DTYPES[dtype]
    bits = np.dtype(of).itemsize * 8
    if bits == 16:
        return np.arange(1 << 16, dtype=np.uint16).view(of)
    step = ((1 << bits) // count) | 1
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(step)
    close = [s * scale * np.linspace(0.5, 1.5, count // 20) for scale in (1e-3, 1, 10, 100) for s in (-1, 1)]
    integers: Any = np.uint32 if bits == 32 else np.uint64
    return np.concatenate(
        [patterns.astype(integers).view(of), *(c.astype(of) for c in close), np.array([0, 1, -1], of)]
    )


def pairs(dtype: str, count: int) -> tuple[Array, Array]:
    """Draws arguments of a power: exponents for which most results are finite; with any two numbers nearly all would be 0 or infinite."""
    x = arguments(dtype, count)
    rng = np.random.default_rng(0)
    rng.shuffle(x)
    with np.errstate(all="ignore"):
        wide = np.abs(x.astype(np.float64))
        most = np.finfo(np.float64).maxexp if dtype == "f64" else 128
        y = rng.uniform(-most, most, x.size) / np.maximum(np.abs(np.log2(wide)), 1e-3)
        y[::7] = np.round(np.clip(y[::7], -300, 300))
        x[np.arange(x.size) % 7 != 0] = np.abs(x[np.arange(x.size) % 7 != 0])
        return x, np.nan_to_num(y, nan=2.0, posinf=2.0, neginf=-2.0).astype(x.dtype)


def error(got: Array, exact: Array, operands: Sequence[Array]) -> tuple[float, int]:
    """The largest distance in units in the last place, and where. Raises AssertionError where one is finite and the other is not."""
    limits = ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        wide = got.astype(np.longdouble)
        least = np.longdouble(float(limits.smallest_normal))
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), least))) - limits.nmant)
        distance = np.abs(wide - exact) / unit
    finite = np.isfinite(exact) & (np.abs(exact) <= np.longdouble(float(limits.max)))
    ends = np.isinf(rounded) & np.isfinite(exact)  # between the largest number and what rounds to infinity
    same = (
        (np.isnan(wide) & np.isnan(exact))
        | (wide == rounded.astype(np.longdouble))
        | (ends & (np.abs(wide) == limits.max))
    )
    wrong = np.flatnonzero(~finite & ~same | finite & ~np.isfinite(wide))
    for k in wrong[:1]:
        raise AssertionError(f"at {', '.join(repr(float(a[k])) for a in operands)}: {wide[k]}, and exactly {exact[k]}")
    distance = np.where(finite, distance, 0)
    at = int(np.argmax(distance)) if distance.size else 0
    return float(distance[at]) if distance.size else 0.0, at


def measure(name: str, dtype: str, levels: Sequence[str] = LEVELS, count: int = COUNT) -> dict[str, tuple[float, str]]:
    """Measures the largest error of each level, and the arguments that have it."""
    operands = pairs(dtype, count) if name == "pow" else (arguments(dtype, count),)
    with np.errstate(all="ignore"):
        exact = BOUNDS[name].exact(*(a.astype(np.longdouble) for a in operands))
    worst_of = {}
    for level in levels:
        try:
            worst, at = error(np.asarray(executable(name, dtype, level)(*operands)), exact, operands)
        except AssertionError as e:
            raise AssertionError(f"{name} of {dtype} for {level}, {e}") from None
        worst_of[level] = worst, ", ".join(f"{float(a[at]):.9g}" for a in operands)
    return worst_of


Errors = dict[str, dict[str, dict[str, tuple[float, str]]]]

PAGE_HEAD = """\
# Errors of functions

Made by `python -m benchmarks.ulps --page`. The largest error found, in units in the last place of the result's dtype, over the whole
domain: every number of 16 bits; of f32 and f64 {count:,} bit patterns at equal distances, from the least subnormal number to the
largest, and as many again around 0, 1, 10 and 100; and the bound that tests hold each function to (`tests/lower/test_ulps.py`). Exact
values are those of C's `long double`. Floats of 16 bits are computed in f32 and rounded once, within {once} units. *Without FMA* is SSE
4.2, which rounds a product before it adds; the figures before it are those of AVX2 and of the processor at hand.
"""


def page(errors: Errors, count: int) -> str:
    lines = [PAGE_HEAD.format(count=count, once=ONCE_ROUNDED)]
    for title, functions in (("What equations have", FUNCTIONS), ("Ops that are made of them", COMPOSED)):
        lines += [
            f"## {title}\n",
            "| function | f16 | bf16 | f32 | at | bound | without FMA | bound | f64 | at | bound | without FMA | bound |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name in functions:
            cells = [f"{max(e for e, _ in errors[name][dtype].values()):.3f}" for dtype in ("f16", "bf16")]
            for dtype in ("f32", "f64"):
                here = errors[name][dtype]
                worst, at = max(here[level] for level in LEVELS if level != "sse")
                bounds = (f"{BOUNDS[name].bound(dtype, level):g}" for level in ("host", "sse"))
                cells += [f"{worst:.2f}", at, next(bounds), f"{here['sse'][0]:.2f}", next(bounds)]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", help=f"of {', '.join(BOUNDS)}")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--page", action="store_true", help="write docs/vector-math.md")
    options = parser.parse_args()
    if not IS_WIDE:
        raise SystemExit("this machine's long double has no more digits than f64 has")
    errors: Errors = {}
    for name in BOUNDS if options.page else options.functions or BOUNDS:
        errors[name] = {dtype: measure(name, dtype, count=options.count) for dtype in DTYPES}
        for dtype, levels in errors[name].items():
            for level, (worst, at) in levels.items():
                bound = BOUNDS[name].bound(dtype, level)
                above = f"   above {bound:g}" if worst > bound else ""
                print(f"{name:8} {dtype:4} {level:5} {worst:.3f} at {at}{above}", flush=True)
    if options.page:
        PAGE.write_text(page(errors, options.count))


if __name__ == "__main__":
    main()
