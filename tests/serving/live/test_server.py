"""A running server, asked by a client package and by bare sockets: answers, bounded load, hostile bodies, full queues, drain and kill."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as rpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

from anyshape.serving.grpc_messages import MESSAGES
from tests.serving.live.running import RunningServer, rows_model, slow_model

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("models")
    rows_model(path / "rows.anyshape")
    slow_model(path / "slow.anyshape")
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    running = RunningServer(
        [str(folder / "rows.anyshape"), f"pairs={folder / 'slow.anyshape'}"], "--max-body", "1MiB", "--timeout", "20"
    )
    yield running
    running.close()


def expected(x: Any) -> Any:
    y = x.astype(np.float64)
    for _ in range(4):
        e = np.exp(2 * y - (2 * y).max(1, keepdims=True))
        y = e / e.sum(1, keepdims=True)
    return y


def asked(client: Any, module: Any, x: Any, model: str = "rows", binary: bool = True, **options: Any) -> Any:
    tensor = module.InferInput("x", list(x.shape), "FP32")
    if module is http:
        tensor.set_data_from_numpy(x, binary_data=binary)
        outputs = [http.InferRequestedOutput("y", binary_data=binary)]
    else:
        tensor.set_data_from_numpy(x)
        outputs = None
    return client.infer(model, [tensor], outputs=outputs, **options).as_numpy("y")


def post(server: RunningServer, path: str, body: bytes, headers: str = "") -> tuple[int, dict[str, Any]]:
    """Posts bytes as they are, through a socket."""
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), 60) as s:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers or f'Content-Length: {len(body)}'}\r\n\r\n"
        s.sendall(head.encode() + body)
        answer = b""
        while piece := s.recv(65536):
            answer += piece
    head_of, _, text = answer.partition(b"\r\n\r\n")
    return int(head_of.split()[1]), json.loads(text)


INFER = "/v2/models/rows/infer"


@pytest.mark.parametrize("binary", [True, False])
def test_results_over_http(server: RunningServer, binary: bool) -> None:
    client = http.InferenceServerClient(server.http)
    x = RNG.normal(size=(3, 7)).astype(np.float32)
    np.testing.assert_allclose(asked(client, http, x, binary=binary), expected(x), rtol=1e-4)


def test_results_over_grpc(server: RunningServer) -> None:
    client = rpc.InferenceServerClient(server.grpc)
    x = RNG.normal(size=(3, 7)).astype(np.float32)
    np.testing.assert_allclose(asked(client, rpc, x), expected(x), rtol=1e-4)


def test_typed_contents_over_grpc(server: RunningServer) -> None:
    """Elements of contents, as clients without raw bytes send them."""
    import grpc

    channel = grpc.insecure_channel(server.grpc)
    call = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=MESSAGES["ModelInferRequest"].SerializeToString,
        response_deserializer=MESSAGES["ModelInferResponse"].FromString,
    )
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "contents": {"fp32_contents": [1, 2]}}
    answer = call(MESSAGES["ModelInferRequest"](model_name="rows", id="5", inputs=[tensor]))
    y = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape)
    np.testing.assert_allclose(y, expected(np.array([[1, 2]])), rtol=1e-4)
    assert answer.id == "5"
    for wrong in ({"shape": [1, 3]}, {"shape": [-1, -2]}, {"datatype": "INT32", "contents": {"int_contents": [1, 2]}}):
        with pytest.raises(grpc.RpcError) as e:
            call(MESSAGES["ModelInferRequest"](model_name="rows", inputs=[{**tensor, **wrong}]))
        assert e.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_health_and_metadata(server: RunningServer) -> None:
    for client in (http.InferenceServerClient(server.http), rpc.InferenceServerClient(server.grpc)):
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("rows")
    said = http.InferenceServerClient(server.http).get_model_metadata("rows")
    assert said["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, -1], "parameters": {"dims": "n, m"}}]
    assert said["parameters"] == {"batch_dim": "n (axis 0 of x)"}
    assert any("pairs: requests run one after another: n: static.sum" in line for line in server.lines)
    with pytest.raises(InferenceServerException, match="no model"):
        http.InferenceServerClient(server.http).get_model_metadata("nope")


def test_load_of_mixed_lengths(server: RunningServer) -> None:
    """Bounded load of both protocols on the loopback interface: each answer is that of its request."""
    xs = [
        RNG.normal(size=(int(RNG.integers(1, 4)), int(n))).astype(np.float32) for n in RNG.choice([3, 5, 17, 64], 240)
    ]

    def share(k: int) -> None:
        module = (http, rpc)[k % 2]
        client = module.InferenceServerClient((server.http, server.grpc)[k % 2])
        for x in xs[k::8]:
            np.testing.assert_allclose(asked(client, module, x), expected(x), rtol=1e-4)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(share, range(8)))
    counters = _metrics(server)
    assert counters['anyshape_call_requests_count{model="rows"}'] < counters['anyshape_call_requests_sum{model="rows"}']
    assert counters["anyshape_pending_bytes"] == 0


def _metrics(server: RunningServer) -> dict[str, float]:
    import urllib.request

    with urllib.request.urlopen(f"http://{server.http}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[" * 200_000, "", 400),
        (b"\x00" * 100, "", 400),
        (b"", "", 400),
        (json.dumps({"inputs": [{**TENSOR, "shape": [-1, -2]}]}).encode(), "", 400),
        (json.dumps({"inputs": [{**TENSOR, "shape": [float("nan"), 2]}]}).encode(), "", 400),
        (json.dumps({"inputs": [{**TENSOR, "shape": [2**40, 2**20]}]}).encode(), "", 400),
        (json.dumps({"inputs": [{**TENSOR, "datatype": "INT32"}]}).encode(), "", 400),
        (json.dumps({"inputs": [{**TENSOR, "shape": [2]}]}).encode(), "", 400),
        (json.dumps({"inputs": [{**TENSOR, "name": "z"}]}).encode(), "", 400),
        (json.dumps({"inputs": []}).encode(), "", 400),
        (json.dumps({"inputs": [TENSOR], "outputs": [{"name": "nope"}]}).encode(), "", 400),
        (b"{}", "Content-Length: 2\r\nInference-Header-Content-Length: 7", 400),
        (b"{}", "Content-Length: 2\r\nContent-Encoding: gzip", 415),
        (b"x" * 10, "Content-Length: 99999999999", 413),
        (b"200000\r\n" + b"x" * 0x200000 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", 413),
    ],
)  # fmt: skip
def test_hostile_bodies(server: RunningServer, body: bytes, headers: str, status: int) -> None:
    try:
        code, said = post(server, INFER, body, headers)
    except ConnectionError:  # the rest of a body that is too large is not read
        assert status == 413
    else:
        assert (code, list(said)) == (status, ["error"])
    assert server.process.poll() is None


def test_random_bytes_leave_it_running(server: RunningServer) -> None:
    text = json.dumps({"inputs": [TENSOR]}).encode()
    codes = set()
    for _ in range(200):
        changed = bytearray(text)
        changed[RNG.integers(len(text))] = RNG.integers(256)
        codes.add(post(server, INFER, bytes(changed))[0])
    host, port = server.http.split(":")
    for raw in (RNG.bytes(2000), b"GET / HTTP/9.9\r\n\r\n", b"POST " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        for port_of in (port, server.grpc.split(":")[1]):
            with socket.create_connection((host, int(port_of)), 60) as s:
                s.sendall(raw)
    assert {200, 400} <= codes <= {200, 400}
    assert post(server, INFER, text)[0] == 200


def test_other_models_methods_and_versions(server: RunningServer) -> None:
    text = json.dumps({"inputs": [TENSOR]}).encode()
    assert post(server, "/v2/models/nope/infer", text)[0] == 404
    assert post(server, "/v2/models/rows/versions/2/infer", text)[0] == 404
    assert post(server, "/v2/models/rows/versions/1/infer", text)[0] == 200
    assert post(server, "/v2/models/rows", text)[0] == 405


def test_a_message_that_is_too_large_for_grpc(server: RunningServer) -> None:
    with pytest.raises(InferenceServerException, match="larger"):
        asked(rpc.InferenceServerClient(server.grpc), rpc, np.zeros((1, 1 << 19), np.float32))
    assert rpc.InferenceServerClient(server.grpc).is_server_live()


def test_a_caller_that_goes_away(server: RunningServer) -> None:
    text = json.dumps({"inputs": [TENSOR]}).encode()
    host, port = server.http.split(":")
    for cut in (10, 60, len(text) - 1):
        with socket.create_connection((host, int(port)), 60) as s:
            s.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text[:cut])
    end = time.monotonic() + 30
    while _metrics(server)["anyshape_pending_bytes"] and time.monotonic() < end:
        time.sleep(0.05)
    assert _metrics(server)["anyshape_pending_bytes"] == 0


def large() -> Any:
    """An input that the slow model computes for a while."""
    return np.full((6000, 8), 0.01, np.float32)


def test_a_full_queue_and_deadlines(folder: Path) -> None:
    running = RunningServer([f"pairs={folder / 'slow.anyshape'}"], "--max-queue", "2", "--timeout", "60")
    try:

        def one(_: int) -> str:
            try:
                asked(http.InferenceServerClient(running.http, network_timeout=120), http, large(), "pairs")
            except InferenceServerException as e:
                return str(e.status())
            return "200"

        with ThreadPoolExecutor(12) as threads:
            codes = set(threads.map(one, range(12)))
        assert codes == {"200", "429"}
        client = rpc.InferenceServerClient(running.grpc)
        with pytest.raises(InferenceServerException, match=r"(?i)deadline|longer"):
            asked(client, rpc, np.full((20000, 8), 0.01, np.float32), "pairs", client_timeout=0.05)
        assert client.is_server_live()
    finally:
        running.close()


def test_sigterm_answers_what_was_accepted(folder: Path) -> None:
    running = RunningServer([f"pairs={folder / 'slow.anyshape'}"], "--drain", "120", "--timeout", "120")
    answers: list[Any] = []

    def one() -> None:
        client = http.InferenceServerClient(running.http, network_timeout=120)
        answers.append(asked(client, http, large(), "pairs"))

    threads = [threading.Thread(target=one) for _ in range(6)]
    for t in threads:
        t.start()
    name = 'anyshape_queue_length{model="pairs"}'
    while _metrics(running)[name] < 5:
        time.sleep(0.005)
    running.process.send_signal(signal.SIGTERM)
    late = 0
    try:
        while True:  # as long as it drains, it says that it takes no more
            late = post(running, "/v2/models/pairs/infer", json.dumps({"inputs": [TENSOR]}).encode())[0]
            if late == 503:
                break
    except OSError:
        pass
    for t in threads:
        t.join()
    assert running.wait() == 0
    assert late == 503
    assert len(answers) == 6 and all(a.shape == (6000,) for a in answers)
    assert running.lines[-1].startswith("stopped\n")


def test_after_a_kill_the_next_server_answers(folder: Path) -> None:
    first = RunningServer([str(folder / "rows.anyshape")])
    port = first.http.split(":")[1]
    stop, answered = threading.Event(), threading.Event()
    wrong: list[Any] = []

    def ask() -> None:
        x = RNG.normal(size=(1, 5)).astype(np.float32)
        while not stop.is_set():
            try:
                y = asked(http.InferenceServerClient(f"127.0.0.1:{port}"), http, x)
            except Exception:  # the server is gone, which clients say in many ways
                continue
            answered.set()
            if not np.allclose(y, expected(x), rtol=1e-4):
                wrong.append(y)

    thread = threading.Thread(target=ask)
    thread.start()
    assert answered.wait(60)
    first.process.kill()
    assert first.wait() == -signal.SIGKILL
    stop.set()
    thread.join()
    second = RunningServer([str(folder / "rows.anyshape")], "--port", port)
    try:
        x = np.ones((2, 3), np.float32)
        np.testing.assert_allclose(asked(http.InferenceServerClient(second.http), http, x), expected(x), rtol=1e-4)
        assert not wrong
    finally:
        second.close()
