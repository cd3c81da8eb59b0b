"""docs/performance.md and docs/performance-tables.md from figures: python -m benchmarks.performance_page benchmarks/results

In: the folder into which `make performance` wrote the figures of its parts. Out: the page, a section for each part that ended, and a page
of the tables that have a row for each op or shape. Sections of parts without figures stay as they are: one part is measured anew by its
command of `benchmarks.suite` alone. Why a peer is faster where one is, is in `performance_causes.yaml`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from anyshape.lower.target import host_target
from benchmarks.models_bench import US, mean
from benchmarks.op_audit import Row, alone, case_label, remarks, summary
from benchmarks.patience import CLOSE, PATIENCE, QUIET
from benchmarks.single_ops import groups
from benchmarks.streams import ANEW

Results = list[dict[str, Any]]
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
TABLES = PAGE.with_name("performance-tables.md")
CAUSES = Path(__file__).with_name("performance_causes.yaml")
HEAD = """\
# Performance

Written by `make performance`, or again from its figures after some were measured anew (`--keep` of `benchmarks.models_bench` and
`single_ops`), on one machine: {machine}. Engines alternate, with the same number of threads, and their outputs are
compared. Each engine runs models in a process of its own. All of these are stopped but the one that is measured, since threads of engines
spin for a while after a call. A measurement begins with some milliseconds of calls that do not count.

Parts may be of different days, and of code of these days.

Ratios are the best peer's time over ours: above 1 we are faster.

- *Steady*: the least of many short batches of equal calls.
- *Shuffled*: the median in a stream of all shapes in random order.
- *First*: the first call of a new executable at a shape over later calls at that shape. A warm executable runs all other shapes in some
  order, and then again in the same order, so that the previous call is the same; every call has data of its own. So only the newness of the
  shape differs. Medians of up to {most} executables, each over its own later calls; p50 and p95 over the shapes.
- *Second*: the same for the second call at a shape: the noise of *first*.
- *Noise*: the largest median over least of any engine. Far above 1, other processes were running. Such rows are measured again
  for all engines, at most {patience} times as long: minima until the noise is below {quiet}, medians until they are known
  within {close:.0%} (`benchmarks/patience.py`).

Single ops are measured in four passes over all of them, and in eight more where engines are about equal.
[performance-tables.md](performance-tables.md) has every op and every shape, [performance-log.md](performance-log.md) what was
tried, with the figures of that time.

Elsewhere, with the commands that print them:

