"""`anyshape_gen --target torch` as far as torch is not needed: the files, the wheel, and what the command refuses."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape.vm.export import own_levels
from anyshape_gen.cli import main
from anyshape_gen.torch_kernels import platform_of
from anyshape_gen.wheel import read_project, wheel

SPEC = """
ops:
  twice:
    summary: Twice x.
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = x[*i] * 2"
    reference: x * x.dtype.type(2)
    examples:
      - {x: {value: [1.5]}, y: {value: [3.0]}}
"""
PROJECT = """
[project]
name = "My.Ops-torch"
version = "1.2"
requires-python = ">=3.11"
dependencies = ["anyshape[torch]", "numpy>=2"]
[project.optional-dependencies]
test = ["anyshape[test]", "pytest; python_version > '3'"]
[project.entry-points."anyshape.ops"]
my_ops_torch = "my_ops_torch_ops:OPS"
[project.scripts]
twice = "my_ops_torch:main"
"""


def words(folder: Path, *more: str) -> list[str]:
    return [
        "--target",
        "torch",
        "--specs",
        str(folder / "my_ops"),
        "--package",
        "my_ops_torch",
        "--out",
        str(folder),
        "--kernels",
        "none",
        *more,
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_ops").mkdir()
    (tmp_path / "my_ops/mine.yaml").write_text(SPEC)
    return tmp_path


def test_two_packages_and_a_wheel_that_pip_installs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(folder)) == 0
    assert "my_ops_torch-0.1.0-py3-none-any.whl" in "".join(p.name for p in folder.glob("*.whl"))
    assert "import my_ops_torch_ops\n" in (folder / "my_ops_torch/__init__.py").read_text()
    (path,) = folder.glob("*.whl")
    before = path.read_bytes()
    assert main(words(folder)) == 0 and main(words(folder, "--check")) == 0
    assert path.read_bytes() == before and "whl" not in capsys.readouterr().out.split("generated files are current")[-1]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(path)], check=True)
    (info,) = (folder / "site").glob("*.dist-info")
    assert "[anyshape.ops]\nmy_ops_torch = my_ops_torch_ops:OPS" in (info / "entry_points.txt").read_text()
    assert (folder / "site/my_ops_torch_ops/kernels/mine.py").exists()


def test_a_wheel_with_compiled_kernels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    level = own_levels().levels[0].name
    assert main(words(folder, "--kernels", level, "--ranks", "2:2", "--dtypes", "f64")) == 0
    (path,) = folder.glob("*.whl")
    assert re.fullmatch(r"my_ops_torch-0\.1\.0-py3-none-manylinux_2_\d+_\w+\.whl", path.name)
    with zipfile.ZipFile(path) as z:
        table = json.loads(z.read("my_ops_torch_ops/compiled/my_ops_torch.kernels.json"))
        assert z.read("my_ops_torch_ops/compiled/libmy_ops_torch.so").startswith(b"\x7fELF")
        (said,) = (z.read(n).decode() for n in z.namelist() if n.endswith("/WHEEL"))
    assert "Root-Is-Purelib: false" in said and f"Tag: {path.stem.partition('0.1.0-')[2]}" in said
    kinds = {name: [entry["kinds"] for entry in entries] for name, entries in table["operators"].items()}
    assert kinds == {"twice": [[["f64", 2]]], "twice__gradient": [[[["f64", 2]], "(True,)", ["f64", 2]]]}
    assert "no kernel" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--kernels", "z80"], "there is no target 'z80'"),
        (["--kernels", "wasm32"], "wasm32 has no shared libraries"),
        (["--kernels", "x86-64-v2", "--param", "scale=1"], "has a parameter scale"),
    ],
)
def test_kernels_that_cannot_be_compiled_are_refused(
    more: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, *more)) == 2
    err = capsys.readouterr().err
    assert said in err and "is written by --kernels none" in err
    assert not [*folder.glob("*.whl")]


def test_options_of_kernels_are_for_torch_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--specs", str(folder / "my_ops"), "--package", "mine", "--out", str(folder), "--ranks", "0:2"]) == 2
    assert "--kernels, --dtypes, --ranks and --param are for --target torch" in capsys.readouterr().err


def test_the_platform_is_that_of_the_c_library() -> None:
    """The names of versions stand in the library's table of strings."""

    def elf(machine: int, *names: bytes) -> bytes:
        return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little") + b"\0".join((b"", *names, b""))

    assert platform_of(elf(62)) == "manylinux_2_17_x86_64"
    assert platform_of(elf(62, b"GLIBC_2.2.5", b"libm.so.6")) == "manylinux_2_17_x86_64"
    assert platform_of(elf(183, b"GLIBC_2.17", b"GLIBC_2.29", b"GLIBC_2.3.4")) == "manylinux_2_29_aarch64"
    assert platform_of(elf(243, b"libc.musl-riscv64.so.1")) == "linux_riscv64"


