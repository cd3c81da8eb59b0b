"""`make run`: one compile of a transformer whose batch and length are unknown, then a dozen sizes, beside onnxruntime.

Comes in: `dates.onnx`, trained by `train.py`. Goes out, printed: what the import left dynamic and what became
static; time per call and the largest difference to onnxruntime at each size; texts and the dates the model reads in
them. Exits with 1 if a difference is too large or an answer wrong. With texts as arguments, it reads just these.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import data
import numpy as np
import onnxruntime
from numpy.typing import NDArray

import anyshape

MODEL = Path(__file__).with_name("dates.onnx")
LIMIT = 2e-4  # largest difference to onnxruntime that is rounding: the logits reach about 20
SAMPLES, SAMPLE_SECONDS = 7, 0.01

TEXTS = {
    "the 3rd of March, 1987": "1987-03-03",
    "1999-01-02": "1999-01-02",
    "due 21.08.2003, please confirm": "2003-08-21",
    "Monday, 14 Feb 2011 at 9:30": "2011-02-14",
    "CALL ME BACK BY DEC 25 '99": "1999-12-25",
    "signed on the twenty-first of august 1958": "1958-08-21",
    "geboren am 9. März 1931": "1931-03-09",
    "fait à Lyon le 1er juillet 2045": "2045-07-01",
    "Madrid, 30 de septiembre de 1964": "1964-09-30",
    "  report,  20240229   (draft)": "2024-02-29",
    "meeting: 7-Nov-2026 um 14:05, gmt": "2026-11-07",
    "Sept 5? no: october 17th, 2082": "2082-10-17",
}

Ids = NDArray[np.int64]
Call = Callable[[Ids], list[NDArray[np.float32]]]


def peer() -> Call:
    """Loads the model in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
    return lambda ids: list(session.run(None, {"ids": ids}))


def print_report(executable: anyshape.Executable) -> None:
    """What the types and the dyn-to-static pass found out."""
    report = executable.report
    print(f"  ops imported as dyn variants      {report.imported_dyn:5d}")
    print(f"  of these became static            {report.became_static:5d}")
    print(f"  dyn, with all dims symbolic       {report.dyn_symbolic:5d}")
    print(f"  still dynamic, with unknown dims  {len(report.still_dynamic):5d}")
    for reason in report.still_dynamic:
        print(f"    {reason}")
    print(f"  kernels compiled                  {report.kernels:5d}")


def times(ours: Call, theirs: Call, ids: Ids) -> tuple[float, float]:
    """Seconds per call of both, the least of SAMPLES samples taken in turns."""
    best = [float("inf"), float("inf")]
    started = time.perf_counter()
    theirs(ids)
    repeats = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - started)))
    for _ in range(SAMPLES):
        for place, call in enumerate((ours, theirs)):
            started = time.perf_counter()
            for _ in range(repeats):
                call(ids)
            best[place] = min(best[place], (time.perf_counter() - started) / repeats)
    return best[0], best[1]


def print_sizes(ours: Call, theirs: Call) -> float:
    """The table of sizes; returns the largest difference in it."""
    print("  batch x length   anyshape  onnxruntime   ratio   largest difference")
    rng, worst = random.Random(11), 0.0
    for batch, length in data.SIZES:
        texts = [data.write(rng, data.draw_date(rng, held=True)) for _ in range(batch)]
        ids = data.encode(texts, length)
        difference = max(float(np.abs(a - b).max()) for a, b in zip(ours(ids), theirs(ids), strict=True))
        mine, other = times(ours, theirs, ids)
        size = f"{batch} x {length}"
        print(f"  {size:>14}  {mine * 1e3:6.3f} ms    {other * 1e3:6.3f} ms  {mine / other:6.2f}   {difference:.1e}")
        worst = max(worst, difference)
    return worst


def read(ours: Call, texts: list[str]) -> list[str]:
    """The dates in the texts, by one call."""
    for text in texts:
        if len(text) > data.MAX_LENGTH:
            raise SystemExit(f"{text!r} has {len(text)} characters, the model reads at most {data.MAX_LENGTH}")
    day, month, year = ours(data.encode(texts))
    return data.decode(day, month, year)


def print_answers(ours: Call) -> int:
    """Texts and answers; returns how many are wrong."""
    answers = read(ours, list(TEXTS))
    for (text, right), answer in zip(TEXTS.items(), answers):
        print(f"  {text!r:46} {answer}{'' if answer == right else f'  WRONG, it is {right}'}")
    return sum(answer != right for answer, right in zip(answers, TEXTS.values()))


def main() -> int:
    started = time.perf_counter()
    executable = anyshape.compile(MODEL, threads=1)
    seconds = time.perf_counter() - started

    def ours(ids: Ids) -> list[NDArray[np.float32]]:
        return list(executable(ids=ids))

    if sys.argv[1:]:
        for text, answer in zip(sys.argv[1:], read(ours, sys.argv[1:])):
            print(f"  {text!r:46} {answer}")
        return 0
    print(f"{MODEL.name}: text in, ISO date out; ids[batch, length], both unknown; compiled once, in {seconds:.1f} s\n")
    print_report(executable)
    print("\nOne thread, least of several, in turns:")
    worst = print_sizes(ours, peer())
    print(f"Programs compiled after the first call: {executable.compiled_after_first_call}")
    print("\nWhat it reads:")
    wrong = print_answers(ours)
    if worst > LIMIT or wrong:
        print(f"\nNOT RIGHT: largest difference {worst:.1e} (at most {LIMIT:.0e} is rounding), {wrong} wrong answers")
        return 1
    print(f"\nAll {len(TEXTS)} answers are right; the largest difference to onnxruntime is {worst:.1e}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
