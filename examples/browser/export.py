"""Puts a page into a folder, with the models that it calls, exported for WebAssembly: `python examples/browser/export.py FOLDER`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import anyshape

HERE = Path(__file__).parent
EXAMPLES = HERE.parent
sys.path.insert(0, str(EXAMPLES / "one_op"))


def main(folder: Path) -> None:
    from run import export, install

    with tempfile.TemporaryDirectory() as installed:
        install(Path(installed))  # before anything asks which ops there are
        export(folder, "--target", "wasm32")
        dates = anyshape.compile(EXAMPLES / "dates/dates.onnx", dims={"length": (1, 96)})
        dates.export(folder, name="dates", target="wasm32")
    for name in ("index.html", "page.mjs"):
        shutil.copy(HERE / name, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
