"""What bounds each model: where its time goes at a typical shape, against the limits of one core.

    PYTHONPATH=runtime:generated python -m benchmarks.bounds [bert_mini ...] [--json out.json]

For each model and a few of its shapes: microseconds in kernels, the parts of them that arithmetic and memory bound, and of each the
least time that the core's limits (multiply-adds, bytes of a copy) allow, as a part of the time taken.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import anyshape
from anyshape.lower.limits import measure_copy, measure_peak
from anyshape.vm.executable.profile import Profile
from anyshape.vm.run.recorder import Sample
from benchmarks.models import MODELS, load

PRODUCTS = 8
"""Operations per byte from which on a kernel is bound by arithmetic and not by memory."""


def typical(shapes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The smallest, the middle and the largest."""
    ordered = sorted(shapes, key=lambda s: s[0] * s[1])
    return [ordered[0], ordered[len(ordered) // 2], ordered[-1]]


def least(sample: Sample, flops: float, copies: dict[int, float]) -> float:
    """Seconds that the limits allow; `copies` remembers the bandwidth by working set, a power of two."""
    size = 1 << max(12, sample.moved.bit_length())
    if size not in copies:
        copies[size] = measure_copy(size)
    return max(sample.operations / flops / 1e9, sample.moved / copies[size] / 1e9)


def row(profile: Profile, flops: float, copies: dict[int, float]) -> dict[str, float]:
    products = [s for s in profile.samples if s.operations > PRODUCTS * max(s.moved, 1)]
    seconds = sum(s.seconds for s in products)
    allowed = {False: 0.0, True: 0.0}
    for s in profile.samples:
        allowed[s in products] += min(least(s, flops, copies), s.seconds)
    other = profile.kernels - seconds
    return {
        "call": profile.call, "kernels": profile.kernels, "products": seconds, "others": other,
        "products_reached": allowed[True] / seconds if seconds else 0.0, "others_reached": allowed[False] / other if other else 0.0,
    }  # fmt: skip


def measure(name: str, folder: Path) -> dict[str, Any]:
    model = load(name)
    path = model.build(folder / f"{name}.onnx")
    flops, copies = measure_peak(), dict[int, float]()
    rows = []
    print(
        f"\n{name} (one core: {flops:.0f} GFLOP/s)\n  {'shape':>9}   call us  kernels us   products  reached    others  reached"
    )
    for shape in typical(model.SHAPES):
        times = row(anyshape.profile(path, model.inputs(*shape, seed=1), threads=1), flops, copies)
        rows.append({"batch": shape[0], "length": shape[1], **times})
        parts = [f"{times[k] / times['kernels']:9.0%} {times[f'{k}_reached']:8.0%}" for k in ("products", "others")]
        label = f"{shape[0]}x{shape[1]}"
        print(f"  {label:>9} {times['call'] * 1e6:9.1f} {times['kernels'] * 1e6:11.1f}  {' '.join(parts)}", flush=True)
    return {"model": name, "flops": flops, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(name, Path(folder)) for name in options.models]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
