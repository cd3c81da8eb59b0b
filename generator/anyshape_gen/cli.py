"""The generator's command, `python -m anyshape_gen`: generates the package and its pages, or checks that they are current.

In: command line arguments. Out: files, and 0 if all is well, 1 if `--check` finds a difference, 2 if a spec is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from anyshape.errors import AnyshapeError, MissingPackageError, SpecError, library_error
from anyshape.package_versions import GROUP
from anyshape_gen.analysis import analyse
from anyshape_gen.arguments import DEFAULT_PACKAGE, printable, read_arguments
from anyshape_gen.emit.standalone import emit_project
from anyshape_gen.generation import Generated, generated, ops_package, own_folders, read_folder
from anyshape_gen.memo import Memo
from anyshape_gen.model.source import NOWHERE, Finding
from anyshape_gen.new_package import new_package
from anyshape_gen.torch_kernels import NONE, compiled
from anyshape_gen.watch import Watch
from anyshape_gen.wheel import read_project, wheel
from anyshape_gen.write import Difference, differences, synchronise

MOST_LINES = 20
KERNELS = "compiled"
"""The folder of compiled kernels in a package of ops, where `anyshape.torch` looks for them"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code."""
    options = read_arguments(argv)
    try:
        return run(options)
    except AnyshapeError as e:
        if options.json:
            tell_json(errors=getattr(e, "findings", ()) or [Finding(NOWHERE, str(e))])
        else:
            print(printable(str(e)), file=sys.stderr)
    except OSError as e:
        text = f"{e.filename or 'output'}: {e.strerror or e}"
        if options.json:
            tell_json(errors=[Finding(NOWHERE, text)])
        else:
            print(printable(text), file=sys.stderr)
    return 2


def run(options: argparse.Namespace) -> int:
    """Runs what the options ask for. Raises SpecError, and OSError for files that cannot be read or written."""
    if options.command == "language-server":
        return language_server()
    if options.command == "new-package":
        print(printable(new_package(options.name, options.out)))
        return 0
    if options.target == "onnx":
        return write_functions(options)
    if options.target == "torch" and options.package == DEFAULT_PACKAGE:
        raise SpecError(
            "--target torch needs --package: anyshape's own ops are operators of torch in anyshape.torch.ops"
        )
    if options.target != "torch" and (options.kernels is not None or chosen_calls(options)):
        raise SpecError("--kernels, --dtypes, --ranks and --param are for --target torch")
    folders = [folder.resolve() for folder in own_folders(options)]
    overlap = [f for f in folders if f in (options.specs.resolve(), *options.specs.resolve().parents)]
    if overlap:
        text = f"the package would be written to {overlap[0]}, which contains the specs: choose another --out"
        if options.json:
            tell_json(errors=[Finding(NOWHERE, text)])
        else:
            print(printable(text), file=sys.stderr)
        return 1
    if options.command == "new-op":
        return new_op(options.name, options.specs / f"{options.file}.yaml")
    if options.command == "watch":
        memo = Memo.standard()
        return Watch(
            options.specs, options.name, ops_package(options), lambda: write(options, memo), options.out
        ).forever()
    if options.check:
        return check(options)
    write(options, Memo.standard())
    return 0


def write(options: argparse.Namespace, memo: Memo) -> tuple[str, ...]:
    """Writes files that differ, prints them and the warnings, and returns the names of all ops. Raises SpecError as `generated` does."""
    result = generated(options, memo)
    project = options.out / "pyproject.toml"
    if options.package != DEFAULT_PACKAGE and not project.exists():
        project.parent.mkdir(parents=True, exist_ok=True)
        project.write_text(emit_project(options.package, ops_package(options)))
        if not options.json:
            print(printable(f"new: {project.as_posix()}, which is not overwritten again"))
    archives = [packed(options, result)] if options.target == "torch" else []
    written = synchronise(result.files, result.owned)
    for path, archive in archives:
        written += write_archive(path, archive)
    if options.json:
        tell_json(warnings=result.advice, files=[(DONE[d.kind], d.path) for d in written])
        return result.ops
    tell([f"{DONE[d.kind]}: {d.path.as_posix()}" for d in written])
    print(f"{len(result.files)} generated files are current")
    tell([f"{f.span}: warning: {f.text}" for f in result.advice], sys.stderr)
    return result.ops


def packed(options: argparse.Namespace, result: Generated) -> tuple[Path, bytes]:
    """The wheel of the packages, by what `pyproject.toml` says of them. Raises SpecError for a project that does not announce the ops."""
    path = options.out / "pyproject.toml"
    project = read_project(path.read_text(encoding="utf-8"), path.as_posix())
    points, place = project.entry_points.get(GROUP, {}), f"{ops_package(options)}:OPS"
    if points.get(options.package) != place:
        raise SpecError(
            f'{path.as_posix()}: project.entry-points."{GROUP}" needs {options.package} = "{place}", got {dict(points)}'
        )
    files = {
        file.relative_to(options.out).as_posix(): text.encode()
        for file, text in result.files.items()
        if any(folder in file.parents for folder in result.owned)
    }
    name, archive = wheel(project, files)
    if options.kernels != NONE and options.command != "watch":
        kernels = compiled(archive, options.package, result.ops, chosen_calls(options))
        files |= {f"{ops_package(options)}/{KERNELS}/{name}": data for name, data in kernels.files.items()}
        name, archive = wheel(project, files, kernels.platform)
        if not options.json:
            tell(kernels.left_out)
    return options.out / name, archive


