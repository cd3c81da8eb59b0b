"""Trials of `differential.py` run by us, by onnxruntime and by ONNX's reference, and what they say of each other.

    python -m tests.frontends.differential_run [--only TEXT] [--part K/N] [--names FILE] [--all]

Each runtime has a child process of its own, so that one that dies or hangs costs one trial. A trial differs

- `wrong`: both others give one result, and we another; or they give two, and ours is neither of them, nor what the reference gives with
  all floats of 64 bits; or the reference alone gives one, and ours is neither it nor that;
- `other`: from onnxruntime, while the reference gives what we give, or nothing;
- `refused`: both others give one result and we none; or one of them gives one, where a dtype is changed, something is left out,
  or an attribute is empty;
- `died`: we end in anything but a result or an AnyshapeError, or not at all.

What onnxruntime gives too is no difference, whatever the reference gives: it passes over NaN, clips and much of what old opsets say.
Nor is an infinity or NaN of another runtime where all inputs are finite and the reference of 64 bits gives what we give: one of its
intermediate values overflowed. An infinity or NaN of ours is a difference.
`differential_kept.py` has what is known to differ, with reasons; it is printed with `--all` only. Exit code 1 for any other difference.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import onnx

from anyshape.frontends.onnx.imported_node import draws
from anyshape.frontends.onnx.mappings import find_schema
from tests.frontends.differential import Trial, trials
from tests.frontends.differential_kept import KEPT
from tests.frontends.isolated import MEMORY, awaited

LONGEST, LONGEST_OF_REFERENCE = 20.0, 5.0
"""Seconds of the processor that a runtime has for a trial: the reference loops in Python over whatever number an attribute says"""
OFF = {2: 2e-2, 4: 2e-3, 8: 1e-6}
"""The most by which two results may differ, by bytes of a float: as a share of the largest number; where that is beyond the root of the
largest float, which would hide all others, as a share of each"""
Results = list[Any]
Said = Results | str
"""What a runtime gives for a trial; or why it gives none"""


class Runtime:
    """A child process that runs trials."""

    def __init__(self, run: Callable[[bytes, dict[str, np.ndarray]], Results], longest: float = LONGEST) -> None:
        self.run = run
        self.longest = longest
        self.child: Any = None
        self.pipe: Any = None

    def __call__(self, model: bytes, feed: dict[str, np.ndarray]) -> Said:
        if self.child is None:
            context = multiprocessing.get_context("fork")
            self.pipe, there = context.Pipe()
            self.child = context.Process(target=_serve, args=(there, self.run), daemon=True)
            self.child.start()
            there.close()
        self.pipe.send((model, feed))
        ended = awaited(self.pipe, self.child, self.longest)
        if not ended:
            try:
                said: Said = self.pipe.recv()
                return said
            except EOFError:
                self.child.join()
                ended = f"the process ended with {self.child.exitcode}"
        self.close()
        return f"died: {ended}"

    def close(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.join()
            self.child = None


def _serve(pipe: Any, run: Callable[[bytes, dict[str, np.ndarray]], Results]) -> None:
    faulthandler.disable()  # a process that dies is told of as such
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    while True:
        try:
            model, feed = pipe.recv()
        except EOFError:
            return
        try:
            said: Said = run(model, feed)
        except Exception as e:
            said = f"{_family(e)}: {' '.join(str(e).split())[:300]}"
        pipe.send(said)


def _family(e: Exception) -> str:
    from anyshape.errors import AnyshapeError

    return "refused" if isinstance(e, AnyshapeError) else type(e).__name__


def ours(model: bytes, feed: dict[str, np.ndarray]) -> Results:
    from anyshape import onnx_backend

    prepared = onnx_backend.prepare(onnx.load_model_from_string(model))
    return list(prepared.run({n: a for n, a in feed.items() if n in prepared.executable.input_names}))


def onnxruntimes(model: bytes, feed: dict[str, np.ndarray]) -> Results:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    if any(_bits(a) is not a for a in feed.values()):
        kinds = {
            i.name: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for i, a in zip(session.get_inputs(), feed.values())
        }
        values = {
            n: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(_bits(a), kinds[n]) for n, a in feed.items()
        }
        return [_numbers(v) for v in session.run_with_ort_values([o.name for o in session.get_outputs()], values)]
    return list(session.run(None, feed))


def _is_numpys(a: np.ndarray) -> bool:
    return a.dtype.type.__module__ == "numpy"


def _bits(a: np.ndarray) -> np.ndarray:
    """What NumPy has no dtype for, as its bits; several elements of fewer than 8 share a byte, and fill the first bytes."""
    if _is_numpys(a):
        return a
    bits = np.zeros(a.nbytes, np.uint8)
    raw = np.frombuffer(onnx.numpy_helper.from_array(a).raw_data, np.uint8)
    bits[: len(raw)] = raw
    return bits.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8).reshape(a.shape)


def _numbers(v: Any) -> np.ndarray:
    return np.asarray(v.numpy())


def references(model: bytes, feed: dict[str, np.ndarray]) -> Results:
    from onnx.reference import ReferenceEvaluator

    with mock.patch.object(np, "empty", np.zeros):  # MaxUnpool reads what it has not written: the same in every run
        return list(ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, feed))


@dataclass
class Runtimes:
    """The three."""

    us: Runtime
    other: Runtime
    reference: Runtime

    def close(self) -> None:
        for r in (self.us, self.other, self.reference):
            r.close()


def runtimes() -> Runtimes:
    return Runtimes(Runtime(ours), Runtime(onnxruntimes), Runtime(references, LONGEST_OF_REFERENCE))


@dataclass(frozen=True)
class Difference:
    """`kind` is `wrong`, `other`, `refused` or `died`."""

    trial: Trial
    kind: str
    why: str


def difference(trial: Trial, by: Runtimes) -> Difference | None:
    """What differs in a trial; None if nothing does."""
    model, feed = trial.model()
    us = by.us(model, feed)
    if isinstance(us, str) and not us.startswith("refused: "):
        return Difference(trial, "died", us)
    other = by.other(model, feed)
    apart = shaped if draws(find_schema(*_declared(trial))) else unlike
    if not isinstance(us, str) and not isinstance(other, str):
        from_other = apart(us, other)
        if not from_other:
            return None
    reference = by.reference(model, feed)
    peers = [r for r in (other, reference) if not isinstance(r, str)]
    if not peers:
        return None
    if isinstance(us, str):
        empty = trial.change.endswith(("=[]", "=b''")) and trial.change.partition("=")[0] in trial.attributes
        left_out = empty or trial.change.endswith(" absent") or " is " in trial.change
        certain = not apart(other, reference) if len(peers) == 2 else left_out
        return Difference(trial, "refused", us) if certain else None
    why = apart(us, peers[0])
    died = isinstance(reference, str) and reference.startswith("died: ")
    wide = reference if died else by.reference(*trial.model(wide=True))
    exact = not isinstance(wide, str) and not apart([_as(w, u) for w, u in zip(wide, us)], us)
    numbers = [_without_overflows(r, u) for r, u in zip(peers[0], us)]
    if exact and is_finite(trial) and len(peers[0]) == len(us) and not unlike(us, numbers):
        return None
    if isinstance(reference, str) or not apart(us, reference):
        return Difference(trial, "other", why) if why else None
    certain = len(peers) == 2 and not apart(other, reference)
    return None if exact and not certain else Difference(trial, "wrong", why)


def is_finite(trial: Trial) -> bool:
    """Whether all floats among inputs and attributes are numbers."""
    attributes = trial.attributes.values()
    tensors = [onnx.numpy_helper.to_array(a.t) for a in attributes if a.type == onnx.AttributeProto.TENSOR]
    arrays = [*trial.feeds, *tensors, *(np.array([a.f, *a.floats]) for a in attributes)]
    return all(np.isfinite(a).all() for a in arrays if a is not None and "float" in a.dtype.name)


def _without_overflows(theirs: Any, us: Any) -> Any:
    """Puts our elements in place of infinities and NaN in their result."""
    if not isinstance(theirs, np.ndarray) or not isinstance(us, np.ndarray) or "float" not in us.dtype.name:
        return theirs
    alike = theirs.dtype == us.dtype and theirs.shape == us.shape
    return np.where(np.isfinite(theirs), theirs, us) if alike else theirs


def _declared(trial: Trial) -> tuple[str, str, int]:
    domain, _, op = trial.operator.rpartition(":")
    return domain, op, trial.opset


def _as(wide: Any, like: Any) -> Any:
    a = np.asarray(wide)
    with np.errstate(all="ignore"):
        return a.astype(like.dtype) if isinstance(like, np.ndarray) and a.dtype == np.float64 else wide


def unlike(a: Results, b: Results) -> str:
    """How results differ; empty if they do not."""
    if len(a) != len(b):
        return f"{len(a)} and {len(b)} results"
    return next((f"output {k}: {why}" for k, (x, y) in enumerate(zip(a, b)) if (why := _unlike(x, y))), "")


def shaped(a: Results, b: Results) -> str:
    """Compares random results: shapes and dtypes only."""
    return unlike([np.zeros_like(x) for x in a], [np.zeros_like(y) for y in b])


def _unlike(x: Any, y: Any) -> str:
    if isinstance(x, list) or isinstance(y, list):
        both = isinstance(x, list) and isinstance(y, list)
        return unlike(x, y) if both else f"{type(x).__name__} and {type(y).__name__}"
    if x is None or y is None:
        return "" if x is y else "nothing and something"
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape:
        return f"shapes {list(x.shape)} and {list(y.shape)}"
    if x.dtype.kind in "OUS" or y.dtype.kind in "OUS":
        return "" if x.astype(str).tolist() == y.astype(str).tolist() else f"{_short(x)} and {_short(y)}"
    size = x.dtype.itemsize if "float" in x.dtype.name else 0
    bits = not _is_numpys(x) and y.dtype.kind == "u" and x.dtype.itemsize == y.dtype.itemsize
    if x.dtype != y.dtype and not bits:
        return f"dtypes {x.dtype} and {y.dtype}"
    if not size:
        return "" if np.array_equal(x, y) else f"{_short(x)} and {_short(y)}"
    if x.dtype != y.dtype:  # bits of what NumPy has no dtype for
        y = y.view(x.dtype)
    p, q = x.astype(np.float64), y.astype(np.float64)
    odd = ~np.isfinite(p) | ~np.isfinite(q)
    if not np.array_equal(p[odd], q[odd], equal_nan=True):
        return f"{_short(x)} and {_short(y)}"
    off = OFF.get(size, 0.2) if x.dtype.name != "bfloat16" else 0.1
    with np.errstate(over="ignore"):
        far = np.abs(p[~odd] - q[~odd])
    own = np.maximum(np.abs(p[~odd]), np.abs(q[~odd]))
    large = own > float(ml_dtypes.finfo(x.dtype).max) ** 0.5
    top = float(np.max(own[~large], initial=1e-4))
    return "" if (far <= off * np.where(large, own, top)).all() else f"{_short(x)} and {_short(y)}"


def _short(a: np.ndarray) -> str:
    return np.array2string(a.ravel()[:12], separator=",", max_line_width=10**6, threshold=12)[:160]


def chosen(only: str = "", part: tuple[int, int] = (0, 1)) -> list[Trial]:
    """Selects trials whose name has a text; of them every so many-th."""
    k, n = part
    return [t for t in trials() if only in t.name and t.number % n == k % n]


def is_kept(d: Difference) -> bool:
    t = d.trial
    return any(e.covers(d.kind, t.operator, t.opset, t.case, t.change, d.why) for e in KEPT)


def differences(of: Sequence[Trial]) -> Iterator[tuple[Trial, Difference | None]]:
    by = runtimes()
    try:
        for t in of:
            yield t, difference(t, by)
    finally:
        by.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        "differential_run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="trials whose name contains this")
    parser.add_argument("--part", default="0/1", help="of N parts part K, as K/N")
    parser.add_argument("--names", help="only the trials that are listed in a file, one name a line")
    parser.add_argument("--all", action="store_true", help="print what is kept, too")
    args = parser.parse_args()
    k, _, n = args.part.partition("/")
    listed = chosen(args.only, (int(k), int(n)))
    if args.names:
        names = set(Path(args.names).read_text().splitlines())
        listed = [t for t in listed if t.name in names]
    new = 0
    for j, (t, d) in enumerate(differences(listed)):
        if d is not None:
            new += not is_kept(d)
            if args.all or not is_kept(d):
                print(f"{d.kind}\t{t.name}\t{d.why}", flush=True)
        if j % 500 == 499:
            print(f"… {j + 1} of {len(listed)}", flush=True)
    print(f"{len(listed)} trials, {new} differ that are not kept")
    return 1 if new else 0


if __name__ == "__main__":
    raise SystemExit(main())
