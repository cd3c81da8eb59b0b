"""The page of `anyshape explain --html`: one file that runs nothing but its own script. The kernels, the origins of dims and the memory of
the compiled program are in it as data, which JavaScript evaluates to what Python does."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.cli.main import main
from anyshape.dims import SizeReader, evaluate, free_symbols
from anyshape.errors import ArgumentError
from anyshape.vm.compiling.kernels import THREADS
from anyshape.vm.export.call_bytes import call_bytes
from anyshape.vm.page import document
from anyshape.vm.page.document import EXACT, as_data
from anyshape.vm.page.layers import COLUMNS, places
from anyshape.vm.program.memory_plan import Area
from anyshape_testing.exports.javascript import command, page_text
from anyshape_testing.process.profile import LONG

HOSTILE = "</script><img src=x onerror=\"document.title='run'\">"
VOID = {"meta", "img", "input"}
SIZES = Path(document.__file__).with_name("sizes.mjs")


class Page(HTMLParser):
    """A page that was read; raises AssertionError for an end tag that closes nothing."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in self._open, f"</{tag}> closes nothing"
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.texts["script"][0])
        return read


def dynamic() -> anyshape.Function:
    """An input's dims, one that is computed of them, one that an input's element decides, and one that data decides."""
    x, k = anyshape.input(HOSTILE, "f32[n, m]"), anyshape.input("k", "i64[1]")
    doubled = ops.tanh(ops.concat([x, x], axis=0))
    return anyshape.function(
        [x, k], {"doubled": doubled, HOSTILE: ops.softmax(ops.slice(x, k, [100], [0])), "where": ops.nonzero(x)}
    )


def layers(count: int = 6) -> anyshape.Function:
    x = y = anyshape.input("x", "f32[batch, 16]")
    w = anyshape.constant(np.eye(16, dtype=np.float32))
    for _ in range(count):
        y = ops.add(ops.softmax(ops.matmul(y, w)), x)
    return anyshape.function([x], [y, ops.sum(y, [0])])


@pytest.fixture(scope="module")
def exe() -> anyshape.Executable:
    return anyshape.compile(dynamic())


@pytest.fixture(scope="module")
def page(exe: anyshape.Executable) -> Page:
    return Page(exe.explain_html({"n": 7}, title=HOSTILE))


def by_text(data: Mapping[str, Any]) -> dict[str, str]:
    return {d["text"]: d["origin"] for d in data["dims"]}


# --- one file, in which nothing of a model is run


def test_nothing_is_loaded_and_names_are_no_html(page: Page, exe: anyshape.Executable) -> None:
    assert [t for t, _ in page.tags if t in ("img", "link", "iframe", "object", "base")] == []
    assert [a for t, a in page.tags if t == "script"] == [
        {"type": "application/json", "id": "data"},
        {"type": "module"},
    ]
    assert not any(name.startswith("on") or name in ("src", "href", "style") for _, a in page.tags for name in a)
    assert page.texts["title"] == page.texts["h1"] == [HOSTILE]
    assert "//" not in "".join(re.findall(r"url\([^)]*\)|@import[^;]*|https?:[^ \"]*", exe.explain_html())).replace(
        "http://www.w3.org/2000/svg", ""
    )


