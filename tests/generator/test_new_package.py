"""`anyshape-gen new-package`: a repository that works at once, or none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape_gen import new_package as module
from anyshape_gen.cli import main
from anyshape_testing.process.profile import LONG

ROOT = Path(__file__).parents[2]
NAME = "brand_new_ops"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("company")
    assert main(["new-package", NAME, "--out", str(folder)]) == 0
    assert [p.name for p in folder.iterdir()] == [NAME], "nothing is left beside it"
    return folder / NAME


def make(repository: Path, *words: str, is_installed: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs `make` where the package is installed as far as an entry point goes, in this environment."""
    site = repository.parent / "site"
    info = site / f"{NAME}-0.1.0.dist-info"
    if not info.exists():
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{NAME} = {NAME}:OPS\n")
    rooms = [
        *([site] if is_installed else []),
        repository,
        *(ROOT / room for room in ("runtime", "generator", "generated", "testing")),
    ]
    own = {k: v for k, v in os.environ.items() if k != "LAW_COUNTS"}  # what this op counts is none of our ops'
    environment = {**own, "PYTHONPATH": os.pathsep.join(map(str, rooms)), "ANYSHAPE_EXAMPLES": "5"}
    command = ["make", "SETUP=", f"BIN={Path(sys.executable).parent}", *words]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)


def test_files(repository: Path) -> None:
    files = {p.relative_to(repository).as_posix() for p in repository.rglob("*") if p.is_file()}
    assert files > {
        "pyproject.toml", "specs/ops.yaml", "specs/spec.schema.json", f"{NAME}/__init__.py", f"{NAME}/versions.json",
        f"{NAME}/tests/test_agreement.py",
        "tests/test_models.py", "tests/test_engines.py", ".github/workflows/ci.yml", "Makefile", "README.md", ".gitignore",
        "docs/ops/index.md", f"docs/ops/{NAME}_gate.md",
    }  # fmt: skip
    assert f'{NAME} = "{NAME}:OPS"' in (repository / "pyproject.toml").read_text()
    assert "../cost.md" not in (repository / "docs/ops/index.md").read_text(), "a page of anyshape's own"


def test_its_specs_need_no_advice(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--specs",
        str(repository / "specs"),
        "--package",
        NAME,
        "--out",
        str(repository),
        "--docs",
        str(repository / "docs/ops"),
    ]
    assert main(["check", *words]) == 0
    assert "0 not current" in capsys.readouterr().out
    assert main(["gen", *words]) == 0
    assert "warning" not in capsys.readouterr().err


def test_its_tests_pass(repository: Path) -> None:
    done = make(repository, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "28 generated files, 0 not current" in done.stdout
    assert f"1a interpreter == reference: 1 ops, 5 random calls of 5 drawn; at least 5 ({NAME}_gate)" in done.stdout


def test_its_check_fails_after_an_edit(repository: Path) -> None:
    spec = repository / "specs/ops.yaml"
    text = spec.read_text()
    spec.write_text(text.replace("rows of nothing", "nothing"))
    try:
        done = make(repository, "check")
        assert done.returncode != 0 and f"changed: {NAME}/relations/ops.py" in done.stdout
    finally:
        spec.write_text(text)


@pytest.mark.skipif(not LONG, reason="ANYSHAPE_LONG")
def test_its_targets_for_other_engines(repository: Path) -> None:
    elsewhere = make(
        repository, "torch", "RANKS=2:2", "TORCH_SETUP=", f"TORCH_BIN={Path(sys.executable).parent}", is_installed=False
    )
    for done in (make(repository, "onnxruntime", "RANKS=2:2"), elsewhere):
        assert done.returncode == 0, done.stdout + done.stderr
    assert (repository / f"build/onnxruntime/lib{NAME}.so").exists()
    assert len([*(repository / "build/torch").glob("*.whl")]) == 1
    words = [sys.executable, "-m", "pytest", "-q", "tests/test_engines.py"]
    done = make(repository, "--eval", f"engines:\n\t{' '.join(words)}", "engines")
    assert re.search(r"(1 passed, 1 skipped|2 passed)", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "needs a name in lower case"),
        ("", "needs a name in lower case"),
        ("My_Ops", "needs a name in lower case"),
        ("my-ops", "needs a name in lower case"),
        ("../escape", "needs a name in lower case"),
        ("_private", "needs a name in lower case"),
        ("9ops", "needs a name in lower case"),
        ("öps", "needs a name in lower case"),
        ("a" * 51, "needs a name in lower case"),
        ("class", "is a word of Python"),
        ("match", "is a word of Python"),
        ("json", "there is a module json already, Python's own"),
        ("numpy", "there is a module numpy already, at "),
        ("anyshape_ops", "there is a module anyshape_ops already, at "),
    ],
)
def test_bad_names_are_refused(
    name: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-package", *([] if name is None else [name]), "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_plain_name_is_let_pass() -> None:
    module.check_name("a" * 50)
    module.check_name("ops2_of_us")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_exists_is_not_replaced(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / NAME
    {"folder": place.mkdir, "file": place.touch, "link": lambda: place.symlink_to("nowhere")}[kind]()
    assert main(["new-package", NAME, "--out", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err and [*tmp_path.iterdir()] == [place]


def test_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(module, "generated", no_room)
    assert main(["new-package", NAME, "--out", str(tmp_path / "a/b")]) == 2
    assert "No space left" in capsys.readouterr().err and not [*tmp_path.iterdir()]


def test_an_out_that_is_a_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["new-package", NAME, "--out", str(tmp_path / "file/deeper")]) == 2
    assert "Not a directory" in capsys.readouterr().err
