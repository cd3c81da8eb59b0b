"""`anyshape-gen doctor`: for each check what it has to catch, and what it has to let pass."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

import anyshape
from anyshape.disk_cache import DiskCache
from anyshape.lower.target import host_target
from anyshape_gen.__main__ import main
from anyshape_gen.doctor import environment
from anyshape_gen.doctor.answer import Level, checked, ok
from anyshape_gen.doctor.package import clashes, current, demands, entry_point, package, versions
from anyshape_gen.doctor.project import Package, located
from tests.generator.installing import installed
from tests.generator.test_command_arguments import PLAIN, ROOT

NAME = "examined_ops"
SPEC = """ops:
  examined_op:
    summary: Half of each element.
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = x[*i] / 2"
    reference: x / x.dtype.type(2)
    examples:
      - {x: {value: [-2.0]}, y: {value: [-1.0]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder of a package that is installed, in which all is well."""
    with installed(NAME, SPEC, tmp_path, monkeypatch):
        yield tmp_path


def one(folder: Path) -> Package:
    (package,) = located(str(folder))
    return package


def levels(lines: Any) -> list[Level]:
    return [line.level for line in lines]


# --- the environment ----------------------------------------------------------------------------------------------


def test_python() -> None:
    assert environment.python((3, 11, 0), "cpython").level is Level.OK
    line = environment.python((3, 10, 9), "cpython")
    assert line.level is Level.ERROR and "cpython 3.10.9, anyshape needs >=3.11" in line.text
    assert environment.python((3, 12, 0), "pypy").level is Level.WARNING


@pytest.mark.parametrize(
    ("version", "demand", "allowed"),
    [
        ("1.26", ">=1.26", True), ("1.26.4", ">=1.26,<2", True), ("2.0", ">=1.26,<2", False), ("1.9", ">=1.26", False),
        ("0.1.0", "==0.1.0", True), ("0.1", "==0.1.0", True), ("0.1.1", "==0.1.0", False), ("1.5", "~=1.4", True),
        ("2.0", "~=1.4", False), ("1.4.9", "~=1.4.2", True), ("1.5", "~=1.4.2", False), ("3", "!=3", False), ("3", "", True),
        ("2.13.0+cpu", ">=2.13", True), ("3.1", "==3.*", True), ("4", "<=3.9", False), ("4", ">4", False), ("what", "<1", True),
    ],
)  # fmt: skip
def test_versions_and_demands(version: str, demand: str, allowed: bool) -> None:
    assert environment.satisfies(version, demand) is allowed


def test_requirements() -> None:
    assert {line.level for line in environment.requirements("anyshape")} == {Level.OK}
    assert environment.required("numpy>=1.26").level is Level.OK
    line = environment.required("numpy>=99")
    assert line.level is Level.ERROR and ">=99 is needed" in line.text and line.fix == "pip install 'numpy>=99'"
    line = environment.required("no-such-package>=1; python_version > '3'")
    assert line.level is Level.ERROR and line.fix == "pip install 'no-such-package>=1'"
    assert levels(environment.requirements("no-such-package")) == [Level.WARNING]


def test_a_package_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "damaged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("damaged_module\n")
    (tmp_path / "damaged_module.py").write_text("raise ImportError('libgone.so: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    line = environment.required("damaged>=1")
    assert line.level is Level.ERROR and "libgone.so" in line.text and "--force-reinstall damaged" in line.fix
    (tmp_path / "damaged_module.py").write_text("raise ZeroDivisionError('not an error of imports')\n")
    sys.modules.pop("damaged_module", None)
    (line,) = checked("damaged", lambda: environment.required("damaged>=1"))
    assert line.level is Level.ERROR and "ZeroDivisionError" in line.text


def test_another_version_of_anyshape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "VERSION", "0.0.9")
    first = next(iter(environment.requirements("anyshape")))
    assert first.level is Level.ERROR and f"{anyshape.__version__} is installed, the code is of 0.0.9" in first.text


@pytest.mark.parametrize(
    ("changes", "level"),
    [({}, Level.OK), ({"vector_bytes": 16}, Level.WARNING), ({"features": "+sse2"}, Level.ERROR)],
)
def test_processors(changes: dict[str, Any], level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"triple": "x86_64-unknown-linux-gnu", "features": "+sse4.2,+avx2", "vector_bytes": 32, **changes}
    target = replace(host_target(), **plain)
    monkeypatch.setattr(import_module("anyshape.lower.target"), "host_target", lambda: target)
    assert environment.processor().level is level


def test_an_llvm_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library() -> None:
        raise OSError("libLLVM.so: cannot open shared object file")

    monkeypatch.setattr(import_module("anyshape.lower.target"), "host_target", no_library)
    (line,) = checked("LLVM", environment.processor)
    assert line.level is Level.ERROR and "libLLVM.so" in line.text


def test_caches(tmp_path: Path) -> None:
    assert environment.cache(DiskCache(tmp_path / "new/cache")).level is Level.OK
    line = environment.cache(DiskCache(None))
    assert line.level is Level.WARNING and "there is no cache" in line.text
    (tmp_path / "new/cache").chmod(0o777)
    assert "others may write into it" in environment.cache(DiskCache(tmp_path / "new/cache")).text
    (tmp_path / "file").touch()
    line = environment.cache(DiskCache(tmp_path / "file/cache"))
    assert line.level is Level.WARNING and "cannot be used: Not a directory" in line.text


def test_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert environment.compiler().text == "/usr/bin/cc"
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    monkeypatch.setattr(environment, "_version", lambda name: "0.13" if name == "ziglang" else None)
    assert environment.compiler() == ok("C compiler", "the package ziglang, 0.13")
    monkeypatch.setattr(environment, "_version", lambda name: None)
    assert environment.compiler().level is Level.WARNING


def test_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_requires", lambda name: ["torch>=2.13; extra == 'torch'", "torch-other>=9"])
    for version, level, said in (
        ("2.14", Level.OK, "2.14"),
        ("2.1", Level.WARNING, ">=2.13 is needed"),
        (None, Level.WARNING, "not installed"),
    ):
        monkeypatch.setattr(environment, "_version", lambda name, v=version: v)
        line = environment.optional("torch", "modules of PyTorch", "torch")
        assert line.level is level and said in line.text
    assert line.fix == "pip install 'anyshape[torch]'"


# --- a package ----------------------------------------------------------------------------------------------------


def test_a_package_in_which_all_is_well(folder: Path) -> None:
    lines = [*package(str(folder))]
    assert set(levels(lines)) == {Level.OK}, [*map(str, lines)]
    assert [line.subject.removeprefix(NAME).strip() for line in lines] == [
        "versions", "dependencies", "entry point", "specs", "files", "ops",
    ]  # fmt: skip
    by_name = [*package(NAME)]
    assert [replace(line, text="") for line in by_name] == [replace(line, text="") for line in lines]


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        (None, Level.WARNING, "taken for the first ones"),
        ('{"language": 1, "interface": 9}', Level.ERROR, "install a later anyshape"),
        ('{"language": 9, "interface": 1}', Level.ERROR, "its specs are of language 9"),
        ('{"language": 0, "interface": 1}', Level.WARNING, "it was generated for language 0"),
        ("{", Level.ERROR, "does not have the versions"),
    ],
)
def test_versions_of_a_package(text: str | None, level: Level, said: str, folder: Path) -> None:
    path = folder / NAME / "versions.json"
    path.unlink() if text is None else path.write_text(text)
    (line,) = checked(NAME, lambda: versions(one(folder)))
    assert line.level is level and said in line.text


@pytest.mark.parametrize(
    ("listed", "level"),
    [
        ('"anyshape"', Level.OK), ('"anyshape[torch]>=0.1"', Level.OK), ('"anyshape<0.1"', Level.ERROR),
        ('"anyshape==9.9"', Level.ERROR), ('"numpy"', Level.WARNING), ('"anyshape-gen>=9"', Level.WARNING),
    ],
)  # fmt: skip
def test_what_a_project_demands_of_anyshape(listed: str, level: Level, folder: Path) -> None:
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('"anyshape"]', f"{listed}]", 1))
    assert levels(demands(one(folder))) == [level]


def test_entry_points(folder: Path) -> None:
    assert levels(entry_point(one(folder))) == [Level.OK]
    project = folder / "pyproject.toml"
    text = project.read_text()
    project.write_text(text.replace(f"{NAME}:OPS", f"{NAME}:TABLE"))
    (line,) = entry_point(one(folder))
    assert line.level is Level.ERROR and f'write {NAME} = "{NAME}:OPS" there' in line.fix
    project.write_text(text)
    (folder / f"{NAME}-0.1.0.dist-info/entry_points.txt").unlink()
    (line,) = entry_point(one(folder))
    assert line.level is Level.WARNING and "is not installed" in line.text


def test_an_entry_point_of_two_packages(folder: Path) -> None:
    announce(folder, "other", f"{NAME} = json:OPS")
    first, second = entry_point(one(folder))
    assert first.level is Level.ERROR and f"json:OPS is installed under the name {NAME} too" in first.text
    assert second.level is Level.OK


def announce(folder: Path, distribution: str, point: str) -> None:
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{point}\n")


def test_files_that_are_not_current(folder: Path) -> None:
    spec = folder / "specs/ops.yaml"
    spec.write_text(SPEC.replace("Half of each", "A half of each"))
    specs, files = current(one(folder))
    assert specs.level is Level.OK and files.level is Level.ERROR and "are not what the specs generate" in files.text
    assert files.fix.startswith("anyshape-gen --specs ")


def test_specs_with_errors(folder: Path) -> None:
    (folder / "specs/ops.yaml").write_text(SPEC.replace("x[*i]", "z[*i]"))
    (line,) = current(one(folder))
    assert line.level is Level.ERROR and "specs/ops.yaml:6:22: unknown" in line.text


def test_specs_of_a_newer_language(folder: Path) -> None:
    (folder / "specs/ops.yaml").write_text(f"language: 99\n{SPEC}")
    (line,) = current(one(folder))
    assert line.level is Level.ERROR and "version 99 of the language is newer" in line.text


def test_advice_about_specs(folder: Path) -> None:
    (folder / "specs/ops.yaml").write_text(SPEC.replace("{value: [-2.0]}, y: {value: [-1.0]}", "[2], y: [2]"))
    assert levels(current(one(folder))) == [Level.OK, Level.WARNING, Level.ERROR]


def test_a_package_without_its_specs_is_not_generated_again(folder: Path) -> None:
    (folder / "specs").rename(folder / "gone")
    (line,) = current(one(folder))
    assert line.level is Level.OK and "no specs are beside" in line.text
    assert levels(clashes(one(folder))) == [Level.OK], "its ops are those of its code"


def test_ops_of_one_name(folder: Path) -> None:
    announce(folder, "another", "another = another_ops:OPS")
    (folder / "another_ops.py").write_text(
        "OPS = {'static.examined_op': None, 'dyn.examined_op': None, 'unlike': None}\n"
    )
    try:
        (line,) = clashes(one(folder))
        assert line.level is Level.ERROR and line.subject == f"{NAME} op examined_op"
        assert "another_ops has an op of this name too" in line.text and f"rename it in the specs of {NAME}" in line.fix
    finally:
        sys.modules.pop("another_ops", None)


def test_another_package_that_cannot_be_loaded(folder: Path) -> None:
    announce(folder, "another", "another = another_ops_gone:OPS")
    (line,) = clashes(one(folder))
    assert line.level is Level.ERROR and line.fix == "reinstall or uninstall another_ops_gone"


def test_an_op_of_anyshape_under_its_name(folder: Path) -> None:
    (folder / "specs/ops.yaml").write_text(SPEC.replace("examined_op", "softmax"))
    (line,) = clashes(one(folder))
    assert "anyshape_ops has an op of this name too" in line.text


@pytest.mark.parametrize(
    ("project", "said"),
    [
        (None, "neither the folder of a pyproject.toml nor the name of an installed package"),
        ("[project]\nname = 'x'\nversion = '1'\n", "announces no ops"),
        ("[project", "Expected"),
    ],
)
def test_what_is_no_package(project: str | None, said: str, tmp_path: Path) -> None:
    if project is not None:
        (tmp_path / "pyproject.toml").write_text(project)
    (line,) = checked("place", lambda: package(str(tmp_path)))
    assert line.level is Level.ERROR and said in line.text


@pytest.mark.parametrize("place", ["", "json", "no_such_ops", "..", "a.b.c", "x" * 5000, "/dev/null"])
def test_places_that_are_none(place: str) -> None:
    (line,) = checked("place", lambda: package(place))
    assert line.level is Level.ERROR


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--package", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["errors"] == 0 and answer["warnings"] == sum(line["level"] == "warning" for line in answer["lines"])
    assert {"subject": f"{NAME} versions", "level": "ok", "text": "language 1, interface 1", "fix": ""} in answer[
        "lines"
    ]
    (folder / NAME / "api.py").write_text("")
    assert main(["doctor", "--package", str(folder)]) == 1
    shown = capsys.readouterr().out
    assert (
        f"error    {NAME} files: 1 are not what the specs generate" in shown
        and "\n         fix: anyshape-gen --specs" in shown
    )
    assert shown.rstrip().splitlines()[-1].startswith("1 errors, ")


def test_a_place_that_is_no_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--package", "\udcff"]) == 1
    assert "error    \\udcff: SpecError" in capsys.readouterr().out


def test_the_environment_alone(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    subjects = {line[9:].split(": ")[0] for line in lines}
    required = {environment._name(d) for d in metadata.requires("anyshape") or () if "extra ==" not in d}
    assert subjects >= {
        "Python",
        "anyshape",
        "anyshape-gen",
        "LLVM",
        "cache",
        "C compiler",
        *environment.OPTIONAL,
        *required,
    }


def test_it_answers_where_nothing_is_installed() -> None:
    code = PLAIN.format(runtime=str(ROOT / "runtime"), generator=str(ROOT / "generator"))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "doctor", "--package", "."], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error    ." in done.stdout
