"""A saved model on each node of a cluster: at the path it has for the caller, or copied there once.

In: the path of a saved model, and a way to its bytes. Out: on any node the path of an equal file, which all workers of the node map, so
that they share the pages of its weights. Files are the same if their headers are, which have checksums of all that is in them; `load`
checks the rest.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, ArgumentError, SavedFileError
from anyshape.files import is_saved, open_plain, replacing
from anyshape.vm.executable.saved.container import HEADER


@dataclass(frozen=True)
class ModelFile:
    """A saved model as the caller has it. `content` fetches its bytes; None: it is on all nodes."""

    path: str
    header: bytes
    content: Callable[[], NDArray[np.uint8]] | None

    def here(self) -> Path:
        """The path of the file on this node; it is written if it is not there. Raises SavedFileError for a node without it."""
        own = Path(self.path)
        if self._is_at(own):
            return own
        if self.content is None:
            raise SavedFileError(
                f"{own} is not on this node, or is another file here; every node was the caller's when predict was called, so that it was "
                "not sent: call predict once the other nodes are there, or keep the file where all nodes see it"
            )
        copy = private_folder() / f"{hashlib.sha256(self.header).hexdigest()}.anyshape"
        if not self._is_at(copy):
            with replacing(copy, mode=0o600) as file:
                file.write(self.content().data)
        return copy

    def _is_at(self, path: Path) -> bool:
        try:
            with open_plain(path) as file:
                return file.read(len(self.header)) == self.header
        except OSError:
            return False


def header_of(path: str) -> bytes:
    """The header of a saved model. Raises ArgumentError for another file."""
    if not is_saved(path):
        raise ArgumentError(
            f"{path} is not a saved model, which workers map: anyshape compile {path} -o model.anyshape"
        )
    with open_plain(path) as file:
        return file.read(HEADER.size)


def bytes_of(path: str) -> NDArray[Any]:
    """The bytes of a file, mapped."""
    with open_plain(path) as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def private_folder() -> Path:
    """A folder of this user's for models on this node; what is in it is run. Raises AnyshapeError where others may write."""
    folder = Path(tempfile.gettempdir()) / f"anyshape-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise AnyshapeError(f"{folder} is not a folder of this user's alone, and what is in it would be run; remove it")
    return folder
