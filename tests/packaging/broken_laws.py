"""One op broken on purpose for each law; run as a program, it says what the law prints and what the printed script then does.

`python -m tests.packaging.broken_laws FOLDER`: in FOLDER a package is generated, and for each law an edit of its spec or (what no spec
can get wrong) of its generated code is made, in a fork. Out: a JSON list, one entry a law.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import textwrap
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

SPEC = """ops:
  widen:
    summary: Every element k times, doubled.
    inputs: {x: "F[*d]"}
    params: {k: {kind: int, default: 1, dyn: operand}}
    outputs: {y: "F[*d, k]"}
    shape: |
      assert k >= 0, "cannot repeat {k} times"
    kernel: "y[*i, j] = x[*i] * 2"
    reference: np.repeat((x * x.dtype.type(2))[..., None], k, -1)
    examples:
      - {x: [2, 3], k: 2, y: [2, 3, 2]}
      - {x: [2], k: -1, error: cannot repeat}
  turn:
    summary: The other sign.
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = -x[*i]"
    rewrites:
      - turn(turn(x)) >> x
    reference: "-x"
    examples:
      - {x: [2, 3], y: [2, 3]}
  row:
    summary: Vectors one after the other.
    inputs: {xs: "seq F[n[v]] for v in c"}
    outputs: {y: "F[(v, n[v])]"}
    kernel: "y[v, k] = xs[v][k]"
    reference: np.concatenate(xs)
    examples:
      - {xs: [[2], [3]], y: [5]}
"""
SPECS, KERNELS, RELATIONS, OPS = (
    "specs/mine.yaml",
    "my_ops/kernels/mine.py",
    "my_ops/relations/mine.py",
    "my_ops/ops/mine.py",
)
OTHER_EACH_TIME = (
    'x[*i] * __import__("itertools").__dict__.setdefault("turns", __import__("itertools").count(2)).__next__()'
)
DYN = 'operand=True),),\n    outputs=(OutputDef("y", "F"),),\n    dtypes={"F": ("f32", "f64", "f16", "bf16")},\n    relation='
MORE = "lambda r, *, x, k: relations.widen_relation(r, x=x, k=k + 1)"
BREAKS = {
    "1a": ("agreement:test_interpreter_is_reference", "widen", SPECS, "x[*i] * 2", "x[*i] * 3"),
    "1b": ("agreement:test_kernel_is_interpreter", "widen", KERNELS, "x[*i] * 2", OTHER_EACH_TIME),
    "2": ("agreement:test_relation_gives_the_shape_that_comes_out", "widen", SPECS, "[*d, k]", "[*d, k + 1]"),
    "3a": (
        "agreement:test_symbols_with_numbers_put_in", "widen", RELATIONS, "(*d, k)",
        "(*d, k if all(isinstance(n, int) for n in d) else k + 1)",
    ),
    "4a": ("agreement:test_dyn_is_static", "widen", OPS, DYN + "relations.widen_relation", DYN + MORE),
    "5": ("rewriting:test_rewrites", "turn", SPECS, "turn(turn(x)) >> x", "turn(turn(x)) >> turn(x)"),
    "6a": (
        "refusals:test_refusals", "widen", RELATIONS, 'f"cannot repeat', '("" if isinstance(k, int) else "never, ") + f"cannot repeat',
    ),
    "7a": ("executors:test_every_executor_gives_the_same_bits", "widen", KERNELS, "x[*i] * 2", OTHER_EACH_TIME),
    "12": ("sequences:test_a_list_is_its_elements", "row", KERNELS, "xs[v][k]", "xs[v][k] * (1 if isinstance(v, int) else 2)"),
}  # fmt: skip
"""The function of each law, the op, the file to edit, what it says and what it is made to say"""


def generate(folder: Path) -> None:
    """The package and what makes it installed, as far as an entry point goes."""
    from anyshape_gen.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(folder):
        assert main(["--specs", "specs", "--package", "my_ops", "--out", "."]) == 0


def start(folder: Path) -> None:
    (folder / "specs").mkdir()
    (folder / "specs/mine.yaml").write_text(SPEC)
    info = folder / "my_ops-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-ops\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[anyshape.ops]\nmy_ops = my_ops:OPS\n")
    generate(folder)


def in_fork(run: Callable[[], None], folder: Path) -> str:
    """What `run` prints, and its traceback with its notes, in a process where nothing of the package is imported yet."""
    said = folder / "said.txt"
    child = os.fork()
    if child == 0:
        with said.open("w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                run()
            except BaseException:
                traceback.print_exc(file=out)
            out.flush()
            os._exit(0)
    os.waitpid(child, 0)
    return said.read_text()


def law(place: str, op: str) -> None:
    from anyshape_testing.calls.packages import register
    from anyshape_testing.process.profile import load_profile

    load_profile(20)
    register("my_ops")
    module, name = place.split(":")
    getattr(import_module(f"anyshape_testing.laws.{module}"), name)(op, lambda key, value: None)


def script(said: str) -> str:
    """What stands after `again:`, five lines at most."""
    lines = said.split("again:\n", 1)[-1].splitlines() if "again:\n" in said else []
    kept = lines[: next((k for k, line in enumerate(lines) if not line.startswith("    ")), len(lines))]
    return textwrap.dedent("\n".join(kept))


def main(folder: Path) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    start(folder)
    for module in ("agreement", "rewriting", "refusals", "executors"):
        import_module(f"anyshape_testing.laws.{module}")
    outcomes = []
    for label, (place, op, file, old, new) in BREAKS.items():
        right = {p: p.read_text() for p in folder.rglob("*") if p.suffix in (".py", ".yaml")}
        assert right[folder / file].count(old) == 1, (label, right[folder / file])
        (folder / file).write_text(right[folder / file].replace(old, new))
        if file == SPECS:
            generate(folder)
        failed = in_fork(lambda place=place, op=op: law(place, op), folder)
        code = script(failed)
        alone = in_fork(lambda code=code: exec(code, {}), folder)
        for path, text in right.items():
            path.write_text(text)
        fixed = in_fork(lambda code=code: exec(code, {}), folder)
        outcomes.append({"law": label, "failed": failed, "script": code, "alone": alone, "fixed": fixed})
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
