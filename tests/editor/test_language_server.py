"""The language server over its standard input and output; `make test-editor` installs the package that it needs."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="make test-editor")
SPEC = """language: 1
ops:
  halve:
    summary: "Half of each element: \U0001f600."
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = x[*i] / 2"
    reference: x / x.dtype.type(2)
    examples:
      - {x: {value: [2.0]}, y: {value: [1.0]}}
"""


class Client:
    """An editor."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-m", "anyshape_gen", "language-server"]
        path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while head := out.readline():
            if head.lower().startswith(b"content-length:"):
                size = int(head.split(b":")[1])
                while out.readline().strip():
                    pass
                self.messages.put(json.loads(out.read(size)))

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, params: Any, **more: Any) -> None:
        data = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request; an error of the server fails."""
        self.number += 1
        self.send(method, params, id=self.number)
        while (message := self.messages.get(timeout=120)).get("id") != self.number or "method" in message:
            pass
        assert "error" not in message, message
        return message["result"]

    def diagnostics(self) -> Any:
        """The next findings of a file."""
        while (message := self.messages.get(timeout=120)).get("method") != "textDocument/publishDiagnostics":
            pass
        return message["params"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    editor = Client(tmp_path)
    capabilities = {"general": {"positionEncodings": ["utf-16"]}}
    answer = editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
    assert answer["serverInfo"]["name"] == "anyshape-gen" and answer["capabilities"]["hoverProvider"]
    editor.send("initialized", {})
    yield editor
    editor.ask("shutdown", None)
    editor.send("exit", None)
    assert editor.process.wait(timeout=60) == 0


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = tmp_path / "specs/ops.yaml"
    path.parent.mkdir()
    path.write_text(SPEC)
    return path.as_uri()


def opened(client: Client, uri: str, text: str) -> None:
    client.send(
        "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "yaml", "version": 1, "text": text}}
    )


def changed(client: Client, uri: str, text: str) -> None:
    client.send(
        "textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]}
    )


def at(uri: str, line: int, character: int) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}


def test_findings_come_and_go(client: Client, uri: str) -> None:
    opened(client, uri, SPEC.replace("x[*i] /", "z[*i] /"))
    (error,) = client.diagnostics()["diagnostics"]
    assert error["range"] == {"start": {"line": 6, "character": 21}, "end": {"line": 6, "character": 22}}
    assert error["severity"] == 1 and error["message"].startswith("unknown name 'z'")
    changed(client, uri, SPEC)
    assert client.diagnostics() == {"uri": uri, "diagnostics": []}
    changed(client, uri, SPEC.replace("x[*i] /", "x[*i").replace("F[*d]", "F[*d", 1))
    assert client.diagnostics()["diagnostics"]
    changed(client, uri, SPEC.replace("language: 1", "language: 2"))
    assert "version 2 of the language is newer" in client.diagnostics()["diagnostics"][0]["message"]


def test_columns_are_in_the_units_of_the_editor(client: Client, uri: str) -> None:
    opened(client, uri, SPEC.replace("\U0001f600.", "\U0001f600\U0001f600", 1).replace("    summary:", "    summery:"))
    messages = client.diagnostics()["diagnostics"]
    assert any("unknown key 'summery'" in d["message"] for d in messages)
    text = SPEC.replace("    kernel:", "    kernel: # \U0001f600\n     ")
    changed(client, uri, text)
    assert client.ask("textDocument/hover", at(uri, 7, 8))["contents"]["value"].startswith("**y**: output")


def test_completion_hover_and_declaration(client: Client, uri: str) -> None:
    opened(client, uri, SPEC)
    client.send("textDocument/didSave", {"textDocument": {"uri": uri}})
    labels = {item["label"]: item for item in client.ask("textDocument/completion", at(uri, 6, 20))}
    assert labels["x"]["detail"] == "input" and labels["sum"]["documentation"].startswith("The sum") and "d" in labels
    shown = client.ask("textDocument/hover", at(uri, 6, 16))
    assert "- from 0 to below `d`" in shown["contents"]["value"] and shown["range"]["start"] == {
        "line": 6,
        "character": 16,
    }
    place = client.ask("textDocument/definition", at(uri, 6, 21))
    assert place == {"uri": uri, "range": {"start": {"line": 4, "character": 13}, "end": {"line": 4, "character": 14}}}


def test_an_index_out_of_bounds_is_found_when_the_file_is_saved(client: Client, uri: str) -> None:
    opened(client, uri, SPEC.replace("F[*d]", "F[n]").replace("y[*i] = x[*i]", "y[i] = x[i + 1]"))
    client.send("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert "out of bounds" in client.diagnostics()["diagnostics"][0]["message"]


def test_what_is_no_spec_has_no_answers(client: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "ci.yaml").as_uri()
    opened(client, uri, "on: [push]\n")
    for other in (
        uri,
        "untitled:Untitled-1",
        "file:///",
        "nothing at all",
        (tmp_path / "specs/not_open.yaml").as_uri(),
    ):
        assert client.ask("textDocument/completion", at(other, 0, 1)) == []
        assert client.ask("textDocument/hover", at(other, 0, 1)) is None
        assert client.ask("textDocument/definition", at(other, 0, 1)) is None


def test_hostile_messages_do_not_end_it(client: Client, uri: str) -> None:
    for data in (
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":7000,"method":"textDocument/hover","params":5}',
        b"[" * 100_000,
    ):
        client.raw(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    client.raw(b"garbage\r\n\r\nContent-Length: x\r\n\r\n")
    opened(client, uri, SPEC)
    for text in (
        "",
        "\0",
        "[" * 30_000,
        "ops:\n" + "".join(" " * k + "a:\n" for k in range(500)),
        "x" * 300_000,
        "&a [*a]",
        SPEC[:-200],
    ):
        changed(client, uri, text)
        for line, character in ((0, 0), (0, 10**9), (10**9, 0), (2**31 - 1, 2**31 - 1)):
            client.ask("textDocument/completion", at(uri, line, character))
            client.ask("textDocument/hover", at(uri, line, character))
    changed(client, uri, SPEC)
    assert client.ask("textDocument/hover", at(uri, 6, 16)) is not None
