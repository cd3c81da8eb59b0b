"""`anyshape profile MODEL`: where the time of a call goes, by kernel and by op of the model, against what the machine can do."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import partial

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.picture import write_drawing
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs, spell_shape
from anyshape.errors import ArgumentError
from anyshape.files import is_saved
from anyshape.lower.multiply_adds import MULTIPLY_ADDS, MultiplyAdd
from anyshape.vm.compiling.options import CompileOptions
from anyshape.vm.executable.profile import Profile, profile
from anyshape.vm.run.recorder import Sample
from anyshape.wording import counted

SHOWN = 25
NOTE = """\
A fused kernel's time is divided among its ops by their operations. GFLOP/s count every multiply_add operation as one, exp and tanh too;
GB/s count results, and of operands what is read, once; limit is the least time that the core's limits allow, as a share of the time:
multiply-adds of what the kernel multiplies (of), and a copy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one core: multiply-adds in GFLOP/s, by what is multiplied, and bytes of a copy as large as the model's typical operand, in
    GB/s."""

    flops: Mapping[MultiplyAdd, float]
    bytes: float

    def least(self, s: Sample) -> float:
        """The seconds of a kernel that the stricter of the two limits allows as the least."""
        return max(s.operations / self.flops[s.multiply_add] / 1e9, s.moved / self.bytes / 1e9)

    def __str__(self) -> str:
        flops = ", ".join(f"{n:.0f} GFLOP/s of {multiply_add}" for multiply_add, n in self.flops.items())
        return f"{flops}, and {self.bytes:.0f} GB/s for a copy of the median kernel's size"


def limits_for(samples: Sequence[Sample]) -> Limits:
    """The limits of this machine for what some kernels multiply, and for the median of the bytes that they move."""
    from anyshape.lower.limits import copy_speed, peak

    typical = sorted(s.moved for s in samples)[len(samples) // 2] if samples else 1 << 16
    kinds: list[MultiplyAdd] = sorted({s.multiply_add for s in samples} | {"f32"}, key=MULTIPLY_ADDS.index)
    return Limits({kind: peak(kind) for kind in kinds}, copy_speed(typical))


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Calls of one kernel, or one op, put together."""

    name: str
    count: int
    _: KW_ONLY
    seconds: float
    operations: int
    moved: int
    least: float
    """Seconds that the limits of the core allow as the least"""
    result: str = ""
    multiply_add: str = ""

    @property
    def limit(self) -> float:
        """The least seconds as a share of those taken."""
        return min(self.least / self.seconds, 1.0) if self.seconds > 0 else 0.0


def profile_command(args: argparse.Namespace) -> Answer:
    """Measures a model; writes the timeline and the trace if asked for."""
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
        limits = limits_for(measured.samples)
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
        "limits": {"gflops": dict(limits.flops), "gbytes": limits.bytes},
        "kernels": [_row(r) for r in by_kernel(measured.samples, limits)],
        "ops": [_row(r) for r in by_op(measured.samples, limits)],
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
        f"limits of one core: {limits}",
        "",
    ]
    parts = [table("kernel", by_kernel(measured.samples, limits), measured.kernels)]
    parts += ["", table("op of the model", by_op(measured.samples, limits), measured.kernels)]
    return "\n".join([*head, *parts, "", NOTE])


def by_kernel(samples: Iterable[Sample], limits: Limits) -> list[ProfileRow]:
    """Adds up samples of equal name and size; the slowest come first."""
    groups: dict[tuple[str, int, int, tuple[int, ...]], list[Sample]] = defaultdict(list)
    for s in samples:
        groups[s.name, s.operations, s.moved, s.result].append(s)
    rows = []
    for (name, operations, moved, result), group in groups.items():
        count, first = len(group), group[0]
        rows.append(
            ProfileRow(
                name,
                count,
                seconds=sum(s.seconds for s in group),
                operations=operations * count,
                moved=moved * count,
                least=limits.least(first) * count,
                result=spell_sizes(result),
                multiply_add=first.multiply_add,
            )
        )
    return sorted(rows, key=lambda r: -r.seconds)


def by_op(samples: Iterable[Sample], limits: Limits) -> list[ProfileRow]:
    """Adds up samples by name of the op, the slowest first. Bytes moved are known for the whole kernel, and are divided like its time."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    for s in samples:
        for node, share in s.nodes:
            total = totals[node.op.name]
            parts = (s.seconds, s.operations, s.moved, limits.least(s))
            for k, amount in enumerate((1, *(n * share for n in parts))):
                total[k] += amount
    rows = [
        ProfileRow(name, int(n), seconds=seconds, operations=int(ops), moved=int(moved), least=least)
        for name, (n, seconds, ops, moved, least) in totals.items()
    ]
    return sorted(rows, key=lambda r: -r.seconds)


def spell_sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def speeds(seconds: float, operations: int, moved: int) -> tuple[float, float]:
    """Returns GFLOP/s and GB/s; 0 where the time is too short to measure."""
    return (operations / seconds / 1e9, moved / seconds / 1e9) if seconds else (0.0, 0.0)


def table(title: str, rows: Sequence[ProfileRow], total: float) -> str:
    width = max([len(title), *(len(r.name) for r in rows[:SHOWN])], default=0)
    heading = "  of    result" if any(r.result for r in rows) else ""
    lines = [f"{title:<{width}}  calls        us   share  GFLOP/s    GB/s  limit{heading}"]
    for r in rows[:SHOWN]:
        speed = speeds(r.seconds, r.operations, r.moved)
        share = r.seconds / total if total else 0.0
        lines.append(
            f"{r.name:<{width}}  {r.count:5}  {r.seconds * 1e6:8.1f}  {share:6.1%}  {speed[0]:7.1f}  {speed[1]:6.1f}  {r.limit:5.0%}"
            f"{f'  {r.multiply_add:<4}  {r.result}' if r.result else ''}"
        )
    rest = rows[SHOWN:]
    if rest:
        seconds = sum(r.seconds for r in rest)
        lines.append(
            f"{f'{len(rest)} more':<{width}}  {sum(r.count for r in rest):5}  {seconds * 1e6:8.1f}  {seconds / total:6.1%}"
        )
    return "\n".join(lines)
