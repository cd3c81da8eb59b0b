"""A saved model on each node: where it is, copied once where it is not, and refused from a folder that others may write."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import AnyshapeError, ArgumentError, SavedFileError
from anyshape.ray.model_file import ModelFile, bytes_of, header_of, private_folder
from tests.tables.models import centred_model


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: Any) -> str:
    """The path of a saved model; the folder for temporary files is another one than of other tests."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "model.anyshape"
    anyshape.compile(centred_model()).save(path)
    return str(path)


def test_a_file_that_is_on_the_node_is_used_where_it_is(saved: str) -> None:
    assert ModelFile(saved, header_of(saved), None).here() == Path(saved)


@pytest.mark.parametrize("there", [None, b"", b"anyshape\r\n\x1a\n, and another model"])
def test_a_file_that_is_not_on_the_node_is_copied_once(there: bytes | None, saved: str, tmp_path: Path) -> None:
    fetched: list[int] = []
    original = shutil.copy(saved, tmp_path / "original")

    def content() -> Any:
        fetched.append(1)
        return bytes_of(original)

    file = ModelFile(saved, header_of(saved), content)
    os.unlink(saved)
    if there is not None:
        Path(saved).write_bytes(there)
    copies = [file.here() for _ in range(3)]
    assert len(set(copies)) == 1 and len(fetched) == 1 and copies[0].read_bytes() == Path(original).read_bytes()
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(anyshape.load(copies[0])(x), x - 1)
    with pytest.raises(SavedFileError, match="is not on this node"):
        ModelFile(saved, file.header, None).here()


def test_a_folder_that_others_may_write_is_refused(saved: str) -> None:
    folder = private_folder()
    assert private_folder() == folder and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(AnyshapeError, match="not a folder of this user's alone"):
        private_folder()
    folder.rmdir()
    folder.symlink_to(os.path.dirname(saved))
    with pytest.raises(AnyshapeError, match="not a folder of this user's alone"):
        private_folder()


def test_what_is_no_saved_model(saved: str) -> None:
    for path in (__file__, os.path.dirname(saved), saved + ".none"):
        with pytest.raises(ArgumentError, match=r"is not a saved model, which workers map: anyshape compile"):
            header_of(path)
