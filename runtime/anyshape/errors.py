"""Every error anyshape raises on bad input, as one small tree under AnyshapeError.

A message says what was expected, what was given and where: a YAML line, an ONNX node, an argument of a call. No bare KeyError or
AssertionError reaches a user.
"""

from __future__ import annotations

import re
from errno import ENOMEM
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

LONGEST_LINE = 1_000
"""The most characters of one line of a message: more are a value of the caller's or a name in a file, whose middle says nothing"""
LONGEST = 20_000
"""The most characters of a message"""


class AnyshapeError(Exception):
    """Base of all errors meant for users. The text leaves out the middle of long lines and the end of long messages; `args` has all."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > LONGEST_LINE:
            text = "\n".join(_shortened(line) for line in text.split("\n"))
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… and {len(text) - LONGEST} more characters"


def _shortened(line: str) -> str:
    """Leaves out the middle of a line that is too long: its beginning says where, its end what to do."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} … {line[-half:]}"


class SpecError(AnyshapeError):
    """A spec is invalid; the message lists every finding as `file:line:col: text`, line and caret. `findings`: the same as objects of the
    generator, none where the error is of no place in a file."""

    findings: tuple[Any, ...] = ()


class TypeRelationError(AnyshapeError):
    """A call of an op whose operands do not fit its signature; names the op, the operand, expected and got. `call`: its node, from
    which callers can derive more about the operands; None where that is not known."""

    call: object | None = None


class ShapeError(TypeRelationError):
    """A dim, a rank or a constraint between dims does not hold, at compile time or at run time."""


class DtypeError(TypeRelationError, TypeError):
    """A dtype is not in the class that the signature requires, or two that must be equal differ. Also a TypeError, as Python has it."""


class ArgumentError(AnyshapeError, ValueError):
    """An argument of a call into a compiled model, or of the building API, does not have the required type. Also a ValueError, as
    Python has it."""


class ColumnError(ArgumentError):
    """A column of a table does not fit the input that it is for: `column`, what was `expected` in each row, and `got`."""

    def __init__(self, column: str, expected: str, got: str) -> None:
        super().__init__(column, expected, got)
        self.column, self.expected, self.got = column, expected, got

    def __str__(self) -> str:
        return str(AnyshapeError(f"column {self.column}: expected {self.expected}, got {self.got}"))


class RowError(AnyshapeError):
    """A model refused a row of a table; `row` is its number, counted from 0 in the table or the batch that `where` names, `reason` what
    the model said."""

    def __init__(self, row: int, where: str, reason: str) -> None:
        super().__init__(row, where, reason)
        self.row, self.where, self.reason = row, where, reason

    def __str__(self) -> str:
        return str(AnyshapeError(f"row {self.row} of the {self.where}: {self.reason}"))


class ParseError(AnyshapeError):
    """Raised for text that does not follow its grammar: a type, a dim, or the text form of a graph."""


class VerifyError(AnyshapeError):
    """A graph or program breaks an invariant; raised by the verifier between passes."""


class ModelError(AnyshapeError):
    """A model file cannot be read: truncated, cyclic, missing or duplicate names, attributes of the wrong type."""


class SavedFileError(ModelError):
    """A saved model is damaged, was made by other code, or is for another processor."""


class UnsupportedError(AnyshapeError):
    """Raised for a valid request that this version does not support; lists all reasons at once, with op, opset and reason."""


class Cancelled(AnyshapeError):
    """A call was stopped before its end, by `Executable.cancel` from another thread. The executable can be called again."""


class DeadlineExceeded(Cancelled):
    """Raised where a call did not end before its deadline."""


class MemoryLimitExceeded(AnyshapeError):
    """Raised where a call needs more memory than `max_memory` allows, before it runs where its sizes decide that."""


class MissingPackageError(AnyshapeError, ModuleNotFoundError):
    """A package is needed that only an extra of anyshape installs; the message has the command. Also a ModuleNotFoundError, as Python has
    it."""


class OverflowedError(AnyshapeError):
    """A size computed from shapes does not fit a signed 64-bit integer."""


OUT_OF_MEMORY = (MemoryError, SystemError, StopIteration)
"""What Python raises when its own allocations fail."""


def library_error(e: BaseException) -> AnyshapeError:
    """The error to raise in place of one that says that the system did not load a package's machine code, or had no memory for a module;
    one of a package that is not installed names the extra that has it; any other is raised again, as of a name that a module does not
    have."""
    if isinstance(e, OUT_OF_MEMORY) or (isinstance(e, OSError) and e.errno == ENOMEM):
        return AnyshapeError(f"{e or type(e).__name__}: there is not enough memory to load a module")
    if not isinstance(e, ImportError):
        raise e
    if isinstance(e, ModuleNotFoundError) and (extra := _extra_with(package := (e.name or "").partition(".")[0])):
        text = f"this needs the package {package}, which is not installed: pip install 'anyshape[{extra}]'"
        return MissingPackageError(text, name=e.name)
    if not (e.path or "").endswith(tuple(EXTENSION_SUFFIXES)):
        raise e
    return AnyshapeError(
        f"{e}: a process whose address space has a limit (ulimit -v, RLIMIT_AS) needs a higher one; otherwise install the package again"
    )


def _extra_with(package: str) -> str:
    """The extra of this distribution that installs a package, by the metadata of the installation: the one of its name if there is, else
    any; empty if none does."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("anyshape") or ()
    except PackageNotFoundError:  # run from a source tree
        return ""
    pattern = re.compile(rf"{re.escape(package)}\b(?!-).*;.*\bextra\s*==\s*['\"]([\w-]+)['\"]")
    extras = [m[1] for r in requirements if package and (m := pattern.match(r))]
    return package if package in extras else next(iter(extras), "")