def test_the_policy_permits_the_script_and_the_styles_that_are_there(page: Page) -> None:
    (policy,) = (a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")
    for text, directive in ((page.texts["script"][1], "script-src"), (page.texts["style"][0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_script_finds_all_that_it_asks_for(page: Page) -> None:
    ids = [a["id"] for _, a in page.tags if "id" in a]
    asked = set(re.findall(r'\bat\("([\w-]+)"\)', page.texts["script"][1])) - {"lit", "now"}  # which it makes
    assert len(ids) == len(set(ids)) and asked <= set(ids)


def test_integers_that_a_double_does_not_hold_are_text() -> None:
    data = {"a": [EXACT, -EXACT, EXACT - 1, True], "b": {"c": (3 * EXACT,)}, "d": "<&>\u2028"}
    text = as_data(data)
    assert json.loads(text) == {
        "a": [str(EXACT), str(-EXACT), EXACT - 1, True],
        "b": {"c": [str(3 * EXACT)]},
        "d": data["d"],
    }
    assert not set("<>&\u2028") & set(text)


# --- where dims come from


def test_origins_of_dims(page: Page) -> None:
    origins = by_text(page.data)
    assert origins["n"] == origins["m"] == "input" and origins["2*n"] == "derived" and origins["2"] == "constant"
    assert origins["k[0]"] == origins["nonzero.shape[1]"] == "data"
    assert all(origin == "data" for text, origin in origins.items() if "k[0]" in text)
    symbols = {s["name"]: s for s in page.data["symbols"]}
    assert symbols["n"]["cause"] == f"{HOSTILE}[0]" and symbols["n"]["value"] == 7 and symbols["m"]["value"] == 64
    assert symbols["k[0]"]["cause"] == "element 0 of the input k"
    assert symbols["nonzero.shape[1]"]["cause"] == "a size of nonzero, which its data decides"
    assert set(origins.values()) <= page.data["origins"].keys()


def test_why_an_op_stayed_dynamic(page: Page) -> None:
    nodes = [n for s in page.data["graphs"][0]["steps"] for n in s["nodes"]]
    assert [n["dynamic"] for n in nodes if "dynamic" in n] == ["dyn.slice stays dyn: starts comes from the input k"]


def test_sizes_to_begin_with_are_within_bounds(exe: anyshape.Executable) -> None:
    with pytest.raises(ArgumentError, match="no input has a dim q; there are n, m, "):
        exe.explain_html({"q": 3})
    with pytest.raises(ArgumentError, match="n is from 1 to any size, got 0"):
        exe.explain_html({"n": 0})
    bounded = anyshape.compile(layers(1), {"batch": (2, 5)})
    (batch, *_) = Page(bounded.explain_html()).data["symbols"]
    assert (batch["low"], batch["high"], batch["value"]) == (2, 5, 5)


# --- steps


def test_a_step_has_its_ops_their_equations_and_what_it_reads(page: Page) -> None:
    data = page.data
    (graph,) = data["graphs"]
    (fused,) = (s for s in graph["steps"] if s["title"] == "slice+softmax")
    assert [n["op"] for n in fused["nodes"]] == ["dyn.slice", "softmax"] and fused["joined"]
    assert any("exp(" in q for q in fused["nodes"][1]["equations"]) and "sum(" not in str(fused["nodes"][0])
    assert fused["nodes"][1]["spec"].startswith("specs/")
    assert data["values"][fused["reads"][0]]["name"] == HOSTILE
    assert [name for name, _ in graph["results"]] == ["doubled", HOSTILE, "where"]


def test_the_steps_are_those_of_the_compiled_program(exe: anyshape.Executable, page: Page) -> None:
    (program,) = exe.plan.programs
    assert program.memory is not None
    assert [s["title"] for s in page.data["graphs"][0]["steps"]] == list(program.memory.steps)


def test_boxes_are_below_what_they_read_and_apart() -> None:
    spread = [[]] * 5 + [[0], [4], [4], [4], [4]]
    for sources in (
        spread,
        [[]] * 12,
        [[], [0], [0, 1], [], [2, 3]],
        [[*range(max(0, k - 3), k)] for k in range(40)],
        [],
    ):
        placed = places(sources)
        for k, (column, row) in enumerate(placed):
            assert all(placed[j][1] < row for j in sources[k]) and abs(column) <= (COLUMNS - 1) / 2 + 1e-9
        for k, (column, row) in enumerate(placed):
            assert all(abs(c - column) > 1 - 1e-9 for c, r in placed[:k] if r == row)


def test_a_long_chain_is_laid_out_straight() -> None:
    placed = places([[k - 1] if k else [] for k in range(5_000)])
    assert placed[-1] == (0.0, 4_999)


def test_steps_without_code_are_left_out_of_the_brief_graph() -> None:
    x = anyshape.input("x", "f32[n, 8]")
    y = ops.exp(ops.reshape(ops.softmax(x), ops.concat([ops.shape_of(x), anyshape.constant(np.array([1]))], axis=0)))
    (graph,) = Page(anyshape.compile(anyshape.function([x], [ops.sum(y, [0]), y])).explain_html()).data["graphs"]
    kinds = ["entry", *(s["kind"] for s in graph["steps"])]
    assert {"kernel"} < set(kinds) and len(graph["places"]) == len(kinds)
    for kind, place in zip(kinds, graph["brief"], strict=True):
        assert (place is None) == (kind in ("view", "known"))


def test_bodies_and_called_functions_are_graphs_of_their_own() -> None:
    x, n = anyshape.input("x", "f32[k]"), anyshape.input("n", "i64[]")
    f = anyshape.function([x, n], list(control.loop(n, lambda i, v: [ops.add(ops.softmax(v), v)], [x])))
    data = Page(anyshape.compile(f).explain_html()).data
    outer, body = data["graphs"]
    (loop,) = (s for s in outer["steps"] if s["kind"] == "control")
    assert loop["bodies"] == [body["number"]] and [s["title"] for s in body["steps"]] == ["softmax+add"]
    assert [m["title"] for m in outer["memory"]] == ["main", "each iteration of loop"]
    assert any(h["what"] for m in outer["memory"] for h in m["held"])


def test_a_function_whose_ranks_a_call_tells() -> None:
    x, s = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[r]")
    exe = anyshape.compile(anyshape.function([x, s], [ops.exp(ops.reshape(ops.exp(x), s))]))
    (graph,) = Page(exe.explain_html()).data["graphs"]
    first, reshape, last = graph["steps"]
    assert "open" not in first and "memory" not in graph
    assert "stays dyn: newshape comes from the input s" in reshape["nodes"][0]["dynamic"]
    assert last["open"].startswith("it is compiled in a call: its rank is not known, because of the input s")


@pytest.mark.parametrize("kernels", ["native", "interpret"])
def test_functions_of_nothing_much(kernels: Any) -> None:
    x = anyshape.input("x", "f32[n, n]")
    for f in (anyshape.function([], []), anyshape.function([x], [x]), anyshape.function([x], [ops.exp(x)])):
        data = Page(anyshape.compile(f, kernels=kernels).explain_html()).data
        assert len(data["graphs"][0]["steps"]) == len(f.nodes) and "memory" in data["graphs"][0]


# --- memory


def exactly(data: Any) -> Any:
    """Data of a size with integers in the place of their text."""
    if isinstance(data, list):
        return [*map(exactly, data)]
    return int(data) if isinstance(data, str) else data


def entry(kind: str, *parts: Any) -> list[Any]:
    """An entry of the table of sizes, likewise; the name of a symbol may be of digits."""
    named = kind == "symbol"
    return [kind, *parts[:named], *map(exactly, parts[named:])]


def evaluated(data: Mapping[str, Any], sizes: Mapping[str, int]) -> list[int]:
    """Every dim of a page at sizes, as Python evaluates what is recorded."""
    read = SizeReader([entry(*e) for e in data["sizes"]])
    numbers = []
    for d in data["dims"]:
        e = read(exactly(d["size"]))
        numbers.append(evaluate(e, {s: sizes[s.name] for s in free_symbols(e)}))
    return numbers


def arena(areas: Sequence[Area], sizes: Mapping[str, int]) -> int:
    """Bytes of the arena of a plan at sizes."""
    most: dict[int, int] = {}
    for a in areas:
        numbers = [evaluate(t.bytes, {s: sizes[s.name] for s in free_symbols(t.bytes)}) for t in a.tenants]
        total = a.places(numbers)[1]
        assert isinstance(total, int)
        most[a.region] = max(most.get(a.region, 0), total)
    return sum(most.values())


POINTS = ({"batch": 1, THREADS.name: 1}, {"batch": 37, THREADS.name: 4}, {"batch": 10**12 + 1, THREADS.name: 2})


@pytest.fixture(scope="module")
def chain() -> tuple[anyshape.Executable, dict[str, Any]]:
    exe = anyshape.compile(layers())
    return exe, Page(exe.explain_html()).data


def test_the_plan_is_that_of_the_compiled_program(chain: tuple[anyshape.Executable, dict[str, Any]]) -> None:
    exe, data = chain
    (memory,) = data["graphs"][0]["memory"]
    plan = exe.plan.programs[0].memory
    assert plan is not None
    for sizes in POINTS:
        numbers = evaluated(data, sizes)
        for row, area in zip(memory["areas"], plan.areas, strict=True):
            assert (row["region"], row["order"], row["top"]) == (area.region, [*area.layout.order], [*area.layout.top])
            for tenant, t in zip(row["tenants"], area.tenants, strict=True):
                assert (tenant["start"], tenant["end"]) == (t.start, t.end)
                assert numbers[tenant["dim"]] == evaluate(t.bytes, {s: sizes[s.name] for s in free_symbols(t.bytes)})
    assert [(r["name"], r["start"]) for r in memory["results"]] == [("output0", 5), ("output1", 6)]


def test_the_bytes_are_those_that_a_memory_limit_counts(chain: tuple[anyshape.Executable, dict[str, Any]]) -> None:
    exe, _ = chain
    counted, plan = call_bytes(exe.function, exe.plan, 1), exe.plan.programs[0].memory
    assert counted is not None and plan is not None
    for n in (1, 37, 1000):
        results = 4 * 16 * (n + 1)
        assert counted.needed({"batch": n}) == arena(plan.areas, {"batch": n, THREADS.name: 1}) + results


def by_node(data: Mapping[str, Any], points: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """What the page's JavaScript makes of its data at sizes: each dim, and memory."""
    script = f"""
        import {{ evaluator, memoryOverTime }} from {json.dumps(SIZES.as_uri())};
        import {{ readFileSync }} from "node:fs";
        const {{ data, points }} = JSON.parse(readFileSync(0, "utf8"));
        const text = (key, value) => typeof value === "bigint" ? String(value) : value;
        console.log(JSON.stringify(points.map((sizes) => {{
          const read = evaluator(data.sizes, new Map(Object.entries(sizes)));
          const memory = (data.graphs[0].memory ?? []).map((m) => memoryOverTime(m, data.values, read));
          return {{ dims: data.dims.map((d) => read(d.size)), conditions: data.conditions.map((c) => read(c.condition)), memory }};
        }}), text));
    """
    call = as_data({"data": data, "points": [{k: str(n) for k, n in p.items()} for p in points]})
    words = ["node", "--input-type=module", "--eval", script]
    done = subprocess.run(words, input=call, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    read: list[dict[str, Any]] = json.loads(done.stdout)
    return read


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")


@needs_node
def test_javascript_computes_what_python_does(page: Page, chain: tuple[anyshape.Executable, dict[str, Any]]) -> None:
    exe, data = chain
    plan = exe.plan.programs[0].memory
    assert plan is not None
    for sizes, computed in zip(POINTS, by_node(data, POINTS), strict=True):
        assert [*map(int, computed["dims"])] == evaluated(data, sizes)
        (memory,) = computed["memory"]
        results = 4 * 16 * (sizes["batch"] + 1)
        assert int(memory["arena"]) == arena(plan.areas, sizes) and int(memory["top"]) - int(memory["arena"]) == results
        assert int(memory["most"]) == max(map(int, memory["alive"])) <= int(memory["top"])
        assert len(memory["alive"]) == len(plan.steps)
    names = [s["name"] for s in page.data["symbols"]]
    points = [dict.fromkeys(names, n) | {"n": 9, "k[0]": k} for n, k in ((1, -4), (5, 3), (12, -100))]
    for sizes, computed in zip(points, by_node(page.data, points), strict=True):
        assert [*map(int, computed["dims"])] == evaluated(page.data, sizes)


@needs_node
def test_values_of_one_step_never_overlap(chain: tuple[anyshape.Executable, dict[str, Any]]) -> None:
    for computed in by_node(chain[1], POINTS):
        blocks = computed["memory"][0]["blocks"]
        for k, a in enumerate(blocks):
            for b in blocks[:k]:
                beside = a["end"] < b["start"] or b["end"] < a["start"]
                apart = int(a["at"]) + int(a["bytes"]) <= int(b["at"]) or int(b["at"]) + int(b["bytes"]) <= int(a["at"])
                assert beside or apart, (a, b)


@needs_node
def test_conditions_on_sizes_are_decided_as_a_call_decides_them() -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    exe = anyshape.compile(anyshape.function([x, y], [ops.reshape(ops.concat([x, y], axis=0), [-1, 3])]))
    data = Page(exe.explain_html()).data
    assert data["conditions"]
    points = [{"n": 4, "m": 5}, {"n": 4, "m": 4}]
    fits, refused = (all(c["conditions"]) for c in by_node(data, points))
    assert fits and not refused
    exe(np.ones(4, np.float32), np.ones(5, np.float32))
    with pytest.raises(anyshape.errors.ShapeError):
        exe(np.ones(4, np.float32), np.ones(4, np.float32))


# --- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "m.anyshape"
    anyshape.compile(layers(1)).save(saved)
    words = ["explain", str(saved), "--html", str(tmp_path / "m.html")]
    assert main([*words, "--at", "batch=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["html"] == str(tmp_path / "m.html")
    (batch, *_) = Page((tmp_path / "m.html").read_text()).data["symbols"]
    assert (batch["name"], batch["value"]) == ("batch", 3)
    assert main([*words, "--at", "other=3"]) == 2
    assert main([*words[:3], str(tmp_path / "no" / "m.html")]) == 2
    errors = capsys.readouterr().err
    assert "no input has a dim other; there are batch" in errors and "cannot be written: No such file" in errors


@pytest.mark.skipif(not LONG, reason="a browser takes seconds; `make test-export` runs it")
@pytest.mark.skipif(command("browser") is None, reason="there is no browser here (chromium)")
def test_a_browser_draws_it(exe: anyshape.Executable, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(exe.explain_html(title=HOSTILE))
    drawn = Page(page_text(tmp_path, "page.html"))
    classes = [(a.get("class") or "").split() for _, a in drawn.tags]
    assert sum("step" in c for c in classes) == len(exe.function.params) + 4
    assert drawn.texts["title"][0] == HOSTILE and not any(t == "img" for t, _ in drawn.tags)
    assert sum(t == "rect" for t, _ in drawn.tags) > 2 and any("chosen" in c for c in classes)
