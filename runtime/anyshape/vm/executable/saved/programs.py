"""Conversion of programs to records and back: the table and the machine code are blobs, constants are arrays, the rest is data.

In: a program whose kernels are machine code, and the builder of the file; or a record and the open file. Out: a record, or a program. All
kernels of a file are linked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anyshape.dims import Cond, Dim, SizeReader, SizeWriter
from anyshape.dtypes import parse_dtype
from anyshape.lower.gemm.library import elements_of, library_key, library_object, resolve
from anyshape.lower.llvm.jit import keep_object, load_objects
from anyshape.lower.target import Target
from anyshape.vm.compiling.kernels import ENTRY, MachineCode, NativeKernel
from anyshape.vm.executable.saved.container import Builder, Container
from anyshape.vm.native import loop_objects
from anyshape.vm.program.table import CheckRecord, Program, ResultType

Record = dict[str, Any]


class ProgramWriter:
    """Writer of records of programs that share symbols and machine code."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.builder, self.target = builder, target
        self.size = SizeWriter()
        self.codes: dict[str, MachineCode] = {}
        """Machine code by symbol, which is a hash of the text."""

    def program(self, p: Program) -> Record:
        return {
            "name": p.name,
            "code": self.builder.blob(p.code.astype("<i8").tobytes()),
            "registers": p.registers,
            "regions": p.regions,
            "constants": [self.builder.array(a) for a in p.constants],
            "kernels": [[k.name, k.errors, self._code(k)] for k in p.kernels],
            "checks": [self._check(c) for c in p.checks],
            "results": [[r.name, str(r.dtype)] for r in p.results],
            "arguments": p.arguments,
            "functions": [self.program(f) for f in p.functions],
            "passes": p.passes,
            "returns": p.returns,
            "roomy": p.roomy,
            "overwrites": p.overwrites,
        }

    def _code(self, kernel: Any) -> int:
        assert isinstance(kernel, NativeKernel) and isinstance(kernel.code, MachineCode)
        self.codes.setdefault(kernel.code.symbol, kernel.code)
        return list(self.codes).index(kernel.code.symbol)

    def _check(self, c: CheckRecord) -> list[Any]:
        parts = [p if isinstance(p, str) else self.size(p) for p in c.parts]
        return [parts, [self.size(s) for s in c.symbols], c.registers, c.equation, c.op, c.source]

    def common(self) -> Record:
        """Makes the record of what all programs refer to, once, after their own records."""
        codes = [[c.symbol, self.builder.blob(c.image), c.imports] for c in self.codes.values()]
        elements = elements_of(i for c in self.codes.values() for i in c.imports)
        shared = {library_key(self.target, e): library_object(self.target, e) for e in elements} | loop_objects()
        objects = [[key, self.builder.blob(image)] for key, image in shared.items()]
        return {"sizes": self.size.table, "codes": codes, "objects": objects}


class ProgramReader:
    """Reader of programs over the constants of an open file."""

    def __init__(self, container: Container, common: Record, target: Target) -> None:
        self.container = container
        self.size = SizeReader(common["sizes"])
        self.codes = _linked(container, common, target)

    def program(self, record: Record) -> Program:
        constants = tuple(map(self.container.array, record["constants"]))
        kernels = tuple(NativeKernel(name, tuple(errors), self.codes[k]) for name, errors, k in record["kernels"])
        return Program(
            name=record["name"],
            code=np.frombuffer(self.container.blob(record["code"]), "<i8").astype(np.int64),
            registers=record["registers"],
            regions=record["regions"],
            constants=constants,
            kernels=kernels,
            checks=tuple(self._check(*c) for c in record["checks"]),
            results=tuple(ResultType(name, parse_dtype(dtype)) for name, dtype in record["results"]),
            arguments=tuple(record["arguments"]),
            functions=tuple(map(self.program, record["functions"])),
            passes=tuple(record["passes"]),
            returns=record["returns"],
            roomy=tuple(record["roomy"]),
            overwrites=tuple((int(k), int(j)) for k, j in record["overwrites"]),
        )

    def _check(
        self,
        parts: Sequence[Any],
        symbols: Sequence[Any],
        registers: Sequence[int],
        equation: str,
        op: str,
        source: str,
    ) -> CheckRecord:
        read = [self.size(p) for p in parts]
        said = tuple(p if isinstance(p, str | Dim | Cond) else str(p) for p in read)
        return CheckRecord(said, tuple(map(self.size, symbols)), tuple(registers), equation, op=op, source=source)


def _linked(container: Container, common: Record, target: Target) -> list[MachineCode]:
    """Links all kernels. The library of products and the native loop, which all models share, go to the object cache first."""
    for key, k in common["objects"]:
        keep_object(key, container.blob(k))
    codes = [(symbol, container.blob(k), tuple(imports)) for symbol, k, imports in common["codes"]]
    if not codes:
        return []
    imports = resolve(dict.fromkeys(i for _, _, names in codes for i in names), target)
    loaded = load_objects([image for _, image, _ in codes], [s for s, _, _ in codes], imports)
    return [MachineCode(ENTRY(loaded.address(s)), loaded, s, image, names) for s, image, names in codes]


def constants_of(programs: Iterable[Record]) -> list[int]:
    """The numbers of the arrays that programs run on."""
    return list(dict.fromkeys(k for p in programs for k in (*p["constants"], *constants_of(p["functions"]))))
