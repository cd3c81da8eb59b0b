"""The LLVM text of every kernel of the specs' examples and of whole models, so that a change that means to leave them as they are can be
held to that.

    python -m tests.kernel_texts write FILE [--only NAME,…] [--texts FOLDER]      before the change
    python -m tests.kernel_texts compare FILE [--only NAME,…]                      after it: 1 if any kernel differs

FILE has a line for each kernel: whose it is (an op, or the path of a model), and the SHA-256 of its text. Models are those of
`benchmarks/models` and of `examples/`. `--texts` keeps the texts as well, one file for each kernel, to be read side by side.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyshape
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.vm.compiling.kernels import NativeKernels
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.operands import ByName, flat_values, typed
from anyshape_testing.calls.packages import register
from benchmarks.models import MODELS, load

ROOT = Path(__file__).parents[1]
BUILT = "models/"
"""A prefix of the names of models: an op may have the same."""


@contextmanager
def heard(hear: Callable[[str], None]) -> Iterator[None]:
    """Calls `hear` with the text of each kernel that is compiled or found in a cache meanwhile."""
    plain = NativeKernels._load

    def loaded(self: NativeKernels, kernel: Any) -> Any:
        hear(kernel.text)
        return plain(self, kernel)

    with patch.object(NativeKernels, "_load", loaded):
        yield


def compile_examples(op: str) -> None:
    """Compiles the call of each example of an op that the rule accepts, on its own shapes."""
    for example in register("anyshape_ops")[op].examples:
        if example.error is None:
            c = call_of(op, example)
            inputs = flat_values(c.values(typed))
            anyshape.compile(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params)))


def compile_model(name: str) -> None:
    """Compiles `models/NAME`, which `benchmarks/models` builds, or a file below the root of the repository."""
    if name.startswith(BUILT):
        with tempfile.TemporaryDirectory() as folder:
            anyshape.compile(load(name.removeprefix(BUILT)).build(Path(folder) / "model.onnx"))
    else:
        anyshape.compile(ROOT / name)


def names() -> list[str]:
    """All ops, then all models."""
    files = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "examples").rglob("*.onnx"))
    return [*register("anyshape_ops"), *(BUILT + name for name in MODELS), *files]


def texts_of(name: str) -> list[str]:
    """Returns the text of each kernel of an op's examples or of a model, in an order that does not depend on which was compiled first."""
    texts: list[str] = []
    with heard(texts.append):
        compile_examples(name) if name in register("anyshape_ops") else compile_model(name)
    return sorted(texts)


def lines_of(name: str, texts: Sequence[str]) -> list[str]:
    return [f"{name} {hashlib.sha256(text.encode()).hexdigest()}" for text in texts]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("kernel_texts", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="these ops and models, separated by commas")
    parser.add_argument("--texts", type=Path, help="a folder for the texts themselves")
    options = parser.parse_args(argv)
    chosen = options.only.split(",") if options.only else names()
    lines: list[str] = []
    for k, name in enumerate(chosen, 1):
        texts = texts_of(name)
        lines += lines_of(name, texts)
        if options.texts is not None:
            options.texts.mkdir(parents=True, exist_ok=True)
            for number, text in enumerate(texts):
                (options.texts / f"{name.replace('/', '_')}.{number}.ll").write_text(text)
        print(f"[{k}/{len(chosen)}] {name}: {len(texts)} kernels", file=sys.stderr)
    if options.action == "write":
        options.file.write_text("\n".join(lines) + "\n")
        return 0
    return differences([x for x in options.file.read_text().splitlines() if x.split()[0] in chosen], lines)


def differences(before: Sequence[str], after: Sequence[str]) -> int:
    """Prints whose kernels are not what they were; 1 if there are any."""
    gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
    for name in sorted({line.split()[0] for line in (*gone, *new)}):
        counts = [sum(n for line, n in lines.items() if line.split()[0] == name) for lines in (gone, new)]
        print(f"{name}: {counts[0]} kernels are gone, {counts[1]} are new")
    if not gone and not new:
        print(f"all {len(after)} kernels are what they were")
    return 1 if gone or new else 0


if __name__ == "__main__":
    sys.exit(main())
