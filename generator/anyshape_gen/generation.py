"""Generates all files of a package in memory: its code, pages, verdicts on indices, and the schema of its specs.

In: the options of the command, and the folder of specs that they name. Out: the text of every file by path, and warnings about the specs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyshape.errors import SpecError
from anyshape.processors import usable_processors
from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.arguments import DEFAULT_PACKAGE
from anyshape_gen.bounds.report import page as safety_page
from anyshape_gen.bounds.safety import prove_indices
from anyshape_gen.bounds.store import FILE as RECORD
from anyshape_gen.bounds.store import Safety, read_record, record_text
from anyshape_gen.check.advice import advice
from anyshape_gen.emit.package import emit_package
from anyshape_gen.emit.pages.docs import pages
from anyshape_gen.emit.pages.reports import MUTATION, reports
from anyshape_gen.emit.standalone import emit_standalone, emit_torch
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import Analysis
from anyshape_gen.model.source import Finding, Findings
from anyshape_gen.schema import SCHEMA_NAME, schema_text


def ops_package(options: argparse.Namespace) -> str:
    """The name of the package of the ops: for torch not the package itself, whose import imports torch."""
    name: str = options.package
    return f"{name}_ops" if options.target == "torch" else name


def own_folders(options: argparse.Namespace) -> list[Path]:
    """The folders of the generated packages."""
    return [options.out / name for name in dict.fromkeys((options.package, ops_package(options)))]


@dataclass(frozen=True)
class Generated:
    """The generated files, and the folders that contain nothing else."""

    ops: tuple[str, ...]
    files: dict[Path, str]
    owned: list[Path]
    advice: list[Finding]
    """Warnings about the specs"""


def generated(options: argparse.Namespace, memo: Memo) -> Generated:
    """Generates all files in memory. Raises SpecError with every finding of every spec."""
    contents = read_folder(options.specs)
    analysis, safe = prove(analyse(contents, memo=memo), contents, options, memo)
    code = emit_code(analysis, ops_package(options), contents, memo)
    memo.end_round()
    if options.package != DEFAULT_PACKAGE:
        code |= emit_standalone(ops_package(options), options.specs.name)
    if options.target == "torch":
        code |= emit_torch(options.package, ops_package(options), options.specs.name)
    files = {options.out / path: text for path, text in code.items()}
    files[options.specs / SCHEMA_NAME] = schema_text()
    files[record_path(options)] = record_text(analysis, safe)
    owned = own_folders(options)
    docs = options.docs or (Path("docs/ops") if options.package == DEFAULT_PACKAGE else None)
    if docs is not None:
        own = options.package == DEFAULT_PACKAGE
        stored = reports(files[record_path(options)], read(docs.parent / MUTATION))
        files |= {docs / path: text for path, text in pages(analysis, contents, stored, own).items()}
        if options.docs is None:
            files[docs.parent / "index-safety.md"] = safety_page(analysis, safe)
        owned.append(docs)
    return Generated(tuple(a.spec.name for a in analysis.ops), files, owned, advice(analysis))


def read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def record_path(options: argparse.Namespace) -> Path:
    """The file of verdicts on indices, which is part of the generated package."""
    path: Path = options.out / ops_package(options) / RECORD
    return path


def prove(
    analysis: Analysis, contents: Mapping[str, str], options: argparse.Namespace, memo: Memo
) -> tuple[Analysis, dict[str, Safety]]:
    """Proves every index to be in bounds, or marks it to be checked at run time. Raises SpecError for one that can be out of bounds."""
    findings = Findings(sources={path: text.splitlines() for path, text in contents.items()})
    kept = {} if options.prove else read_record(record_path(options))
    proved = prove_indices(analysis, kept, findings, memo, usable_processors())
    findings.raise_if_any()
    return proved


def read_folder(specs: Path) -> dict[str, str]:
    """Reads all specs of a folder, by the path that messages show. Raises SpecError where there are none."""
    paths = sorted(specs.glob("*.yaml"))
    if not paths:
        raise SpecError(f"there are no *.yaml specs in {specs}")
    return read_specs(paths, specs.parent)


def emit_code(analysis: Analysis, package: str, contents: Mapping[str, str], memo: Memo) -> dict[str, str]:
    """Emits the files of the package, {path below the output folder: text}. Raises SpecError for what cannot be emitted."""
    findings = Findings(sources={path: text.splitlines() for path, text in contents.items()})
    files = emit_package(analysis, package, findings, memo)
    findings.raise_if_any()
    return files
