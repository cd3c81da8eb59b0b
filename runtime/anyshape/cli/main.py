"""The entry point of `anyshape`.

In: words. Out: text, or JSON with `--json`; for anything wrong one message and exit code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress

from anyshape.cli.answer import Answer, as_json
from anyshape.cli.parser import parser
from anyshape.errors import AnyshapeError, ArgumentError, library_error

_REPEATED = ("at", "columns", "dim", "input", "keep", "models", "outputs", "param", "shape", "solve", "stage")
"""Options that may be passed more than once"""


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of few characters still gets a text
            stream.reconfigure(errors="backslashreplace")
    try:
        args = _parsed(argv)
        try:
            _demand_values(args)
            answer: Answer = args.command(args)
            _put(as_json(answer.data) if args.json else answer.text)
            return answer.code
        except AnyshapeError as e:
            return _refused(args, e)
        except MemoryError:
            return _refused(args, AnyshapeError("there is not enough memory"))
        except ImportError as e:
            return _refused(args, library_error(e))
        except BrokenPipeError:
            raise
        except OSError as e:
            return _refused(args, AnyshapeError(f"{e.filename or 'a file'}: {e.strerror or e}"))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who read the output has enough
        _silence()
        return 0
    except _Unwritten as e:
        _silence()
        with suppress(OSError):
            print(f"anyshape: standard output cannot be written: {e}", file=sys.stderr, flush=True)
        return 2


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses arguments. The last positional of a command may stand behind options, where argparse does not look for it if it is optional:
    the command's default `last` names it. `--help` and `--version` print, and end the process: raises _Unwritten where their text is
    lost."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            known = parser()
            args, rest = known.parse_known_args(argv)
    except SystemExit:
        if said.getvalue():
            _put(said.getvalue().rstrip("\n"))
        raise
    if len(rest) == 1 and not rest[0].startswith("-") and args.last and getattr(args, args.last) is None:
        setattr(args, args.last, rest[0])
    elif rest:
        known.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _demand_values(args: argparse.Namespace) -> None:
    """Raises ArgumentError for an option whose value is `--`, which argparse takes for no value at all."""
    for name, value in vars(args).items():
        if isinstance(value, list) and not (all(isinstance(v, str) for v in value) and name in _REPEATED):
            raise ArgumentError(f"--{name.replace('_', '-')} has no value")


class _Unwritten(Exception):
    """Standard output takes no more."""


def _put(text: str) -> None:
    """Prints an answer, at once. Raises BrokenPipeError, and _Unwritten for other errors of standard output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as e:
        raise _Unwritten(e.strerror or str(e)) from None


def _silence() -> None:
    """Lets what is left in the buffer of standard output go nowhere, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(args: argparse.Namespace, e: AnyshapeError) -> int:
    """Prints why a command fails, as JSON too if asked for. Returns the exit code."""
    with suppress(OSError):
        print(f"anyshape: {e}", file=sys.stderr, flush=True)
    if args.json:
        _put(as_json({"error": type(e).__name__, "message": str(e)}))
    return 2


if __name__ == "__main__":
    sys.exit(main())
