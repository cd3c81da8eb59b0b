"""A page of a headless browser, driven through its debugging protocol over a pipe: keys, expressions, pictures.

In: a folder to serve, and a page of it. Out: what expressions of JavaScript evaluate to. Nothing but the standard library is used.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urljoin

from anyshape_testing.exports.javascript import command

SECONDS = 300
_KEYS = {"ArrowRight": (39, ""), "ArrowLeft": (37, ""), "Escape": (27, ""), "Tab": (9, ""), "Enter": (13, "\r")}
"""The number of each key, and the text that it types"""

_REDIRECTED = """
import os, sys
ends = [os.dup(int(n)) for n in sys.argv[1:3] for _ in range(3)][2::3]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Runs a command with two descriptors as 3 and 4, which the browser reads from and writes to; copies lie above both."""


class Page:
    """One page. `errors` are what its scripts have thrown or logged as errors, `asked` the addresses that it has fetched."""

    def __init__(self, written: int, read: int, address: str) -> None:
        self._written, self._read = written, read
        self._rest, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self._address = address
        self.send("Page.navigate", url=address)

    def go(self, page: str) -> None:
        """Opens another page of the folder, and waits until it is there with all that it asks for."""
        self.send("Page.navigate", url=urljoin(self._address, f"/{page}"))
        self.wait(f"document.readyState === 'complete' && location.pathname === {f'/{page}'!r}")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol, and waits for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._written, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])

    def value(self, expression: str) -> Any:
        """What an expression evaluates to, as JSON."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until an expression holds."""
        end = time.monotonic() + SECONDS
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < end, (
                f"never: {condition}; the page says {self.value('document.body.innerText')[:2000]}"
            )
            time.sleep(0.1)

    def press(self, key: str, times: int = 1, modifiers: int = 0) -> None:
        """Presses a key as a person does, in what has the focus."""
        number, typed = _KEYS[key]
        params = {"key": key, "code": key, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        for _ in range(times):
            self.send("Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", text=typed, **params)
            self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, text: str) -> None:
        """Types text into what has the focus, over what is selected there."""
        self.send("Input.insertText", text=text)

    def show(self, width: int, height: int, dark: bool = False) -> None:
        """Shows the page, and those after it, in a window of that size."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        """Writes what the page looks like in a window of that size."""
        self.show(width, height, dark)
        time.sleep(0.5)
        data = self.send("Page.captureScreenshot", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(data))


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def opened(folder: Path, page: str = "") -> Iterator[Page]:
    """Serves a folder, and opens a page of it in a browser, which is ended afterwards."""
    words = command("browser")
    assert words is not None
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    (to_read, written), (read, to_write) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        own = [f"--user-data-dir={profile}", "--remote-debugging-pipe", "--window-size=1400,1000"]
        redirected = [sys.executable, "-c", _REDIRECTED, str(to_read), str(to_write), *words, *own]
        process = subprocess.Popen(
            redirected, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        try:
            yield Page(written, read, f"http://127.0.0.1:{server.server_port}/{page}")
        finally:
            process.terminate()
            process.wait(30)
            os.close(written)
            os.close(read)
            server.shutdown()
            server.server_close()
