"""Saving of executables: `exe.save(path)` writes what running and compiling again take into one file.

In: an executable. Out: the file. Programs of straight plans are kept with their machine code: the main one, and the general one if a call
has needed it. The function itself is always in the file, so that programs that are not kept, or not for this processor, are compiled from
it.
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
from anyshape.vm.compiling.plans import Plan, ProgramPlan
from anyshape.vm.compiling.size_plan import SizePlan
from anyshape.vm.executable.saved.container import Builder
from anyshape.vm.executable.saved.programs import ProgramWriter
from anyshape.vm.report.summary import Report

if TYPE_CHECKING:
    from anyshape.vm.executable.executable import Executable

Record = dict[str, Any]
KEPT_OPTIONS = ("executor", "target", "kernels", "fuse", "growth", "precision", "exact_nodes")
"""Options that decide what is compiled; the process that loads the file decides the others."""


def save(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Writes the file. Raises AnyshapeError if it cannot be written."""
    f, builder = executable.function, Builder()
    options = executable.options
    record = {
        "anyshape": VERSION,
        "code": {package: code_version(package) for package in sorted({*_OWN, *packages(f)})},
        "target": asdict(target_called(options.target)),
        "options": {name: getattr(options, name) for name in KEPT_OPTIONS},
        "head": _head(f),
        "report": report_record(executable.report),
        **_programs(plan.generic if isinstance(plan := executable.plan, SizePlan) else plan, builder, options),
        "function": write_function(f, builder.array),
    }
    try:
        builder.write(Path(path), record)
    except (OSError, ValueError) as e:
        raise AnyshapeError(f"{path!s} cannot be written: {getattr(e, 'strerror', None) or e}") from None


def packages(f: Function) -> set[str]:
    """The packages from which the ops of f come."""
    return {_package(node.op) for node in f.nodes}


_OWN = "anyshape", "anyshape_ops"


def is_package(name: str) -> bool:
    """Tests whether ops may come from a module: one of our own packages, of those of registered ops, or a module that is imported already.
    Any other name in a file is not searched for: finding a submodule would import its parent."""
    return (
        name in _OWN or name in map(_package, registry.all_ops().values()) or ("." not in name and name in sys.modules)
    )


def _package(op: OpDef) -> str:
    return op.relation.__module__.partition(".")[0]


def _head(f: Function) -> Record:
    """Makes the record of a function's signature, which is read without the function."""
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
    """Records counts and reasons of the compile, but no times and nothing of later calls."""
    own = {f.name: getattr(report, f.name) for f in fields(report) if f.name[0] != "_"}
    later = ("finished", "compiled_after_first_call", "variants", "rebuilt", "policy", "precision")
    return {name: v for name, v in own.items() if isinstance(v, int | list | str) and name not in later}


def read_report(report: Report, record: Record) -> None:
    """Reads what `report_record` wrote into a report, and nothing else of the file."""
    for name in report_record(report).keys() & record.keys():
        if isinstance(record[name], type(getattr(report, name))):
            setattr(report, name, record[name])


def _programs(plan: Plan, builder: Builder, options: Options) -> Record:
    """Records the programs of a plan; none where a rank is known at run time only, or kernels are interpreted: such plans are compiled when
    they are loaded."""
    straight = _straight(plan)
    kernels = [k for s in straight for p in (s.program, *s.program.functions) for k in p.kernels]
    if not all(isinstance(k, NativeKernel) for k in kernels):
        straight = []
    writer = ProgramWriter(builder, target_called(options.target))
    programs = [writer.program(s.program) for s in straight]
    return {"programs": programs, "common": writer.common(), "guarded": bool(straight) and straight[-1].is_guarded}


def _straight(plan: Plan) -> list[ProgramPlan]:
    """Lists the plan and the variants behind it, as far as they are straight."""
    plans: list[ProgramPlan] = []
    following: Plan | None = plan
    while isinstance(following, ProgramPlan):
        plans.append(following)
        following = following.compiled_general
    return plans
