"""`anyshape profile MODEL`: where the time of a call goes, by kernel and by op of the model, against what the machine can do."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import partial

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.picture import write_drawing
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs, spell_shape
from anyshape.errors import ArgumentError
from anyshape.files import is_saved
from anyshape.vm.compiling.options import CompileOptions
from anyshape.vm.executable.profile import Profile, profile
from anyshape.vm.run.recorder import Sample
from anyshape.wording import counted

SHOWN = 25
NOTE = """\
A fused kernel's time is divided among its ops by their operations. GFLOP/s count every arithmetic operation as one, exp and tanh too;
GB/s count results, and of operands what is read, once; limit is the least time that the core's limits allow, as a share of the time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one core: multiply-adds in GFLOP/s, and bytes of a copy as large as the model's typical operand, in GB/s."""

    flops: float
    bytes: float

    def fraction(self, seconds: float, operations: int, moved: int) -> float:
        """Returns the share of the time that the stricter of the two limits allows as the least."""
        least = max(operations / self.flops / 1e9, moved / self.bytes / 1e9)
        return least / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Calls of one kernel, or one op, put together."""

    name: str
    count: int
    seconds: float
    operations: int
    moved: int
    _: KW_ONLY
    result: str = ""


def profile_command(args: argparse.Namespace) -> Answer:
    """Measures a model; writes the timeline and the trace if asked for."""
    from anyshape.lower.limits import measure_copy, measure_peak
    from anyshape.vm import compile

    if is_saved(args.model):
        raise ArgumentError(f"{args.model} is a saved model; profile the ONNX model from which it was compiled")
    dims = arguments.dims(args.dim)
    with progress(f"compiling {args.model}"):
        exe = compile(args.model, dims, threads=args.threads, precision=args.precision)
    shapes, contents = arguments.shapes(args.shape), arguments.arrays(args.input)
    ints = arguments.bounds(args.ints, "--ints")
    make = partial(make_inputs, exe.input_names, exe.input_types, shapes, contents, ints, args.seed)
    feed, sizes = accepted_inputs(exe.run, make)
    with progress("profiling"):
        options: CompileOptions = {"threads": args.threads, "precision": args.precision}
        measured = profile(args.model, feed, args.repeat, dims=dims, policy=args.policy, **options)
        typical = sorted(s.moved for s in measured.samples)[len(measured.samples) // 2] if measured.samples else 1 << 16
        limits = Limits(measure_peak(), measure_copy(typical))
    shape = ", ".join(f"{name} {spell_shape(a)}" for name, a in feed.items())
    lines = [shape] if not sizes.chosen else [f"{shape} (some sizes are chosen; set them by --shape NAME=4x128)"]
    lines += [text(measured, limits)]
    if args.html is not None:
        from anyshape.cli.profile_page import page

        write_drawing(args.html, page(f"{args.model}: {shape}", measured, limits))
        lines.append(f"timeline in {args.html}")
    if args.trace is not None:
        write_drawing(args.trace, json.dumps(measured.trace(f"{args.model}: {shape}")))
        lines.append(
            f"trace of {counted(len(measured.calls), 'call')} in {args.trace}, for ui.perfetto.dev or chrome://tracing"
        )
    data = {
        "inputs": {name: described(a, elements=False) for name, a in feed.items()},
        "chosen": sizes.chosen,
        "seconds": {"call": measured.call, "kernels": measured.kernels},
        "policy": measured.policy,
        "limits": {"gflops": limits.flops, "gbytes": limits.bytes},
        "kernels": [_row(r) for r in by_kernel(measured.samples)],
        "ops": [_row(r) for r in by_op(measured.samples)],
        "html": args.html,
        "trace": args.trace,
    }
    return Answer(text="\n".join(lines), data=data)


def _row(r: ProfileRow) -> dict[str, object]:
    return {name: value for name, value in asdict(r).items() if name != "_"}


def text(measured: Profile, limits: Limits) -> str:
    """Spells a profile: times of the call, and a table by kernel and by op."""
    call, kernels = measured.call * 1e6, measured.kernels * 1e6
    head = [
        f"one call {call:,.1f} us; its {counted(len(measured.samples), 'kernel')} in sequence on one thread {kernels:,.1f} us",
        *([f"policy of sizes: {measured.policy}"] if measured.policy else []),
        f"limits of one core: {limits.flops:.0f} GFLOP/s, and {limits.bytes:.0f} GB/s for a copy of the median kernel's size",
        "",
    ]
    parts = [table("kernel", by_kernel(measured.samples), measured.kernels, limits)]
    parts += ["", table("op of the model", by_op(measured.samples), measured.kernels, limits)]
    return "\n".join([*head, *parts, "", NOTE])


def by_kernel(samples: Iterable[Sample]) -> list[ProfileRow]:
    """Adds up samples of equal name and size; the slowest come first."""
    groups: dict[tuple[str, int, int, tuple[int, ...]], list[Sample]] = defaultdict(list)
    for s in samples:
        groups[s.name, s.operations, s.moved, s.result].append(s)
    rows = []
    for (name, operations, moved, result), group in groups.items():
        count = len(group)
        seconds = sum(s.seconds for s in group)
        rows.append(ProfileRow(name, count, seconds, operations * count, moved * count, result=spell_sizes(result)))
    return sorted(rows, key=lambda r: -r.seconds)


def by_op(samples: Iterable[Sample]) -> list[ProfileRow]:
    """Adds up samples by name of the op, the slowest first. Bytes moved are known for the whole kernel, and are divided like its time."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for s in samples:
        for node, share in s.nodes:
            total = totals[node.op.name]
            for k, amount in enumerate((1, s.seconds * share, s.operations * share, s.moved * share)):
                total[k] += amount
    rows = [
        ProfileRow(name, int(n), seconds, int(ops), int(moved)) for name, (n, seconds, ops, moved) in totals.items()
    ]
    return sorted(rows, key=lambda r: -r.seconds)


def spell_sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def speeds(seconds: float, operations: int, moved: int) -> tuple[float, float]:
    """Returns GFLOP/s and GB/s; 0 where the time is too short to measure."""
    return (operations / seconds / 1e9, moved / seconds / 1e9) if seconds else (0.0, 0.0)


def table(title: str, rows: Sequence[ProfileRow], total: float, limits: Limits) -> str:
    width = max([len(title), *(len(r.name) for r in rows[:SHOWN])], default=0)
    heading = "  result" if any(r.result for r in rows) else ""
    lines = [f"{title:<{width}}  calls        us   share  GFLOP/s    GB/s  limit{heading}"]
    for r in rows[:SHOWN]:
        speed = speeds(r.seconds, r.operations, r.moved)
        share = r.seconds / total if total else 0.0
        limit = min(limits.fraction(r.seconds, r.operations, r.moved), 1.0)
        lines.append(
            f"{r.name:<{width}}  {r.count:5}  {r.seconds * 1e6:8.1f}  {share:6.1%}  {speed[0]:7.1f}  {speed[1]:6.1f}  {limit:5.0%}"
            f"{'  ' * bool(r.result)}{r.result}"
        )
    rest = rows[SHOWN:]
    if rest:
        seconds = sum(r.seconds for r in rest)
        lines.append(
            f"{f'{len(rest)} more':<{width}}  {sum(r.count for r in rest):5}  {seconds * 1e6:8.1f}  {seconds / total:6.1%}"
        )
    return "\n".join(lines)
