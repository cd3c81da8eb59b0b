"""Builds the playground: `python -m website.playground.build FOLDER`, or `make playground`.

In: this repository, the packages PyYAML, Jinja2 and MarkupSafe of this environment, and Pyodide, an interpreter of Python as WebAssembly,
which npm fetches. Out: a folder that any server of static files can serve, and that loads nothing from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from website.playground.gallery import SPECS, gallery

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYODIDE = "pyodide@314.0.7"
OF_PYODIDE = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
    "package.json",
)
PACKAGES = {"PyYAML": "yaml", "Jinja2": "jinja2", "MarkupSafe": "markupsafe"}
OURS = {
    "runtime/anyshape": "anyshape",
    "generator/anyshape_gen": "anyshape_gen",
    "generated/anyshape_ops": "anyshape_ops",
    "website/playground/python/anyshape_playground": "anyshape_playground",
    "website/playground/standins": "",
}
LEFT_OUT = {
    "anyshape": ("cli", "custom_ops", "frontends", "onnxruntime", "quantisation", "serving", "torch"),
    "anyshape_ops": ("strategies", "onnx", "aten"),
}
"""Rooms that no call of the page loads"""
READ = (".py", ".j2", ".mjs")


class Missing(Exception):
    """Something that the page is built of is not to be had here; the message says what, and how to get it."""


def build(folder: Path) -> None:
    """Raises Missing."""
    folder.mkdir(parents=True, exist_ok=True)
    fetch_pyodide(folder / "pyodide")
    for path in (HERE / "page").iterdir():
        shutil.copy(path, folder)
    (folder / "gallery.json").write_text(json.dumps(gallery()), encoding="utf-8")
    with tempfile.TemporaryDirectory() as sources:
        for source, place in files():
            (Path(sources) / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, Path(sources) / place)
        compile_all(folder / "pyodide", Path(sources))
        pack(Path(sources), folder / "python.zip")


def fetch_pyodide(folder: Path) -> None:
    """Fetches the interpreter by npm, from the registry that npm is configured for, unless it is there. Raises Missing."""
    version = json.dumps(PYODIDE)
    stamp = folder / "version.json"
    if stamp.is_file() and stamp.read_text() == version:
        return
    if shutil.which("npm") is None:
        raise Missing(
            "npm is missing, which fetches Pyodide; install Node.js and npm, as by apt-get install nodejs npm"
        )
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(["npm", "pack", "--silent", PYODIDE], cwd=temporary, capture_output=True, text=True)
        archives = [*Path(temporary).glob("*.tgz")]
        if done.returncode or not archives:
            raise Missing(f"npm cannot fetch {PYODIDE}: {done.stderr.strip() or done.stdout.strip()}")
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archives[0]) as archive:
            for name in OF_PYODIDE:
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    raise Missing(f"{PYODIDE} has no {name}")
                (folder / name).write_bytes(member.read())
    stamp.write_text(version)


def files() -> Iterator[tuple[Path, str]]:
    """The files of Python and their places below `python.zip`'s root. Raises Missing."""
    for source, place in OURS.items():
        for path in sorted((ROOT / source).rglob("*")):
            parts = path.relative_to(ROOT / source).parts
            if path.suffix in READ and "__pycache__" not in parts and parts[0] not in LEFT_OUT.get(place, ()):
                yield path, str(Path(place, *parts))
    yield SPECS / "library.yaml", "library.yaml"
    for package, module in PACKAGES.items():
        try:
            listed = distribution(package).files or []
        except ImportError:
            raise Missing(f"{package} is missing; install it, as by pip install {package}") from None
        for file in listed:
            if file.suffix == ".py" and file.parts[0] == module:
                yield Path(str(file.locate())), str(file)
            if "licen" in file.name.lower():
                yield Path(str(file.locate())), f"licences/{package}.txt"


def compile_all(pyodide: Path, sources: Path) -> None:
    """Compiles to bytecode, by the interpreter that will read it, if Node is here: the page then begins in a third of the time."""
    if shutil.which("node") is None:
        print("node is missing: the page is built without bytecode, and begins more slowly", file=sys.stderr)
        return
    done = subprocess.run(
        ["node", str(HERE / "compile.mjs"), str(pyodide.resolve()), str(sources)], capture_output=True, text=True
    )
    if done.returncode:
        raise Missing(f"Node cannot run Pyodide: {done.stderr.strip()[-2000:]}")


def pack(folder: Path, archive: Path) -> None:
    """Packs a folder, the same bytes for the same files."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (2000, 1, 1, 0, 0, 0))
                packed.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the playground.")
    parser.add_argument("folder", type=Path)
    try:
        build(parser.parse_args().folder)
    except Missing as e:
        print(f"the playground cannot be built: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
