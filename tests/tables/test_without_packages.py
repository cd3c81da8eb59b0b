"""What says which extra is missing where pyarrow or Ray is not installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from anyshape.cli.main import main


@pytest.mark.parametrize(("missing", "words"), [("pyarrow", []), ("ray", ["--address", "auto"])])
def test_the_command_names_the_extra(missing: str, words: list[str], monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else object())
    assert main(["batch", "model.anyshape", "in.parquet", "out.parquet", *words]) == 2
    assert f"pip install 'anyshape[ray]' (there is no package {missing})" in capsys.readouterr().err
