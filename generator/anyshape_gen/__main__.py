"""Runs the generator's command, `python -m anyshape_gen` or `anyshape-gen`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from anyshape_gen.arguments import read_arguments

THRESHOLDS = (20_000, 50, 100)
"""Thresholds of the garbage collector's generations: specs and what is proved of them live to the end of the process, and with Python's
defaults a seventh of the time to prove indices goes into visiting them again and again"""


def main(argv: Sequence[str] | None = None, alone: bool = False) -> int:
    """Runs the command. Returns the exit code: 2, with a message, where a package that the generator needs is not installed. `alone`: the
    process does nothing else, so that its garbage collector may be set for the command."""
    options = read_arguments(argv)  # --help and --version need no package
    if options.command == "doctor":  # which says what is not installed
        from anyshape_gen.doctor.command import doctor

        return doctor(options)
    try:
        from anyshape_gen import cli
    except ModuleNotFoundError as e:
        print(f"anyshape_gen needs {e.name}, which is not installed: pip install 'anyshape[gen]'", file=sys.stderr)
        return 2
    if alone:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
    return cli.main(argv)


def process() -> int:
    """The entry point of a process of its own."""
    return main(alone=True)


if __name__ == "__main__":
    sys.exit(process())
