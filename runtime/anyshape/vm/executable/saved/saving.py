"""`exe.save(path)`: everything that running and compiling again takes, in one file.

In: an executable. Out: the file. Programs of straight plans are kept with their machine code: the main one, and the general one if a call
has needed it. The function itself is always there, so that what is not kept, or not for this processor, is compiled from it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshape.code_version import VERSION, code_version
from anyshape.dims import SizeWriter
from anyshape.errors import AnyshapeError
from anyshape.graph import registry
from anyshape.graph.function import Function
from anyshape.graph.opdef import OpDef
from anyshape.graph.record import value_records, write_function
from anyshape.vm.compiling.kernels import NativeKernel, target_called
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Plan, Straight
from anyshape.vm.executable.saved.container import Builder
from anyshape.vm.executable.saved.programs import ProgramWriter
from anyshape.vm.report.summary import Report

if TYPE_CHECKING:
    from anyshape.vm.executable.executable import Executable

Record = dict[str, Any]
KEPT_OPTIONS = ("executor", "target", "kernels", "fuse")
"""Those that decide what is compiled; the others belong to who runs it."""


def save(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Raises AnyshapeError if the file cannot be written."""
    f, builder = executable.function, Builder()
    options = executable.options
    record = {
        "anyshape": VERSION,
        "code": {package: code_version(package) for package in sorted({*_OWN, *packages(f)})},
        "target": asdict(target_called(options.target)),
        "options": {name: getattr(options, name) for name in KEPT_OPTIONS},
        "head": _head(f),
        "report": report_record(executable.report),
        **_programs(executable.plan, builder, options),
        "function": write_function(f, builder.array),
    }
    try:
        builder.write(Path(path), record)
    except (OSError, ValueError) as e:
        raise AnyshapeError(f"{path!s} cannot be written: {getattr(e, 'strerror', None) or e}") from None


def packages(f: Function) -> set[str]:
    """Where the ops of f come from."""
    return {_package(node.op) for node in f.nodes}


_OWN = "anyshape", "anyshape_ops"


def is_package(name: str) -> bool:
    """Whether ops may come from there: our own packages, those of registered ops, and a module that is imported already. A name in a file
    that is none of them is not looked for: finding a submodule would import its parent."""
    return (
        name in _OWN or name in map(_package, registry.all_ops().values()) or ("." not in name and name in sys.modules)
    )


def _package(op: OpDef) -> str:
    return op.relation.__module__.partition(".")[0]


def _head(f: Function) -> Record:
    """What callers see, to be read without the function."""
    size = SizeWriter()
    params, results = value_records(f.params, size), value_records(f.results, size)
    return {
        "name": f.name,
        "params": params,
        "results": results,
        "result_names": f.result_names,
        "form": f.form,
        "sizes": size.table,
    }


def report_record(report: Report) -> Record:
    """Counts and reasons of the compile, nothing of the clock or of later calls."""
    own = {f.name: getattr(report, f.name) for f in fields(report) if f.name[0] != "_"}
    later = ("finished", "compiled_after_first_call")
    return {name: v for name, v in own.items() if isinstance(v, int | list) and name not in later}


def read_report(report: Report, record: Record) -> None:
    """What `report_record` gave, put back; nothing else of what a file says."""
    for name in report_record(report).keys() & record.keys():
        if isinstance(record[name], type(getattr(report, name))):
            setattr(report, name, record[name])


def _programs(plan: Plan, builder: Builder, options: Options) -> Record:
    """No programs where a rank is found at run time, or kernels are interpreted: such plans are compiled when they are loaded."""
    straight = _straight(plan)
    kernels = [k for s in straight for p in (s.program, *s.program.functions) for k in p.kernels]
    if not all(isinstance(k, NativeKernel) for k in kernels):
        straight = []
    writer = ProgramWriter(builder, target_called(options.target))
    programs = [writer.program(s.program) for s in straight]
    return {"programs": programs, "common": writer.common(), "guarded": bool(straight) and straight[-1].is_guarded}


def _straight(plan: Plan) -> list[Straight]:
    """The plan and the variants behind it, as far as they are straight."""
    plans: list[Straight] = []
    following: Plan | None = plan
    while isinstance(following, Straight):
        plans.append(following)
        following = following.compiled_general
    return plans
