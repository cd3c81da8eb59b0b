"""`anyshape batch`: files in, files out, whole or not at all; messages; bounded memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anyshape.cli.main import main
from tests.resident import LINUX
from tests.tables.live.saved import assert_has_results, expected_columns, saved_model, text_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tables")
    saved_model(path)
    pq.write_table(text_table(100), path / "in.parquet", row_group_size=17)
    (path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text_table(100).to_pylist()))
    return path


def batch(folder: Path, *words: str) -> int:
    return main(["batch", str(folder / "text.anyshape"), *(str(folder / w) if "." in w else w for w in words)])


@pytest.mark.parametrize("end", ["parquet", "jsonl"])
@pytest.mark.parametrize("rows", ["7", "1024"])
def test_a_file_becomes_a_file_with_results(end: str, rows: str, folder: Path, capsys: Any) -> None:
    assert batch(folder, f"in.{end}", "out.parquet", "--rows", rows, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == 100 and answer["batch"].startswith("batch (axis 0 of ids")
    result = pq.read_table(folder / "out.parquet")
    assert result["id"].to_pylist() == [*range(100)]
    assert_has_results(result, expected_columns(text_table(100), folder / "text.anyshape"))


def test_lines_of_json_and_names_of_columns(folder: Path) -> None:
    table = text_table(9).rename_columns(["id", "tokens", "w"])
    pq.write_table(table, folder / "renamed.parquet")
    assert batch(folder, "renamed.parquet", "out.jsonl", "--columns", "ids=tokens", "--outputs", "pooled=vector") == 0
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in lines] == [*range(9)] and {*lines[0]} == {"id", "tokens", "w", "vector"}


def test_a_table_may_take_its_own_place(folder: Path) -> None:
    pq.write_table(text_table(50), folder / "own.parquet")
    assert batch(folder, "own.parquet", "own.parquet", "--rows", "8") == 0
    assert pq.read_table(folder / "own.parquet").schema.names[-1] == "states"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["in.parquet", "out.csv"], "out.csv: a table is a file that ends in .parquet or .jsonl"),
        (["none.parquet", "new.parquet"], "none.parquet: No such file or directory"),
        (["bad.parquet", "new.parquet"], "bad.parquet: Parquet magic bytes"),
        (["short.parquet", "new.parquet"], "short.parquet: "),
        (["bad.jsonl", "new.parquet"], "bad.jsonl: JSON parse error"),
        (["empty.jsonl", "new.parquet"], "empty.jsonl: "),
        (["in.parquet", "no/new.parquet"], "new.parquet: No such file or directory"),
        (
            ["in.parquet", "new.parquet", "--columns", "ids=tokens"],
            "column tokens: expected a column for the input ids",
        ),
        (["in.parquet", "new.parquet", "--columns", "ids=w"], "column w: expected i64[length] in each row"),
        (["in.parquet", "new.parquet", "--columns", "ids"], "--columns must be INPUT=COLUMN"),
        (["in.parquet", "new.parquet", "--batch-dim", "time"], "no input has a dim time"),
        (["in.parquet", "new.parquet", "--workers", "2"], "--workers is for --address"),
        (["refused.parquet", "new.parquet", "--rows", "16"], "row 70 of the table: gather: index 77 is out of range"),
        (["refused.jsonl", "new.jsonl"], "row 70 of the table: gather: index 77 is out of range"),
    ],
)
def test_messages_and_no_file(words: list[str], message: str, folder: Path, capsys: Any) -> None:
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    (folder / "short.parquet").write_bytes((folder / "in.parquet").read_bytes()[:-9])
    (folder / "bad.jsonl").write_text('{"ids": [1, }\n')
    (folder / "empty.jsonl").write_text("")
    pq.write_table(text_table(100, refused=70), folder / "refused.parquet")
    (folder / "refused.jsonl").write_text("\n".join(map(json.dumps, text_table(100, refused=70).to_pylist())))
    assert batch(folder, *words) == 2
    assert message in capsys.readouterr().err
    assert not list(folder.glob("new*")) and not list(folder.glob(".new-*"))


def test_a_damaged_page_in_the_middle(folder: Path, capsys: Any) -> None:
    data = bytearray((folder / "in.parquet").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = os.urandom(64)
    (folder / "damaged.parquet").write_bytes(data)
    code = batch(folder, "damaged.parquet", "new.parquet")
    assert code in (0, 2)
    assert bool(list(folder.glob("new*"))) == (code == 0) and not list(folder.glob(".new-*"))
    (folder / "new.parquet").unlink(missing_ok=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_no_half_table(number: signal.Signals, folder: Path, tmp_path: Path) -> None:
    long = pa.concat_tables([text_table(2000)] * 40)
    pq.write_table(long, tmp_path / "long.parquet")
    command = [sys.executable, "-m", "anyshape.cli.main", "batch", str(folder / "text.anyshape")]
    process = subprocess.Popen([*command, str(tmp_path / "long.parquet"), str(tmp_path / "out.parquet")])
    while process.poll() is None and not list(tmp_path.glob(".new-*")):
        time.sleep(0.01)
    process.send_signal(number)
    code = process.wait(300)
    if code == 0:
        pytest.skip("the command was done before the signal")
    assert code == {signal.SIGTERM: 2, signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    assert not (tmp_path / "out.parquet").exists()
    assert bool(list(tmp_path.glob(".new-*"))) == (number == signal.SIGKILL)


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 2), ("SIGINT", 130)])
def test_a_signal_whose_error_is_dropped_ends_the_command_too(number: str, code: int, folder: Path) -> None:
    """Python drops errors of `__del__`, and so that of a signal which arrives there."""
    script = f"""
import os, signal, sys
from anyshape.cli import batch, main
class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})
        for _ in range(1000): pass
def pieces(tables, source, rows, original=batch._pieces):
    for piece in original(tables, source, rows):
        Dropping()
        yield piece
batch._pieces = pieces
sys.exit(main.main(sys.argv[1:]))
"""
    words = ["batch", str(folder / "text.anyshape"), str(folder / "in.parquet"), str(folder / "new.parquet")]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.returncode == code and "Exception ignored in" in done.stderr, done.stderr
    assert not list(folder.glob("new*")) and not list(folder.glob(".new-*"))


@pytest.mark.skipif(not LINUX, reason="the system does not tell what is resident")
def test_memory_does_not_grow_with_the_table(folder: Path, tmp_path: Path) -> None:
    """A table of sixty times the rows adds less than a quarter of its bytes to what is resident at most."""
    script = (
        "import sys; from anyshape.cli.main import main; assert main(sys.argv[1:]) == 0;"
        "print(*(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    table, most = text_table(2000, longest=40), []
    for times in (1, 60):
        with pq.ParquetWriter(tmp_path / "in.parquet", table.schema) as writer:
            for _ in range(times):
                writer.write_table(table)
        command = [sys.executable, "-c", script, "batch", str(folder / "text.anyshape"), str(tmp_path / "in.parquet")]
        done = subprocess.run(
            [*command, str(tmp_path / "out.parquet"), "--rows", "256"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        most.append(int(done.stdout.split()[-1]))
    grown = predicted_bytes(tmp_path / "out.parquet")
    assert most[1] - most[0] < grown / 4, (most, grown)


def predicted_bytes(path: Path) -> int:
    """The bytes of a table in memory."""
    return int(pq.read_table(path).nbytes)
