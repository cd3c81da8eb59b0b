"""The op lists in README.md: `python -m benchmarks.models.table [--check]` rewrites or checks them.

Comes in: the committed structures, the built models and the example's model. Goes out: for each its opset, inputs,
outputs and how often every op occurs, so that anybody can see what an engine must support to run it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import onnx

from benchmarks.models import MODELS, load, structure

README = Path(__file__).parent / "README.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "dates" / "dates.onnx"
BEGIN, END = "<!-- begin of the generated list -->", "<!-- end of the generated list -->"


def _graph_of(name: str, folder: Path) -> onnx.ModelProto:
    """A model's graph; the weights are not needed where there is a structure."""
    bare = structure.FOLDER / f"{name}.onnx"
    return onnx.load(bare if bare.exists() else load(name).build(folder / f"{name}.onnx"))


def _value(info: onnx.ValueInfoProto) -> str:
    kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    dims = [d.dim_param or str(d.dim_value) for d in info.type.tensor_type.shape.dim]
    return f"`{info.name}: {kind}[{', '.join(dims)}]`"


def describe(name: str, model: onnx.ModelProto) -> str:
    """Writes the section of one model."""
    counts = Counter(node.op_type for node in model.graph.node)
    ops = ", ".join(f"{op} {count}" for op, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    opset = next(entry.version for entry in model.opset_import if not entry.domain)
    return "\n".join(
        [
            f"### {name}",
            "",
            f"- opset {opset}, {len(model.graph.node)} nodes",
            f"- inputs {', '.join(map(_value, model.graph.input))}",
            f"- outputs {', '.join(map(_value, model.graph.output))}",
            f"- ops: {ops}",
            "",
        ]
    )


def listing() -> str:
    """Writes the sections of all models, then the union of their ops."""
    with tempfile.TemporaryDirectory() as folder:
        models = {name: _graph_of(name, Path(folder)) for name in MODELS}
    models["dates (the example)"] = onnx.load(EXAMPLE)
    union = sorted({node.op_type for model in models.values() for node in model.graph.node})
    sections = [describe(name, model) for name, model in models.items()]
    return "\n".join([*sections, f"All of them together need these {len(union)} ops: {', '.join(union)}."])


def main() -> None:
    parser = argparse.ArgumentParser(description="Rewrite the op lists in README.md")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the lists are not current")
    check: bool = parser.parse_args().check
    old = README.read_text(encoding="utf-8")
    head, rest = old.split(BEGIN)
    new = f"{head}{BEGIN}\n\n{listing()}\n\n{END}{rest.split(END)[1]}"
    if new == old:
        print(f"{README.name} is current")
    elif check:
        raise SystemExit(f"{README} is not current: run python -m benchmarks.models.table")
    else:
        README.write_text(new, encoding="utf-8")
        print(f"{README.name} rewritten")


if __name__ == "__main__":
    main()