def chosen_calls(options: argparse.Namespace) -> list[str]:
    """The options of `anyshape export` that choose for which processors and calls there are kernels."""
    words = ["--target", options.kernels] if options.kernels is not None else []
    for option, values in (("--dtypes", options.dtypes), ("--ranks", options.ranks), ("--param", options.param)):
        words += [word for value in values for word in (option, value)]
    return words


def write_archive(path: Path, archive: bytes) -> list[Difference]:
    """Writes a file if it differs; returns the difference."""
    if path.exists() and path.read_bytes() == archive:
        return []
    difference = Difference(path, "changed" if path.exists() else "missing")
    path.write_bytes(archive)
    return [difference]


def write_functions(options: argparse.Namespace) -> int:
    """Writes ops as functions of ONNX, and prints which have none, and why. Raises SpecError for options that are for the package alone."""
    if options.command != "gen" or options.check or options.json or options.prove:
        raise SpecError("--target onnx writes one file, and takes none of --check, --prove, --json and other commands")
    try:
        from anyshape_gen.emit.operators.onnx_functions import (
            onnx_functions,  # the rest of the generator does not load onnx
        )
    except ImportError as e:
        raise library_error(e) from e

    emitted = onnx_functions(analyse(read_folder(options.specs), memo=Memo.standard()), options.package)
    path = options.out / f"{options.package}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(emitted.model.SerializeToString(deterministic=True))
    for name, reason in emitted.left_out.items():
        print(f"no function: {name}: {reason}")
    print(f"{path.as_posix()}: {len(emitted.model.functions)} functions of domain {options.package}")
    return 0


def language_server() -> int:
    """Serves an editor. Raises MissingPackageError, with the extra that has it, where the package for that is not installed."""
    try:
        from anyshape_gen.editor.server import main as serve  # the rest of the generator does not load pygls
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        text = "the language server needs the package pygls, which is not installed: pip install 'anyshape[editor]'"
        raise MissingPackageError(text, name=e.name) from e
    return serve()


def check(options: argparse.Namespace) -> int:
    """Prints which files differ from what the specs generate; returns 0 if none does, else 1."""
    result = generated(options, Memo() if options.prove else Memo.standard())
    different = differences(result.files, result.owned)
    if options.json:
        tell_json(warnings=result.advice, files=[(d.kind, d.path) for d in different])
        return 1 if different else 0
    tell(different)
    print(
        f"{len(result.files)} generated files, {len(different)} not current" + ("; run `make gen`" if different else "")
    )
    return 1 if different else 0


DONE = {"missing": "new", "changed": "changed", "orphan": "removed"}
"""What `write` reports of each kind of difference"""


def tell(lines: Sequence[Difference | str], file: TextIO | None = None) -> None:
    """Prints one line for each, but at most MOST_LINES, to `file` or to standard output."""
    shown = lines if len(lines) <= MOST_LINES else lines[: MOST_LINES - 1]
    for difference in shown:
        print(printable(str(difference)), file=file)
    if len(shown) < len(lines):
        print(f"and {len(lines) - len(shown)} more", file=file)


def tell_json(
    errors: Sequence[Finding] = (), warnings: Sequence[Finding] = (), files: Sequence[tuple[str, Path]] = ()
) -> None:
    """Prints findings, and files that differ or were written, as one JSON object. A finding of no place in a file has null for it."""
    findings = []
    for severity, group in (("error", errors), ("warning", warnings)):
        for f in group:
            file, line, col = (None, None, None) if f.span == NOWHERE else (f.span.file, f.span.line, f.span.col)
            findings.append({"file": file, "line": line, "col": col, "severity": severity, "message": f.text})
    answer = {"findings": findings, "files": [{"path": path.as_posix(), "state": state} for state, path in files]}
    print(json.dumps(answer, indent=1))


def new_op(name: str | None, path: Path) -> int:
    """Appends a commented skeleton to a spec file."""
    if not name or not name.isidentifier() or not name.islower():
        print(f"new-op needs a name in lower case, like rms_norm; got {name!r}", file=sys.stderr)
        return 2
    for other in sorted({path, *path.parent.glob("*.yaml")}):
        if other.exists() and f"\n  {name}:" in other.read_text():
            print(f"{other} already has an op {name}", file=sys.stderr)
            return 2
    old = path.read_text() if path.exists() else "# yaml-language-server: $schema=spec.schema.json\n\nops:\n"
    path.write_text(old.rstrip("\n") + "\n" + _SKELETON.replace("NAME", name))
    print(f"{path}: {name} added; edit it, then run `make gen` and `make test OP={name}`")
    return 0


_SKELETON = """
  NAME:
    summary: What it computes, in one line.
    inputs: {x: "T[*d]"}                   # T any dtype; *d any dims, n one dim; the same name twice must be equal
    outputs: {y: "T[*d]"}
    dtypes: {T: float}                     # bool, int, float, number, any, or a list such as [f32, i64]
    # params: {axis: {kind: axis, default: -1}}
    # shape: |                             # what the signature cannot say: `s = …`, `assert condition, "message {n}"`
    kernel: "y[*i] = x[*i]"
    reference: np.copy(x)                  # the same, in np and scipy, from inputs and params alone
    # onnx: {Name: {1: "x"}}
    examples:
      - {x: [2, 3], y: [2, 3]}             # shapes; one `error: text` example for every assert
      - {x: {value: [-1.5, 0.0, 2.0]}, y: {value: [-1.5, 0.0, 2.0]}}    # values, worked out by hand
"""


if __name__ == "__main__":
    sys.exit(main())
