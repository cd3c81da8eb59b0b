"""Saved models: one file with programs, machine code and constants, written atomically and mapped when loaded.

In: an executable, or the path of a file. Out: the file, or an executable that was not compiled. `docs/saved-files.md` is the format.
"""

from anyshape.vm.executable.saved.loading import load
from anyshape.vm.executable.saved.saving import save

__all__ = ["load", "save"]
