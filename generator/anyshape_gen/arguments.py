"""Arguments of the generator's command. Nothing is imported that has to be installed, so that `--help` answers everywhere."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from anyshape.code_version import VERSION

DEFAULT_PACKAGE = "anyshape_ops"


def _path(text: str) -> Path:
    """Reads a path. Raises ArgumentTypeError for what no path can be."""
    try:
        with suppress(OSError):
            os.stat(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"it must be a path, got {text!r}: {e}") from None
    return Path(text)


def _name(text: str) -> str:
    """Reads the name of a package or of a file in its folder. Raises ArgumentTypeError for others."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"it must be a name, got {text!r}")
    return text


COMMANDS = ("gen", "check", "new-op", "new-package", "doctor", "watch", "language-server")
JSON = ("gen", "check", "doctor")
"""Commands that print JSON"""
TARGETS = ("anyshape", "onnx", "torch")
_CALLS = (
    (
        "--dtypes",
        "f32,f16",
        "the element types of tensors of compiled kernels, where ops take them (default: f32, else i64)",
    ),
    ("--ranks", "0:4", "the least and the greatest rank of these tensors"),
    (
        "--param",
        "NAME=VALUE",
        "a value of a parameter, for which there are kernels, as scale=0.5; several are several choices",
    ),
)
"""Options that choose the calls that there are compiled kernels for: those of `anyshape export`"""
_EXAMPLES = """\
examples:
  python -m anyshape_gen                                 all ops of specs/, into generated/ and docs/ops/
  python -m anyshape_gen check                           check that these are current; --check is the same
  python -m anyshape_gen check --json                    the same as JSON, with errors and warnings of specs by file, line and col
  python -m anyshape_gen new-op halve                   add a template of a spec to specs/elementwise.yaml
  python -m anyshape_gen watch halve                    generate and test it after every edit
  python -m anyshape_gen new-package my_ops              a repository for ops of your own, my_ops/, with one op, tests and CI
  python -m anyshape_gen doctor --package my_ops         check an environment, and a package, by its name or its folder
  python -m anyshape_gen --package my_ops --out .        a package of your own, from ./specs
  python -m anyshape_gen --target onnx --out build       build/anyshape_ops.onnx: ops as functions of ONNX
  python -m anyshape_gen --target torch --package my_ops_torch --out .     a package and its wheel: ops as operators of PyTorch
  python -m anyshape_gen --target torch --package my_ops_torch --out . --dtypes f32,f64 --ranks 1:3       with kernels for such tensors
"""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyshape_gen",
        description="Generate ops from their specs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"anyshape_gen {VERSION}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=COMMANDS,
        default="gen",
        help="gen: generate the package from the specs (the default); check: write nothing, and exit with 1 if a generated file is "
        "not current; new-op: append a template of a spec; new-package: make a repository of a package of ops; doctor: check what "
        "is installed, and with --package a package; watch: generate and test an op whenever its spec changes; language-server: "
        "answer an editor on standard input and output",
    )
    parser.add_argument("name", nargs="?", help="new-op, watch: the name of the op; new-package: that of the package")
    parser.add_argument("--check", action="store_true", help="the same as the command check")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print findings (file, line, col, severity, message) and changed files as JSON, for editors; exit codes are the same",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="generate all files and prove the indices of all kernels again, changed or not",
    )
    _add_targets(parser)
    _add_places(parser)
    return parser


def _add_targets(parser: argparse.ArgumentParser) -> None:
    """Adds the options of what is generated beside the package."""
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="anyshape",
        help="anyshape: the package; onnx: the file OUT/PACKAGE.onnx, which has each op whose equations are compositions of "
        "ONNX's operators as a function, for any ONNX engine; torch: a package that registers the ops as operators of PyTorch when it is "
        "imported, the package PACKAGE_ops that it reads, and a wheel of both",
    )
    parser.add_argument(
        "--kernels",
        metavar="LEVELS",
        help="torch: the processors that the wheel has compiled kernels for, as `anyshape export --target` names them (default: x86-64-v2, "
        "x86-64-v3 and x86-64-v4, on ARM aarch64-linux-gnu), or none, for a wheel of Python alone, whose kernels are compiled when they "
        "are called",
    )
    for option, form, text in _CALLS:
        parser.add_argument(option, metavar=form, action="append", default=[], help=f"torch: {text}")


def _add_places(parser: argparse.ArgumentParser) -> None:
    """Adds the options of which files are read and written."""
    parser.add_argument("--specs", type=_path, default=Path("specs"), help="the folder of *.yaml specs")
    parser.add_argument(
        "--package",
        default=DEFAULT_PACKAGE,
        help="the name of the generated package; doctor: that of an installed one, or the folder of a repository",
    )
    parser.add_argument(
        "--out",
        type=_path,
        default=Path("generated"),
        help="the folder that holds the package (default: generated; of new-package the working directory)",
    )
    parser.add_argument(
        "--docs", type=_path, help="the folder of the ops' pages (default: docs/ops of this repository)"
    )
    parser.add_argument(
        "--file", type=_name, default="elementwise", help="new-op: the spec file to append to, without .yaml"
    )


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the arguments. `check` becomes `gen` with `--check`. Ends the process, as argparse does, where they are wrong."""
    parser = arguments()
    options = parser.parse_args(argv)
    if options.command == "new-package" and options.out == parser.get_default("out"):
        options.out = Path()
    if options.command == "check":
        options.command, options.check = "gen", True
    if options.command != "doctor" and not options.package.isidentifier():
        parser.error(f"argument --package: it must be a name, got {options.package!r}")
    if options.json and options.command not in JSON:
        parser.error(f"--json is for generating, {', '.join(JSON[1:])} and --check, not for {options.command}")
    return options


def printable(text: str) -> str:
    """The text, in which bytes of paths that are not UTF-8 are escaped: no stream need take them."""
    return text.encode(errors="backslashreplace").decode()
