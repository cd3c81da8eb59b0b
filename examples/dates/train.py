"""Retrain the example's model and export it: `make retrain`, a few minutes on one core.

Comes in: nothing but seeds, the texts are made by `data.py`. Goes out: `dates.onnx`, with batch and length dynamic,
checked against torch by onnxruntime at a dozen sizes. Refuses to write a model that misses more than one held-out
date in a hundred.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import data
import numpy as np
import onnxruntime
import torch
from model import DateReader
from torch import Tensor, nn

HERE = Path(__file__).parent
GOAL = 0.99


def batches(rng: random.Random, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless training batches; texts of like length together, so that little time goes into padding."""
    while True:
        dates = [data.draw_date(rng, held=False) for _ in range(size * 16)]
        pairs = sorted(((data.write(rng, when), when) for when in dates), key=lambda pair: len(pair[0]))
        pool = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        rng.shuffle(pool)
        for chosen in pool:
            texts, days = zip(*chosen)
            yield torch.from_numpy(data.encode(texts)), torch.from_numpy(data.targets(days))


def loss_of(outputs: tuple[Tensor, Tensor, Tensor], dates: Tensor) -> Tensor:
    """The sum of the six cross entropies."""
    day, month, year = outputs
    cross = nn.functional.cross_entropy
    return (
        cross(day, dates[:, 0]) + cross(month, dates[:, 1]) + 4 * cross(year.reshape(-1, 10), dates[:, 2:].reshape(-1))
    )


def accuracy(model: DateReader, count: int, seed: int) -> tuple[float, list[tuple[str, str, str]]]:
    """Share of held-out texts answered exactly, and the misses as (text, answer, right)."""
    rng = random.Random(seed)
    dates = [data.draw_date(rng, held=True) for _ in range(count)]
    texts = [data.write(rng, when) for when in dates]
    answers: list[str] = []
    model.eval()
    with torch.no_grad():
        for start in range(0, count, 250):
            day, month, year = model(torch.from_numpy(data.encode(texts[start : start + 250])))
            answers += data.decode(day.numpy(), month.numpy(), year.numpy())
    model.train()
    misses = [(t, a, d.isoformat()) for t, a, d in zip(texts, answers, dates) if a != d.isoformat()]
    return 1 - len(misses) / count, misses


def train(steps: int, size: int, rate: float, seed: int) -> DateReader:
    """A model trained for `steps` batches; the learning rate rises, then falls to zero."""
    torch.manual_seed(seed)
    model = DateReader(data.VOCABULARY, data.MAX_LENGTH)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.1)
    stream, started = batches(random.Random(seed), size), time.monotonic()
    for step in range(1, steps + 1):
        ids, dates = next(stream)
        loss = loss_of(model(ids), dates)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            exact, _ = accuracy(model, 500, seed=1)
            print(
                f"step {step:5d}  loss {loss.item():.4f}  exact {exact:.3f}  {time.monotonic() - started:.0f} s",
                flush=True,
            )
    return model


def export(model: DateReader, path: Path) -> None:
    """Write the model as ONNX by torch's tracing exporter, which leaves the shape arithmetic in the graph."""
    model.eval()
    sample = torch.from_numpy(data.encode(["3rd of march 1987", "1999-01-02"]))
    torch.onnx.export(
        model,
        (sample,),
        str(path),
        dynamo=False,
        opset_version=17,
        do_constant_folding=False,
        input_names=["ids"],
        output_names=["day", "month", "year"],
        dynamic_axes={
            "ids": {0: "batch", 1: "length"},
            "day": {0: "batch"},
            "month": {0: "batch"},
            "year": {0: "batch"},
        },
    )


def compare(model: DateReader, path: Path) -> float:
    """The largest difference between torch and onnxruntime on real texts, padded or cut to every size of data.SIZES."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng, worst = random.Random(5), 0.0
    for batch, length in data.SIZES:
        ids = data.encode([data.write(rng, data.draw_date(rng, held=True)) for _ in range(batch)], length)
        with torch.no_grad():
            expected = [part.numpy() for part in model(torch.from_numpy(ids))]
        for got, want in zip(session.run(None, {"ids": ids}), expected):
            worst = max(worst, float(np.abs(got - want).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "dates.onnx")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = train(options.steps, options.batch, options.rate, options.seed)
    exact, misses = accuracy(model, 5000, seed=2)
    for text, answer, right in misses[:20]:
        print(f"missed {text!r}: {answer}, right is {right}")
    print(f"{exact:.2%} of 5000 texts about held-out dates are answered exactly")
    if exact < GOAL:
        raise SystemExit(f"below {GOAL:.0%}: {options.out} is left as it was; train for more --steps")
    export(model, options.out)
    size, worst = options.out.stat().st_size, compare(model, options.out)
    print(f"{options.out.name}: {size} bytes, differs from torch by at most {worst:.1e}")


if __name__ == "__main__":
    main()