def test_an_edited_spec_makes_another_wheel(folder: Path) -> None:
    assert main(words(folder)) == 0
    (path,) = folder.glob("*.whl")
    before = path.read_bytes()
    (folder / "my_ops/mine.yaml").write_text(SPEC.replace("x[*i] * 2", "2 * x[*i]"))
    assert main(words(folder)) == 0
    assert path.read_bytes() != before


def test_a_wheel_says_what_the_project_says() -> None:
    name, archive = wheel(read_project(PROJECT, "pyproject.toml"), {"my_ops_torch/__init__.py": b"x = 1\n"})
    assert name == "my_ops_torch-1.2-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        said = {n.rpartition("/")[2]: z.read(n).decode() for n in z.namelist()}
    for line in (
        "Name: My.Ops-torch",
        "Version: 1.2",
        "Requires-Python: >=3.11",
        "Requires-Dist: anyshape[torch]",
        "Requires-Dist: numpy>=2",
        "Provides-Extra: test",
        "Requires-Dist: anyshape[test]; extra == 'test'",
        "Requires-Dist: pytest; (python_version > '3') and extra == 'test'",
    ):
        assert line in said["METADATA"].splitlines()
    assert "[console_scripts]\ntwice = my_ops_torch:main" in said["entry_points.txt"]
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    assert f"my_ops_torch/__init__.py,sha256={digest},6" in said["RECORD"].splitlines()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs project.name"),
        ('[project]\nname = "x"\n', "needs project.version"),
        ('[project]\nname = "x"\nversion = 1\n', "needs project.version, a text, got 1"),
        ("[project", "Expected"),
        ("project = 1", "must be a table"),
        ('[project]\nname = "x"\nversion = "1"\ndependencies = "numpy"', "project.dependencies must be a list"),
    ],
)
def test_a_project_of_which_no_wheel_can_be_written_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_project(text, "pyproject.toml")
    assert str(refused.value).startswith("pyproject.toml: ") and words in str(refused.value)


def test_a_project_that_does_not_announce_the_ops_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(folder)) == 0
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("my_ops_torch_ops:OPS", "my_ops:OPS"))
    assert main(words(folder)) == 2
    assert re.search(r'anyshape\.ops" needs my_ops_torch = "my_ops_torch_ops:OPS", got', capsys.readouterr().err)


def test_ops_of_anyshape_need_no_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--target", "torch"]) == 2
    assert "--target torch needs --package" in capsys.readouterr().err


@pytest.mark.parametrize("specs", ["my_ops_torch", "my_ops_torch_ops"])
def test_no_package_replaces_the_specs(specs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / specs).mkdir()
    (tmp_path / specs / "mine.yaml").write_text(SPEC)
    assert (
        main(
            ["--target", "torch", "--specs", str(tmp_path / specs), "--package", "my_ops_torch", "--out", str(tmp_path)]
        )
        == 1
    )
    assert "choose another --out" in capsys.readouterr().err