- exported code ([export.md](export.md#sizes-and-times)): 68 to 148 times smaller than onnxruntime-web, 5.0 to 15.2 times as fast as the C
  of emx-onnx-cgen (5.0 where a step does little but read its 4.2 MB of weights);
- models of torch ([torch.md](torch.md#torchcompile)): by the geometric mean first results 3.0 times as soon as inductor's, and calls 2.0
  times as fast;
- a language model with weights in 4 bits, requests together, drafts ([its page](../examples/language_model/README.md)), weights in few bits
  ([quantise.md](quantise.md));
- bf16 and f16 beside OpenVINO ([precision.md](precision.md#errors)), and networks and the audit on an Intel processor with matrix tiles
  and on one without AVX-512 ([performance-log.md](performance-log.md));
- tables on one node and two ([scale.md](scale.md#throughput)), the server ([serving.md](serving.md)), parts of a model as custom ops of
  onnxruntime ([onnxruntime.md](onnxruntime.md#parts-of-a-model-as-custom-ops)).
"""
TABLES_HEAD = """\
# Performance, case by case

Written with [performance.md](performance.md), which says how it was measured.
"""


def machine() -> str:
    """Describes this machine: a page is written where it was measured."""
    target = host_target()
    caches = ", ".join(f"{n >> 10} KiB" for n in (target.l1_bytes, target.l2_bytes, target.l3_bytes))
    return f"{os.cpu_count()} processors that LLVM calls {target.cpu}, vectors of {8 * target.vector_bytes} bits, caches of {caches}"


def size(row: dict[str, Any]) -> str:
    return f"{row['batch']}x{row['length']}"


def every(results: Results, what: str) -> list[str]:
    """The engines of any result, in order of first mention: some run only where they are named."""
    return list(dict.fromkeys(name for r in results for name in r[what]))


def number(seconds: dict[str, float], name: str, unit: float) -> str:
    return f"{seconds[name] * unit:.4g}" if name in seconds else ""


def models(results: Results) -> str:
    peers = [n for n in every(results, "engines") if n != US]
    threads = results[0]["threads"]
    lines = [
        f"## Models, {threads} thread{'s' * (threads > 1)}, beside {' and '.join(peers)}\n",
        "| model | steady mean | least | shuffled mean | least | first at a new shape over later, p50 / p95 | second "
        "| best peer's first | noise |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        ours, second, theirs = (
            " / ".join(f"{min(r[kind][n][p] for n in names if n in r[kind]):.2f}" for p in ("p50", "p95"))
            for kind, names in (("first_call", [US]), ("second_call", [US]), ("first_call", peers))
        )
        lines.append(
            f"| {r['model']} | {r['steady_mean']:.2f} | {r['steady_least']:.2f} | {r['shuffled_mean']:.2f} | {r['shuffled_least']:.2f} "
            f"| {ours} | {second} | {theirs} | {r['noise']:.2f} |"
        )
    means = [mean(r[f"{kind}_mean"] for r in results) for kind in ("steady", "shuffled")]
    lines.append(
        f"\nOver the models: steady {means[0]:.2f}, shuffled {means[1]:.2f}. Kernels compiled after the first call: "
    )
    lines[-1] += f"{sum(r['compiled_after_first_call'] for r in results)}."
    return "\n".join(lines)


def shapes(results: Results) -> str:
    """Every shape of every model."""
    names = every(results, "engines")
    lines = [
        "## Every shape, one thread\n",
        "Milliseconds.\n",
        f"| model | shape | {' | '.join(f'{n}, steady' for n in names)} | ratio | {' | '.join(f'{n}, shuffled' for n in names)} | ratio |",
        "|---|---|" + "---|" * (2 * len(names) + 2),
    ]
    for r in results:
        for row in r["rows"]:
            halves = [
                " | ".join(number(row[kind], n, 1e3) for n in names) + f" | {row[f'{kind}_ratio']:.2f}"
                for kind in ("steady", "shuffled")
            ]
            lines.append(f"| {r['model']} | {size(row)} | {' | '.join(halves)} |")
    return "\n".join(lines)


def errors(results: Results) -> str:
    measured = [r for r in results if r["errors"]]
    if not measured:
        return ""
    names = every(measured, "errors")
    lines = [
        "## Errors against float64\n",
        "Root of the mean square of the differences from the same model computed in float64 by onnx's reference implementation, over\n"
        "that of the results (`python -m benchmarks.models_bench --errors`).\n",
        f"| model | {' | '.join(names)} |", "|---|" + "---|" * len(names),
    ]  # fmt: skip
    for r in measured:
        each = (f"{r['errors'][n]:.1e}" if n in r["errors"] else "" for n in names)
        lines.append(f"| {r['model']} | {' | '.join(each)} |")
    return "\n".join(lines)


def ops(results: Results) -> str:
    """A row for each group of ops."""
    lines = [f"## {_single(results)}\n", "| group | cases | mean | least |", "|---|---|---|---|"]
    for group, rows in groups(results).items():
        ratios = [r["ratio"] for r in rows]
        lines.append(f"| {group} | {len(rows)} | {mean(ratios):.2f} | {min(ratios):.2f} |")
    return "\n".join(lines)


def _single(results: Results) -> str:
    threads = results[0]["threads"]
    return f"Single ops, {threads} thread{'s' * (threads > 1)}"


def cases(results: Results) -> str:
    """A row for each op and shape."""
    names = every(results, "seconds")
    lines = [
        f"## {_single(results)}\n",
        "Microseconds, and the part of one core's measured limits (multiply-adds, a copy of that working set) that ours reaches.\n",
        f"| op | case | {' | '.join(names)} | ratio | limits |", "|---|---|" + "---|" * (len(names) + 2),
    ]  # fmt: skip
    for r in results:
        times = " | ".join(number(r["seconds"], n, 1e6) for n in names)
        lines.append(f"| {r['group']} | {r['name']} | {times} | {r['ratio']:.2f} | {r['reached']:.0%} |")
    return "\n".join(lines)


def slower_models(results: Results) -> str:
    """Every model at a shape where a peer is faster, by cause."""
    lost = [
        (f"{r['model']} {size(row)}, {kind}", f"{r['threads']} thread(s): {row[f'{kind}_ratio']:.2f}")
        for r in results for row in r["rows"] for kind in ("steady", "shuffled") if row[f"{kind}_ratio"] < 1
    ]  # fmt: skip
    threads = results[0]["threads"]
    return f"## Where a peer is faster, models, {threads} thread{'s' * (threads > 1)}\n\n{by_cause(lost)}"


def slower_ops(*results: Results) -> str:
    """Every op at a shape where a peer is faster, by cause."""
    lost = [
        (f"{r['group']} {r['name']}", f"{r['threads']} thread(s): {r['ratio']:.2f} ({r['best']})")
        for of in results for r in of if r["ratio"] < 1
    ]  # fmt: skip
    return f"## Where a peer is faster, single ops\n\n{by_cause(lost)}"


WORTH = 0.9
"""The ratio below which every row of the audit of operators is listed with its cause: two runs of a row differ by some hundredths."""


def _of_threads(r: Row) -> str:
    return f", {r['threads']} threads" if r["threads"] > 1 else ""


def audit(results: Results) -> str:
    """How all operators compare, what is slow, and where results differ from a peer's."""
    slow = [
        (case_label(r), f"{r['size']}{_of_threads(r)}: {r['ratio']:.2f} ({r['best']})")
        for r in results if r["ratio"] is not None and r["ratio"] < WORTH
    ]  # fmt: skip
    sections = [
        f"\n{title}\n\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in (
            ("Results that differ from those of every peer:", remarks([r for r in results if alone(r)], "differences")),
            ("Refused by us:", remarks(results, "refused", US)),
        )
        if lines
    ]
    return (
        f"## {_audit_title(results)}\n\n"
        "Every ONNX operator that takes more than some microseconds in a typical model, in its usual variants, at three sizes or more of\n"
        "one compiled model, medians of turns (`python -m benchmarks.op_audit`; the cases are `benchmarks/op_cases.yaml`), on\n"
        f"{machine()}. Cases with a row below 1 were measured again by themselves (`--below 1 --keep`), since other guests of a machine\n"
        "make rows slow that are not; the last figure counts, which favours us by what noise is left.\n\n"
        f"{summary(results)}. Rows below {WORTH}, by cause:\n\n{by_cause(slow)}" + "\n".join(["", *sections])
    )


def networks(results: Results) -> str:
    """Milliseconds of whole networks at each of their sizes."""
    threads, names = results[0]["threads"], every(results, "seconds")
    lines = [
        f"## Networks, {threads} thread{'s' * (threads > 1)}, beside {' and '.join(n for n in names if n != US)}\n",
        "Networks with seeded weights at several sizes of one compiled model, milliseconds, medians of turns\n"
        "(`python -m benchmarks.networks`; `benchmarks/networks.yaml`, and models of benchmarks, as they are and as onnxruntime's\n"
        f"tools quantise them), on {machine()}.\n",
        f"| network | sizes | {' | '.join(names)} | ratio |",
        f"|---|---|{'---|' * len(names)}---|",
    ]
    for r in results:
        of_engines = " | ".join(number(r["seconds"], name, 1e3) for name in names)
        lines.append(f"| {case_label(r)} | {r['size']} | {of_engines} | {r['ratio']:.2f} |")
    return "\n".join(lines)


def operators(results: Results) -> str:
    """A row for each operator of the audit."""
    by_operator: dict[str, list[Row]] = {}
    for r in results:
        by_operator.setdefault(r["operator"], []).append(r)
    lines = [f"## {_audit_title(results)}\n", "| operator | rows | mean | least | below 0.9 |", "|---|---|---|---|---|"]
    for operator, rows in by_operator.items():
        ratios = [r["ratio"] for r in rows if r["ratio"] is not None]
        figures = (
            f"{mean(ratios):.2f} | {min(ratios):.2f} | {sum(x < WORTH for x in ratios) or ''}" if ratios else "| |"
        )
        lines.append(f"| {operator} | {len(rows)} | {figures} |")
    return "\n".join(lines)


def _audit_title(results: Results) -> str:
    threads = results[0]["threads"]
    return f"Every operator, {threads} thread{'s' * (threads > 1)}"


def with_section(page: str, section: str) -> str:
    """Puts a section in place of the one that has its title, up to the peers that it names, or behind all others."""
    parts, title = re.split(r"(?m)^(?=## )", page), _title(section)
    places = [k for k, part in enumerate(parts) if _title(part) == title]
    new = section.strip() + "\n"
    if not places:
        return "\n".join([page.strip() + "\n", new])
    parts[places[0]] = new + "\n" * (places[0] < len(parts) - 1)
    return "".join(parts)


def _title(section: str) -> str:
    return section.partition("\n")[0].partition(", beside ")[0]


def write_audit(rows: Results) -> None:
    """Writes the sections of the audit into the pages as they are."""
    for path, write in ((PAGE, audit), (TABLES, operators)):
        path.write_text(with_section(path.read_text(), write(rows)))
        print(f"{path}: written '{_audit_title(rows)}'")


def by_cause(lost: Iterable[tuple[str, str]]) -> str:
    """Writes a paragraph for each cause, with its rows: of a row its name, and the threads with the ratio."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for name, ratio in lost:
        cause = cause_of(f"{name}, {ratio}") or "**cause not known**"
        grouped.setdefault(cause, {}).setdefault(name, []).append(ratio)
    parts = [
        f"- {cause[:1].upper()}{cause[1:]}:\n"
        + "\n".join(f"  - {name}: {'; '.join(ratios)}" for name, ratios in rows.items())
        for cause, rows in grouped.items()
    ]
    return "\n".join(parts) if parts else "Nowhere in this run."


@cache
def causes() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Rows that have a cause, by what is found in their lines, and the cause."""
    return tuple((re.compile(e["rows"]), e["cause"]) for e in yaml.safe_load(CAUSES.read_text()))


def cause_of(line: str) -> str | None:
    return next((cause for rows, cause in causes() if rows.search(line)), None)


def bounds(results: Results) -> str:
    lines = [
        "## What bounds each model\n",
        "Time in kernels on one thread (`python -m benchmarks.bounds`), the part of it in kernels that are bound by arithmetic, and of\n"
        "these and of the others the part that the core's limits explain.\n",
        "| model | shape | us | products | reached | others | reached |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in results:
        for row in r["rows"]:
            parts = " | ".join(
                f"{row[k] / row['kernels']:.0%} | {row[f'{k}_reached']:.0%}" for k in ("products", "others")
            )
            lines.append(f"| {r['model']} | {size(row)} | {row['kernels'] * 1e6:,.1f} | {parts} |")
    return "\n".join(lines)


def compiling(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = [
        "## Compiling\n",
        "Seconds in a fresh process, Python's imports and reading the model left out: with an empty object cache, with a full one, and\n"
        "loading a saved file (`python -m benchmarks.compile_time`).\n",
        "| model | empty cache | full cache | saved file |", "|---|---|---|---|",
    ]  # fmt: skip
    for model, runs in results.items():
        each = (f"{run['own']:.3f}" for run in runs.values())
        lines.append(f"| {model} | {' | '.join(each)} |")
    return "\n".join(lines)


def memory(results: Results) -> str:
    lines = [
        "## Memory of a call\n",
        "Peak of the resident set above that of the loaded model, MB, in processes of their own; without weights that are mapped from the\n"
        "model's file and that this call is the first to read, which the system can drop again (`python -m benchmarks.memory`).\n"
        "What anyshape touches ahead for large results, at most 32 MiB, belongs to the loaded model.\n",
        "| model | shape | anyshape | onnxruntime |", "|---|---|---|---|",
    ]  # fmt: skip
    for r in results:
        for row in r["peaks"]:
            both = " | ".join(f"{row[n] / 1e6:.1f}" for n in ("anyshape", "onnxruntime"))
            lines.append(f"| {r['model']} | {row['shape'][0]}x{row['shape'][1]} | {both} |")
    return "\n".join(lines)


def crowded(results: Results) -> str:
    threads = list(results[0]["seconds"])
    lines = [
        "## More threads than processors\n",
        "Times on several threads over that of one under the same conditions, beside processes that only compute: medians of turns\n"
        "(`python -m benchmarks.oversubscribed`). No call uses more threads than the process may use processors. *Loops*: two of\n"
        "multiply-adds over one, before and after, with nobody beside them: near 2 a virtual machine's processors are halves of one\n"
        "core for a while, and threads can bring nothing (`python -m benchmarks.round_trip` shows both as they change).\n",
        f"| model | shape | beside | one thread, us | {' | '.join(f'{t} threads' for t in threads[1:])} | loops |",
        "|---|---|---|---|---|" + "---|" * (len(threads) - 1),
    ]  # fmt: skip
    for r in results:
        times = [r["seconds"][t] for t in threads]
        parts = " | ".join(f"{t / times[0]:.2f}" for t in times[1:])
        loops = ", ".join(f"{n:.2f}" for n in r["loops"])
        shape = f"{r['shape'][0]}x{r['shape'][1]}"
        lines.append(f"| {r['model']} | {shape} | {r['beside']} | {times[0] * 1e6:.1f} | {parts} | {loops} |")
    return "\n".join(lines)


def first_calls(results: Results) -> str:
    lines = [
        "## First calls of a process\n",
        "As *first* and *second* above, in processes that made no other executable: memory that nobody touched before and code that no\n"
        "processor ran before are in these figures. p50 and p95 over the shapes of medians over processes, and the shape where a first\n"
        "call costs most (`python -m benchmarks.first_calls`).\n",
        "| model | threads | engine | first, p50 / p95 | second | worst |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in results:
        for engine, points in r["engines"].items():
            both = " | ".join(f"{p['p50']:.2f} / {p['p95']:.2f}" for p in (points["first"], points["second"]))
            batch, length, worst = points["worst"]
            lines.append(f"| {r['model']} | {r['threads']} | {engine} | {both} | {worst:.2f} at {batch}x{length} |")
    return "\n".join(lines)


def decoding(results: Results) -> str:
    lines = [
        "## Decoding\n",
        "Steps of gpt2, each with the keys and values that the step before it gave, milliseconds of a step: medians of turns\n"
        "(`python -m benchmarks.decoding`).\n",
        "| batch | words in the cache | threads | anyshape | onnxruntime | ratio |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in results:
        ours, theirs = (r["seconds"].get(n, math.nan) for n in (US, "onnxruntime"))
        figures = f"{ours * 1e3:.3f} | {theirs * 1e3:.3f} | {theirs / ours:.2f}"
        lines.append(f"| {r['batch']} | {r['words'][0]} to {r['words'][1]} | {r['threads']} | {figures} |")
    return "\n".join(lines)


def calls(least: dict[str, float]) -> str:
    lines = [
        "## A call that computes next to nothing\n",
        "An add of four floats through Python, nanoseconds, the least of many batches of calls in one process; *bound*: inputs and\n"
        "results were given once, before (`python -m benchmarks.call_overhead`).\n",
        "| call | ns |", "|---|---|",
    ]  # fmt: skip
    return "\n".join((*lines, *(f"| {name} | {ns:.0f} |" for name, ns in least.items())))


Sections = tuple[tuple[tuple[str, ...], Callable[..., str]], ...]
SECTIONS: Sections = (
    (("one_thread",), models),
    (("one_thread",), slower_models),
    (("one_thread",), errors),
    (("all_threads",), models),
    (("all_threads",), slower_models),
    (("networks",), networks),
    (("networks_all_threads",), networks),
    (("first_calls",), first_calls),
    (("decoding",), decoding),
    (("call_overhead",), calls),
    (("oversubscribed",), crowded),
    (("bounds",), bounds),
    (("compile_time",), compiling),
    (("memory",), memory),
    (("single_ops",), ops),
    (("single_ops_all_threads",), ops),
    (("single_ops", "single_ops_all_threads"), slower_ops),
    (("op_audit",), audit),
    (("op_audit_all_threads",), audit),
)
TABLE_SECTIONS: Sections = (
    (("single_ops",), cases),
    (("single_ops_all_threads",), cases),
    (("one_thread",), shapes),
    (("op_audit",), operators),
    (("op_audit_all_threads",), operators),
)
"""The parts that a section is made of, and what writes it"""


def with_figures(page: str, sections: Sections, figures: dict[str, Any]) -> str:
    """A page with each section whose parts all have figures; others stay as they are, and what has none of its own."""
    for names, write in sections:
        section = write(*(figures[name] for name in names)) if all(figures.get(name) for name in names) else ""
        page = with_section(page, section) if section else page
    return page


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    figures = {f.stem: json.loads(f.read_text()) for f in Path(sys.argv[1]).glob("*.json")}
    head = HEAD.format(machine=machine(), most=PATIENCE * ANEW[1], patience=PATIENCE, quiet=QUIET, close=CLOSE)
    for path, own, sections in ((PAGE, head, SECTIONS), (TABLES, TABLES_HEAD, TABLE_SECTIONS)):
        _, *rest = re.split(r"(?m)^(?=## )", path.read_text())
        path.write_text(with_figures("".join([own.strip() + "\n\n", *rest]), sections, figures))
        print(f"written to {path}")


if __name__ == "__main__":
    main()
