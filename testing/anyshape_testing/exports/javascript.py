"""Exported modules of WebAssembly, called from JavaScript: in Node, and in a page of a headless browser.

In: a folder with what exports for wasm32 wrote. Out: a `Session`, of which each call is a call of a function of a module. A server of this
process hands calls to the other one, and takes its answers.
"""

from __future__ import annotations

import base64
import json
import queue
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from anyshape.vm.export import Export

Array = NDArray[Any]
Engine = Literal["node", "browser"]
_DRIVER = Path(__file__).with_name("javascript.mjs")
_PAGE = """<!doctype html><script type="module">
import { serve } from "/javascript.mjs";
serve(location.href, (path) => import(path));
</script>"""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARRAYS = {
    **{f"float{n}": f"Float{n}Array" for n in (32, 64)},
    **{f"int{n}": f"Int{n}Array" for n in (8, 16, 32)},
    **{f"uint{n}": f"Uint{n}Array" for n in (8, 16, 32)},
    "int64": "BigInt64Array", "uint64": "BigUint64Array", "bool": "Uint8Array", "str32": "Uint32Array",
}  # fmt: skip
"""The typed array of each dtype of NumPy; elements of others are passed as bits."""
SECONDS = 300


_VIRTUAL_MILLISECONDS = 60_000
"""How long a page may wait; its own clock runs as fast as it can."""
_TRIES = 5
"""How often a page is opened that is not ready"""


def command(engine: Engine) -> list[str] | None:
    """What runs JavaScript here; None where there is no such program."""
    if engine == "node":
        node = shutil.which("node")
        return None if node is None else [node, str(_DRIVER)]
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return None if browser is None else [browser, "--headless=new", "--no-sandbox", "--disable-gpu"]


def page_text(folder: Path, page: str, ready: str = "") -> str:
    """The document that a page of a folder becomes in a browser, as HTML, once its scripts have come to rest. Its clock does not wait for
    WebAssembly that is being compiled: a page that is not `ready` yet, by a text that it has then, is opened again."""
    words = command("browser")
    assert words is not None
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    text = ""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            own = [f"--user-data-dir={profile}", "--dump-dom", f"--virtual-time-budget={_VIRTUAL_MILLISECONDS}"]
            address = f"http://127.0.0.1:{server.server_port}/{page}"
            for _ in range(_TRIES):
                done = subprocess.run([*words, *own, address], capture_output=True, text=True, timeout=SECONDS)
                assert done.returncode == 0, done.stderr[-2000:]
                text = done.stdout
                if ready in text:
                    break
            return text
    finally:
        server.shutdown()
        server.server_close()


class JavaScriptError(Exception):
    """What a call threw: the name of the error, the name of its status, if it has one, and its message."""

    def __init__(self, name: str, status: str | None, message: str) -> None:
        super().__init__(message)
        self.name, self.status = name, status


@dataclass(frozen=True)
class Plan:
    """What a function's `plan` returned."""

    arena_bytes: int
    shapes: dict[str, list[int]]


class Session:
    """A process of Node or of a browser, and the server that it asks for calls, while the block lasts."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        words = command(engine)
        assert words is not None, engine
        self.engine, self.folder, self._words = engine, folder, words

    def __enter__(self) -> Session:
        self._calls: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        Thread(target=self._server.serve_forever, daemon=True).start()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        address = f"http://127.0.0.1:{self._server.server_port}/"
        own = [f"--user-data-dir={self._profile.name}"] if self.engine == "browser" else []
        self._process = subprocess.Popen(
            [*self._words, *own, address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._calls.put(None)
        if self.engine == "browser":
            self._process.terminate()  # a browser stays when its page has ended
        self._process.communicate(timeout=SECONDS)
        self._server.shutdown()
        self._server.server_close()
        self._profile.cleanup()

    def call(self, model: str, inputs: Mapping[str, Array], dtypes: Mapping[str, DTypeLike]) -> dict[str, Array]:
        """Calls a model; its outputs, whose dtypes the caller knows. Raises JavaScriptError with what the call threw."""
        answer = self._ask(model, inputs, plan=False)["outputs"]
        return {
            name: np.frombuffer(base64.b64decode(tensor["data"]), dtypes[name]).reshape(tensor["shape"])
            for name, tensor in answer.items()
        }

    def call_export(self, e: Export, *inputs: Array) -> list[Array]:
        """Calls an export's model with its inputs, in the order of its interface; the outputs in theirs. Raises JavaScriptError."""
        m = e.interface
        named = {t.name: a for t, a in zip(m.inputs, inputs, strict=True)}
        outputs = self.call(m.name, named, {t.name: t.dtype.numpy for t in m.outputs})
        return [outputs[t.name] for t in m.outputs]

    def plan(self, model: str, inputs: Mapping[str, Array]) -> Plan:
        """Plans a call. Raises JavaScriptError."""
        answer = self._ask(model, inputs, plan=True)["plan"]
        return Plan(answer["arenaBytes"], answer["shapes"])

    def _ask(self, model: str, inputs: Mapping[str, Array], plan: bool) -> dict[str, Any]:
        tensors = {name: written_tensor(a) for name, a in inputs.items()}
        return self.ask({"loader": f"{model}.mjs", "model": model, "plan": plan, "inputs": tensors})

    def ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a call. Raises JavaScriptError."""
        within = str(self.folder.resolve() / call["loader"]) if self.engine == "node" else f"/{call['loader']}"
        self._calls.put({**call, "loader": within})
        try:
            answer = self._answers.get(timeout=SECONDS)
        except queue.Empty:
            raise AssertionError(f"{self.engine} does not answer; it ended with {self._process.poll()}") from None
        if "error" in answer:
            raise JavaScriptError(**answer["error"])
        return answer

    def next_call(self) -> dict[str, Any] | None:
        return self._calls.get()

    def take(self, answer: dict[str, Any]) -> None:
        self._answers.put(answer)


def written_tensor(a: Array) -> dict[str, Any]:
    """A tensor as `javascript.mjs` reads it: the typed array, the shape, and the bytes in base 64."""
    array = _ARRAYS.get(str(a.dtype)) or ("Uint16Array" if a.dtype.itemsize == 2 else "Uint8Array")
    return {"array": array, "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


class _Files(SimpleHTTPRequestHandler):
    """The files of a folder."""

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class _Handler(_Files):
    """The page, the files of the folder, calls and answers."""

    def __init__(self, session: Session, *words: Any) -> None:
        self._session = session
        super().__init__(*words, directory=str(session.folder))

    def do_GET(self) -> None:
        if self.path == "/next":
            call = self._session.next_call()
            if call is not None:
                self._send(json.dumps(call).encode(), "application/json")
                return
            with suppress(ConnectionError):  # a browser that has ended does not wait for it
                self.send_error(410)
        elif self.path == "/":
            self._send(_PAGE.encode(), "text/html")
        elif self.path == "/javascript.mjs":
            self._send(_DRIVER.read_bytes(), "text/javascript")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self._session.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._send(b"", "text/plain")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
