"""Every error anyshape raises on bad input, as one small tree under AnyshapeError.

A message says what was wanted, what was got and where it came from. `Where` names the place: a YAML line, an
ONNX node, an argument of a call. Nothing else in the library raises a bare KeyError or AssertionError at a user.
"""

from __future__ import annotations

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
    """A spec does not say something valid; the message lists every finding as `file:line:col: text`, line and caret."""


class TypeRelationError(AnyshapeError):
    """A call of an op whose operands do not fit its signature; names the op, the operand, expected and got. `call`: its node, for whoever
    can tell more of where the operands came from; None where that is not known."""

    call: object | None = None


class ShapeError(TypeRelationError):
    """A dim, a rank or a constraint between dims does not hold, at compile time or at run time."""


class DtypeError(TypeRelationError, TypeError):
    """A dtype is not in the class that the signature asks for, or two that must be equal differ. Also a TypeError, as Python has it."""


class ArgumentError(AnyshapeError, ValueError):
    """An argument of a call into a compiled model, or of the building API, is not what its type asks for. Also a ValueError, as Python has
    it."""


class ParseError(AnyshapeError):
    """Text that does not follow its grammar: a type, a dim, or the text form of a graph."""


class VerifyError(AnyshapeError):
    """A graph or program breaks an invariant; raised by the verifier between passes."""


class ModelError(AnyshapeError):
    """A model file cannot be read: truncated, cyclic, names missing or doubled, attributes of the wrong type."""


class SavedFileError(ModelError):
    """A saved model that is damaged, that other code made, or that is for another processor."""


class UnsupportedError(AnyshapeError):
    """A valid request for something this version does not do; lists all of it at once, with op, opset and reason."""


class Cancelled(AnyshapeError):
    """A call was told to stop before it was over: `Executable.cancel` from another thread. The executable can be called again."""


class DeadlineExceeded(Cancelled):
    """A call was not over at the deadline that it was given."""


class OverflowedError(AnyshapeError):
    """A size computed from shapes does not fit a signed 64-bit integer."""
