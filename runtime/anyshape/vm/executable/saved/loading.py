"""Loading of saved models: `anyshape.load(path)` makes one ready to run without compiling it.

In: the path of a file that `exe.save` wrote. Out: an executable over the mapped file. Programs and code are checked before they are used;
constants are checked at the first call, which reads them anyway (`verify=True`: at once). A file of other code, or for another
processor, is compiled again from the function in it, and the report says so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from anyshape.code_version import code_version
from anyshape.dims import SizeReader
from anyshape.errors import AnyshapeError
from anyshape.graph.function import Function
from anyshape.graph.record import read_form, read_function, read_values
from anyshape.graph.tuples import Form
from anyshape.graph.value import Value
from anyshape.public import edge
from anyshape.vm.compiling.executors import expect_results
from anyshape.vm.compiling.folding import folding
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import Options, make_options
from anyshape.vm.compiling.plans import Compiler, Plan, ProgramPlan
from anyshape.vm.compiling.uncollected import uncollected
from anyshape.vm.executable.executable import Executable
from anyshape.vm.executable.saved.container import AGAIN, Container
from anyshape.vm.executable.saved.programs import ProgramReader, constants_of
from anyshape.vm.executable.saved.saving import KEPT_OPTIONS, is_package, read_report
from anyshape.vm.native import import_parts
from anyshape.vm.program.table import Program
from anyshape.vm.report.summary import Report

Record = dict[str, Any]
NOT_A_RECORD = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""Errors of reading a record of another structure, which only a file has that `save` did not write: the others have checksums."""

import_parts()  # with this module, so that the time of a load is work and not imports


@edge
@uncollected()
def load(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    rebuild: bool = True,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Executable:
    """Loads a saved executable. `threads` and `max_memory` are those of `compile`. `verify` checks all constants now; without `rebuild`, a
    file of other code or for another processor is refused. Raises SavedFileError for a file that is refused, and MemoryLimitExceeded
    where no call is within the limit."""
    report = Report()
    with report.phase("load"):
        container = Container(Path(path))
        if verify:
            container.check()
        try:
            options, head, unfit = _read_head(container, {"threads": threads, "max_memory": max_memory})
            if unfit and not rebuild:
                raise container.refusal(unfit, f"load it with rebuild=True, or {AGAIN}")
            kept = [] if unfit else _programs(container, options)
        except NOT_A_RECORD as e:
            raise container.refusal(f"its record is not as `save` writes it ({e!r})") from e
    report.precision = options.precision
    compiler = Compiler(options, report, threading.RLock(), compute=folding(options))
    record = container.record
    if kept:
        executable = Executable(head, _chain(kept, compiler, head, record["guarded"]), report, options)
        executable.check_first(lambda: container.check(constants_of(record["programs"])))
        read_report(report, record["report"])
    else:
        report.rebuilt, report.columns = unfit, record["report"].get("columns", [])
        executable = Executable(head, compiler.plan(head.whole()), report, options)
    report.finished = True
    report.log(head.name)
    return executable


def _read_head(container: Container, execution: Mapping[str, Any]) -> tuple[Options, SavedHead, str]:
    said = container.record["options"]
    options = make_options({**{name: said[name] for name in KEPT_OPTIONS}, **execution})
    return options, SavedHead.read(container), _unfit(container.record, options)


def _unfit(record: Record, options: Options) -> str:
    """Says why the programs of a file are not for this process; empty if they are."""
    if record["target"] != asdict(target_called(options.target)):
        return f"its machine code is for another processor ({record['target']['cpu']})"
    other = [p for p, version in record["code"].items() if not is_package(p) or code_version(p) != version]
    if other:
        return f"it was made by other code of {', '.join(other)} (anyshape {record['anyshape']})"
    return ""


def _programs(container: Container, options: Options) -> list[Program]:
    record = container.record
    if not record["programs"]:
        return []
    reader = ProgramReader(container, record["common"], target_called(options.target))
    return [reader.program(p) for p in record["programs"]]


def _chain(programs: Sequence[Program], compiler: Compiler, head: SavedHead, guarded: bool) -> Plan:
    """Makes a plan of programs, each of which has the next one for calls that its guards decline; the last one, if it has guards, has a
    plan that is compiled when it is needed."""
    following: Callable[[], Plan] | None = (lambda: compiler.plan(head.whole(), 0)) if guarded else None
    types = ([p.type for p in head.params], [v.type for v in head.results])
    expect_results(types[1], compiler.options)
    plan: ProgramPlan | None = None
    for k, program in reversed(list(enumerate(programs))):
        plan = ProgramPlan(program, following, compiler.options, types=types, lock=compiler.lock)
        if k + 1 < len(programs):
            plan.general()
        following = (lambda fixed: lambda: fixed)(plan)
    assert plan is not None
    return plan


@dataclass(frozen=True, kw_only=True)
class SavedHead:
    """Signature of a function in a file; the function itself is read when it is needed."""

    container: Container
    name: str
    params: tuple[Value, ...]
    results: tuple[Value, ...]
    result_names: tuple[str, ...]
    form: Form

    @staticmethod
    def read(container: Container) -> SavedHead:
        head = container.record["head"]
        size = SizeReader(head["sizes"])
        params, results = read_values(head["params"], size), read_values(head["results"], size)
        return SavedHead(
            container=container,
            name=head["name"],
            params=tuple(params),
            results=tuple(results),
            result_names=tuple(head["result_names"]),
            form=read_form(head["form"]),
        )

    def whole(self) -> Function:
        return self._function

    @cached_property
    def _function(self) -> Function:
        record = self.container.record["function"]
        self.container.check(number for _, number in record["constants"])
        try:
            return read_function(record, self.container.array)
        except AnyshapeError as e:
            raise self.container.refusal(f"the function in it does not fit this version of anyshape: {e}") from e
