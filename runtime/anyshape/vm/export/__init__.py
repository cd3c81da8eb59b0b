"""Export of compiled models for C: an object file for any of several processors, one header, and weights. docs/export.md is its page.

In: a function, a name, a target. Out: an `Export`, with the content of its files. In the order of the work:

    interface         what C callers see: dims, inputs, outputs
    entry_knowledge   what follows of a program from dims alone
    certificate       what keeps each kernel's accesses in bounds, for people and for what judges it
    plan_code         a function that plans: bytes of the arena, shapes, checks
    run_code          a function that runs: the table as machine code
    level_code        what chooses one of several levels of processors
    entry_code        the functions of the header, over these
    header, weights, linking
    wasm_module, loader   for wasm32 a module that browsers and Node run, and JavaScript that calls it
"""

from anyshape.vm.export.budget import bytes_at
from anyshape.vm.export.exporting import Export, Request, arena_of, certificate_of, export, export_ranks, export_several
from anyshape.vm.export.formula import ArenaFormulas
from anyshape.vm.export.interface import name_from
from anyshape.vm.export.targets import TARGETS, ExportTarget, asking, export_target, own_levels, own_targets

__all__ = [
    "TARGETS",
    "ArenaFormulas",
    "Export",
    "ExportTarget",
    "Request",
    "arena_of",
    "asking",
    "bytes_at",
    "certificate_of",
    "export",
    "export_ranks",
    "export_several",
    "export_target",
    "name_from",
    "own_levels",
    "own_targets",
]
