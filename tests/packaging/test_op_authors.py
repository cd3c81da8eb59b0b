"""docs/op-authors.md as somebody follows it: its three entries as ops of this repository, and as a package outside of it.

Names get a prefix, since the ops themselves may be here by now; the rest is the page's own text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/op-authors.md").read_text(), re.DOTALL)
NAMES = ("tried_mish", "tried_rms_norm", "tried_diag_embed")


def entries() -> dict[str, str]:
    texts = {}
    for name, block in zip(NAMES, BLOCKS, strict=True):
        plain = name.removeprefix("tried_")
        assert block.startswith(f"  {plain}:")
        texts[name] = re.sub(r"\n    onnx: .*", "", block.replace(f"  {plain}:", f"  {name}:", 1)).rstrip() + "\n"
    return texts


def python(*words: str, where: Path = ROOT, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    folders = [*path, *(ROOT / part for part in ("runtime", "generator", "generated", "testing"))]
    own = {k: v for k, v in os.environ.items() if k != "LAW_COUNTS"}  # what these ops count is none of the page's
    environment = {**own, "PYTHONPATH": ":".join(map(str, folders)), "ANYSHAPE_EXAMPLES": "10"}
    return subprocess.run([sys.executable, *words], cwd=where, env=environment, capture_output=True, text=True)


def test_new_op_then_its_entry_then_its_laws(tmp_path: Path) -> None:
    specs, out = tmp_path / "specs", tmp_path / "generated"
    specs.mkdir()
    for path in (ROOT / "specs").glob("*.yaml"):
        (specs / path.name).write_text(path.read_text())
    for name, entry in entries().items():
        done = python("-m", "anyshape_gen", "new-op", name, "--file", "elementwise", "--specs", str(specs))
        assert done.returncode == 0, done.stderr
        file = specs / "elementwise.yaml"
        before, skeleton = file.read_text().split(f"\n  {name}:\n")
        assert "examples:" in skeleton
        file.write_text(before + "\n" + entry)
    verdicts = "anyshape_ops/index_safety.json"  # as in a checkout, where an author's specs are the only new ones
    (out / verdicts).parent.mkdir(parents=True)
    (out / verdicts).write_bytes((ROOT / "generated" / verdicts).read_bytes())
    done = python("-m", "anyshape_gen", "--specs", str(specs), "--out", str(out), "--docs", str(tmp_path / "docs"))
    assert done.returncode == 0, done.stderr
    laws = ("tests/laws", "--op", ",".join(NAMES), "-p", "no:cacheprovider")
    run = python("-m", "pytest", *laws, "-o", f"pythonpath=runtime generator testing {out} .", path=(out,))
    assert run.returncode == 0, run.stdout
    assert "6a refused alike" in run.stdout and "7b one part == many: 3 ops" in run.stdout


def test_a_skeleton_is_an_op(tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    done = python("-m", "anyshape_gen", "new-op", "as_it_is", "--file", "new", "--specs", str(specs))
    assert done.returncode == 0, done.stderr
    out = ("--package", "started", "--out", str(tmp_path))
    done = python("-m", "anyshape_gen", "--specs", str(specs), *out)
    assert done.returncode == 0, done.stderr
    for file in ("new", "other"):
        again = python("-m", "anyshape_gen", "new-op", "as_it_is", "--file", file, "--specs", str(specs))
        assert again.returncode == 2 and "new.yaml already has an op as_it_is" in again.stderr
    assert not (specs / "other.yaml").exists()


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the three ops, installed as far as an entry point goes."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "my_specs").mkdir()
    text = "ops:\n" + "\n".join(entries().values())
    text = text.replace(
        "    reference: x * np.tanh", '    onnx: {"com.example:Tried": {1: "x"}}\n    reference: x * np.tanh'
    )
    (folder / "my_specs/mine.yaml").write_text(text)
    done = python("-m", "anyshape_gen", "--specs", "my_specs", "--package", "my_ops", "--out", ".", where=folder)
    assert done.returncode == 0, done.stderr
    project = (folder / "pyproject.toml").read_text()
    assert 'my_ops = "my_ops:OPS"' in project
    info = folder / "my_ops-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-ops\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[anyshape.ops]\nmy_ops = my_ops:OPS\n")
    return folder


def test_a_package_outside_has_its_own_tests(outside: Path) -> None:
    run = python("-m", "pytest", "-p", "no:cacheprovider", where=outside, path=(outside,))
    assert run.returncode == 0, run.stdout
    assert "1a interpreter == reference: 3 ops" in run.stdout and "4b dyn == static at run time: 1 ops" in run.stdout


USE = """
import anyshape, numpy as np, onnx, my_ops.api
from anyshape import ops
from onnx import helper as h
x = anyshape.input("x", "f32[n]")
one = np.ones(3, np.float32)
want = anyshape.compile(anyshape.function([x], my_ops.api.tried_mish(x)))(one)
assert (anyshape.compile(anyshape.function([x], ops.tried_mish(x)))(one) == want).all()
info = [h.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
graph = h.make_graph([h.make_node("Tried", ["x"], ["y"], domain="com.example")], "g", info[:1], info[1:])
opsets = [h.make_opsetid("", 17), h.make_opsetid("com.example", 1)]
model = h.make_model(graph, opset_imports=opsets, ir_version=9)
assert (anyshape.compile(model)(one) == want).all()
print(anyshape.function([x], ops.tried_mish(x)))
assert str(anyshape.parse(str(anyshape.function([x], ops.tried_mish(x))))) == str(anyshape.function([x], ops.tried_mish(x)))
"""


def test_its_ops_are_used_from_python_and_from_onnx(outside: Path) -> None:
    run = python("-c", USE, path=(outside,))
    assert run.returncode == 0, run.stderr


def test_two_packages_with_one_name_are_refused(outside: Path) -> None:
    code = """
import my_ops
from anyshape.graph import registry
from anyshape_ops import OPS
my_ops.OPS["softmax"] = OPS["softmax"]
registry.all_ops()
"""
    run = python("-c", code, path=(outside,))
    assert "my_ops and anyshape_ops both declare an op softmax; rename it in the specs of my_ops" in run.stderr


@pytest.mark.parametrize(("name", "refused"), [("json_ops", False), ("my_ops", True), ("anyshape", True)])
def test_two_packages_of_one_namespace_are_refused(name: str, refused: bool, outside: Path, tmp_path: Path) -> None:
    info = tmp_path / "other-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{name} = json:OPS\n")
    code = "from anyshape.graph.registry import namespaces; print(*namespaces())"
    run = python("-c", code, path=(outside, tmp_path))
    if refused:
        assert f"both register ops under the name {name} (anyshape.ops); rename that of" in run.stderr
    else:
        assert run.stdout.split() == ["anyshape", "json_ops", "my_ops"], run.stderr


def test_a_failing_law_prints_what_repeats_it(outside: Path) -> None:
    """A wrong kernel: the printed script fails in the same way, and holds when the kernel is right again."""
    kernels = outside / "my_ops/kernels/mine.py"
    right = kernels.read_text()
    assert "tanh(" in right
    kernels.write_text(right.replace("tanh", "sin"))
    try:
        laws = ("-m", "pytest", "my_ops/tests/test_agreement.py", "--op", "tried_mish", "-p", "no:cacheprovider")
        run = python(*laws, where=outside, path=(outside,))
        assert run.returncode == 1, run.stdout
        said = [line.removeprefix("E").strip() for line in run.stdout.splitlines()]
        at = said.index("from anyshape_testing.running import rerun")
        assert said[at - 3].startswith(
            "law 1a interpreter == reference of tried_mish, my_specs/mine.yaml:2: tried_mish:"
        )
        assert "seed" in said[at - 2] and "dtypes" in said[at - 2] and "shapes" in said[at - 2]
        script = "\n".join(said[at : at + 5])
        again = python("-c", script, where=outside, path=(outside,))
        assert "AssertionError: interpreter against reference, output 0 of tried_mish" in again.stderr
    finally:
        kernels.write_text(right)
    fixed = python("-c", script, where=outside, path=(outside,))
    assert "holds for this call of tried_mish" in fixed.stdout, fixed.stderr
