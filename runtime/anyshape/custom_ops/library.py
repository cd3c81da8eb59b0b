"""A library of custom ops: exported functions, and the adapter that onnxruntime loads them by.

In: ops, what a user chose of their calls, a target. Out: `libNAME.so`, for `SessionOptions.register_custom_ops_library`, and beside it the
object and the C text that it was linked from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyshape.custom_ops.c_tables import OpKernel, c_text, name_of
from anyshape.custom_ops.calls import KernelCall, calls_of, demand_comparable
from anyshape.errors import UnsupportedError
from anyshape.files import PathLike, write_files
from anyshape.graph.opdef import OpDef
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import ExportTarget, Request, export_several
from anyshape.vm.export.interface import checked_name
from anyshape.vm.export.op_calls import Choice, demand_choice
from anyshape.vm.export.shared_library import link_shared, linker

DOMAIN = "anyshape"
"""The domain of nodes, unless a user says another one"""


@dataclass(frozen=True, kw_only=True)
class Library:
    """Exported kernels of ops. `text` is the C text around `object`."""

    name: str
    domain: str
    target: ExportTarget
    kernels: tuple[OpKernel, ...]
    object: bytes
    text: str

    def counts(self) -> dict[str, int]:
        """The number of kernels of each op, by the name that nodes call it."""
        names = [name_of(k.call.op) for k in self.kernels]
        return {n: names.count(n) for n in dict.fromkeys(names)}

    def lines(self) -> list[str]:
        """A line for each kernel: the op, the types of its inputs, values of parameters."""
        return [k.call.described for k in self.kernels]

    def write(self, folder: PathLike) -> list[Path]:
        """Writes the files; their paths, the library last. Raises ArgumentError where nothing links a library here."""
        linker(self.target)  # before anything is written
        source = f"{self.name}.onnxruntime.c"
        files = write_files(folder, {f"{self.name}.o": self.object, source: self.text.encode()})
        return [*files, link_shared(Path(folder), self.name, self.target, [source])]


def library(ops: Sequence[OpDef], choice: Choice, name: str, target: ExportTarget, domain: str = DOMAIN) -> Library:
    """Exports the calls of ops that a user chose. Raises UnsupportedError for an op that cannot be a custom op, and ArgumentError for a
    choice that fits none."""
    demand_choice(ops, choice)
    return library_of([c for op in dict.fromkeys(ops) for c in calls_of(op, choice)], name, target, domain)


def library_of(calls: Sequence[KernelCall], name: str, target: ExportTarget, domain: str = DOMAIN) -> Library:
    """Exports calls, those of one op side by side. Raises UnsupportedError for one that cannot be exported, or told from another."""
    checked_name(name)
    if target.pointer_bytes != 8:
        raise UnsupportedError(f"{target.name} has no shared libraries, which onnxruntime loads custom ops from")
    for call in calls:
        demand_comparable(call)
    functions = {f"{name}_{k}": call.function for k, call in enumerate(calls)}
    exported = export_several(functions, name, Request(target, make_options({"dims": {}})))
    kernels = tuple(OpKernel(call, m) for call, (m, _) in zip(calls, exported.programs, strict=True))
    text = c_text(name, domain, kernels)
    return Library(name=name, domain=domain, target=target, kernels=kernels, object=exported.object, text=text)
