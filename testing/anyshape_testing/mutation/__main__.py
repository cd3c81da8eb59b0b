"""`python -m anyshape_testing.mutation`: tries the mutants of all ops whose spec or tests changed, and of the functions of the library,
and writes the results.

Out: a line per op or function, every mutant that survives, the page and the JSON; 1 if fewer than 95 % are killed, more than 3 % are
declared equivalent, a declaration is out of date, or no op calls a function of the library.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.generation import read_folder
from anyshape_gen.model.spec import OpSpec
from anyshape_testing.calls.packages import register
from anyshape_testing.commands import command_line, jobs
from anyshape_testing.mutation.results import Declared, Kept, json_text, kept, left, page, read, score, untried
from anyshape_testing.mutation.running import FailedTrial, Trial, run_all, undeclared


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="anyshape_testing.mutation", description="Try the mutants of specs.")
    parser.add_argument(
        "--op",
        default="",
        help="these ops and functions, as library.NAME, only, separated by commas, and again; nothing is written",
    )
    parser.add_argument("--keep", action="store_true", help="with --op: results are written as without")
    parser.add_argument("--specs", type=Path, default=Path("specs"), help="the folder of *.yaml specs")
    parser.add_argument("--package", default="anyshape_ops", help="the package generated from them")
    parser.add_argument(
        "--equivalent",
        type=Path,
        default=Path("tests/equivalent_mutants.yaml"),
        help="what is declared equivalent, and why",
    )
    parser.add_argument(
        "--callers",
        type=Path,
        default=Path("tests/library_functions.yaml"),
        help="specs of ops that call functions of the library which no op of the folder calls; they are only tests of these",
    )
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where mutation.md and mutation.json are")
    parser.add_argument("--jobs", type=jobs, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="try all mutants, not only what changed")
    return parser


def trial_of(specs: Path, callers: Path, package: str) -> Trial:
    """The trial of a folder of specs, with ops that call functions of its library for tests alone."""
    of_callers = read_specs([callers]) if callers.is_file() else {}
    analysis = analyse(read_folder(specs) | of_callers)
    return Trial(analysis, package, callers=[a.spec.name for a in analysis.ops if a.file in of_callers])


def declarations(path: Path, trial: Trial) -> tuple[Declared, list[str]]:
    """Reads {op: {place of a mutant: why it is equivalent}}; returns {op: {label: why}}, and what names no mutant."""
    parsed: Any = yaml.safe_load(path.read_text()) if path.exists() else None
    declared: dict[str, dict[str, str]] = {}
    wrong: list[str] = []
    for op, reasons in (parsed or {}).items():
        labels = {m.place: m.label for m in trial.mutants(op)} if op in trial.specs else {}
        declared[op] = {labels[place]: why for place, why in reasons.items() if place in labels}
        wrong += [f"{op}: there is no mutant at {place!r}" for place in reasons if place not in labels]
    return declared, wrong


@command_line
def main(argv: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    today = date.today().isoformat()
    trial = trial_of(options.specs, options.callers, options.package)
    specs = trial.specs
    chosen = [op for op in options.op.split(",") if op] or list(specs)
    if unknown := [op for op in chosen if op not in specs]:
        print(f"no spec has an op {', '.join(unknown)}", file=sys.stderr)
        return 2
    declared, wrong = declarations(options.equivalent, trial)
    trial.declared = declared
    register(options.package)
    wrong += undeclared(declared, trial)
    for words in wrong:
        print(f"{options.equivalent}: {words}")
    wrong += (untested := [f"no op calls {name}, so that nothing tests it" for name in trial.uncalled])
    for words in untested:
        print(words)
    results = read(options.docs / "mutation.json")
    results = {op: k for op, k in results.items() if op in specs}
    todo = chosen if options.op or options.again else [op for op in chosen if changed(results.get(op), specs[op])]
    todo.sort(key=lambda op: op in results)  # ops that were never tried come first
    before = {op: k for op, k in results.items() if not options.again and k.covers(untried(specs[op]))}
    for op, k in tried(trial, todo, options.jobs, declared, before):
        results[op] = k
        if options.keep or not options.op:  # a run that is stopped can be continued
            (options.docs / "mutation.json").write_text(json_text(results, declared, today))
    wrong += (killed := killed_though_declared(results, declared))
    for words in killed:
        print(words)
    if options.op and not options.keep:
        return 1 if wrong or any(left(op, results[op], declared) for op in chosen) else 0
    (options.docs / "mutation.json").write_text(json_text(results, declared, today))
    (options.docs / "mutation.md").write_text(page(results, declared, today))
    total = score(results, declared)
    print(f"{total}\nThe table of ops shows these results: run `make gen`.")
    return 0 if total.enough and not wrong else 1


def changed(k: Kept | None, spec: OpSpec) -> bool:
    """Whether a spec has changed since its mutants were tried."""
    now = untried(spec)
    return k is None or (k.rule, k.examples) != (now.rule, now.examples)


def killed_though_declared(results: Mapping[str, Kept], declared: Declared) -> list[str]:
    """Lists declared mutants that tests kill, so that they are not equivalent."""
    return [
        f"{op}: declared equivalent, and killed: {label}"
        for op, labels in declared.items()
        if op in results
        for label in labels
        if label not in results[op].survivors
    ]


def tried(
    trial: Trial, todo: Sequence[str], jobs: int, declared: Declared, before: Mapping[str, Kept]
) -> Iterator[tuple[str, Kept]]:
    """Tries the mutants of these ops; prints and yields results as they come. Where only examples were added, mutants that were killed
    before are not tried again."""
    start = time.perf_counter()
    only = {op: frozenset(k.survivors) for op, k in before.items()}
    for number, r in enumerate(run_all(trial, todo, jobs, only), 1):
        if isinstance(r, FailedTrial):
            print(f"[{number}/{len(todo)}] {r.op} could not be tried: {r.error}", flush=True)
            continue
        k = kept(r, trial.specs[r.op], before.get(r.op))
        print(f"[{number}/{len(todo)}] {r.op}: {score({r.op: k}, declared)}, {r.seconds:.1f} s", flush=True)
        for t in r.tried:
            if t.survives and t.label not in declared.get(r.op, {}):
                print(f"    survives, line {t.line}, {t.place!r}: {t.label}")
        yield r.op, k
    if todo:
        print(f"{len(todo)} ops in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
