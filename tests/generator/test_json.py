"""`--json` of the generator: the same findings and exit codes as without it, as one object on standard output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyshape_gen.cli import main
from tests.generator.test_advice import SHAPES

PLACE = ["--package", "mine", "--out", "out"]


def printed_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """The exit code and what is printed as JSON; nothing is printed beside it."""
    code = main([*words, "--json", *PLACE])
    printed = capsys.readouterr()
    assert not printed.err
    return code, json.loads(printed.out)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs/mine.yaml"
    path.write_text(SHAPES)
    return path


def test_files_and_warnings(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, first = printed_by([], capsys)
    assert code == 0
    (warning,) = first["findings"]
    assert (warning["file"], warning["line"], warning["col"], warning["severity"]) == (
        "specs/mine.yaml",
        2,
        3,
        "warning",
    )
    assert warning["message"].startswith("no example of op 'tried' has values")
    assert {"path": "out/mine/api.py", "state": "new"} in first["files"]
    assert printed_by([], capsys) == (0, {"findings": [warning], "files": []})
    assert printed_by(["--check"], capsys) == (0, {"findings": [warning], "files": []})
    assert printed_by(["check"], capsys) == (0, {"findings": [warning], "files": []})
    Path("out/mine/api.py").write_text("")
    assert printed_by(["check"], capsys)[0] == 1
    assert printed_by(["--check"], capsys) == (
        1,
        {"findings": [warning], "files": [{"path": "out/mine/api.py", "state": "changed"}]},
    )


def test_every_error_has_its_place(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(
        SHAPES.replace("x[*i] + x[*i] + n[*i]", "x[*i] + z[*i]").replace("reference: x + x + n", "reference: w")
    )
    assert main(PLACE) == 2
    plain = capsys.readouterr().err
    code, answer = printed_by(["--check"], capsys)
    assert code == 2 and len(answer["findings"]) >= 2 and not answer["files"]
    for f in answer["findings"]:
        assert f["severity"] == "error"
        assert f"{f['file']}:{f['line']}:{f['col']}: {f['message']}" in plain


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--specs", "nowhere"], 2, "there are no *.yaml specs in nowhere"),
        (["--out", "."], 1, "which contains the specs"),
    ],
)
def test_what_is_of_no_place(
    spec: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    extra = ["--package", "specs"] if words == ["--out", "."] else []
    assert main(["--json", *PLACE, *words, *extra]) == code
    (f,) = json.loads(capsys.readouterr().out)["findings"]
    assert f["file"] is None and f["line"] is None and f["col"] is None and message in f["message"]


def test_other_commands_print_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["new-op", "halve", "--json"])
    assert ended.value.code == 2
    assert "--json is for generating, check, doctor and --check, not for new-op" in capsys.readouterr().err
