"""Symbolic shapes by anyshape, by ONNX's inference and by onnxruntime's symbolic_shape_infer: what each leaves unknown, and who is right.

    python -m benchmarks.symbolic_shapes [exported networks suite] [--only TEXT] [--wrong] [--page]

In: the exported models of benchmarks/models and the example, networks that no exporter wrote, and the cases of ONNX's suite, of whose
inputs every dim gets a name of its own and small integer operands become constants. Each model is run by onnxruntime, with all values as
outputs, at the sizes of up to three calls; of a case of the suite the results are in the suite. A dim of a value is unknown to a tool if
it says nothing that the sizes of the inputs determine, and wrong if what it says is another number than in some run. `--wrong` lists
these, `--page` writes the tables into docs/symbolic-shapes.md.
"""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import anyshape
from anyshape.dims import evaluate, free_symbols
from benchmarks import models
from benchmarks.models import structure
from benchmarks.models.zoo.arguments import calls as calls_of
from benchmarks.networks import networks
from benchmarks.op_cases import Case
from benchmarks.quantised import MODELS, Quantised

PAGE = Path(__file__).parents[1] / "docs" / "symbolic-shapes.md"
DATES = Path(__file__).parents[1] / "examples" / "dates" / "dates.onnx"
BEGIN, END = "<!-- begin of the tables -->", "<!-- end of the tables -->"
BUILT = tuple(name for name in models.MODELS if name not in ("bert_base", "bert_mini", "gpt2"))
"""Models of benchmarks that no exporter wrote; bert_base has the graph of bert_mini, and gpt2 is the exported one"""
CALLS = 3
MOST = 4096
"""The bound of sizes in the row of bounded ones"""

Arrays = Mapping[str, NDArray[Any]]
Said = Sequence["int | None"]
"""What a tool says of the dims of a value at the sizes of one call; None for one that is unknown"""
Tool = Callable[[Any, Sequence[Arrays]], "Mapping[str, Sequence[Said | None]]"]
"""A function from a model and calls to what a tool says of each value at each call, None where it does not say a rank. It raises what the
tool raises."""


@dataclass(frozen=True)
class Subject:
    """A model, and calls of it with the shapes of its values then."""

    name: str
    proto: Any
    feeds: Sequence[Arrays]
    true: Mapping[str, Sequence[tuple[int, ...]]]


@dataclass
class Tally:
    """What one tool said of the dims of some models."""

    right: int = 0
    unknown: int = 0
    failed: int = 0
    """models of which it raised an error; their dims are unknown"""
    wrong: list[tuple[str, str, int, int | None, int]] = field(default_factory=list)
    """model, value, axis (-1 for the rank), what it said, what is true"""

    @property
    def dims(self) -> int:
        return self.right + self.unknown + sum(axis >= 0 for _, _, axis, _, _ in self.wrong)


# --- models


def exported() -> Iterator[Subject]:
    """Models that exporters wrote."""
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(structure.FOLDER.glob("zoo_*.onnx")):
            name = path.stem.removeprefix("zoo_")
            built = structure.build(path.stem, Path(folder) / "m.onnx", seed=7)
            yield from _run(name, onnx.load(built), calls_of(name))
        yield from _of_benchmarks("bert_mini", Path(folder) / "m.onnx")
    ids = np.random.default_rng(0).integers(1, 50, (7, 30))
    yield from _run("dates", onnx.load(DATES), [{"ids": ids}, {"ids": ids[:1, :3]}, {"ids": ids[:3, :1]}])


def _of_benchmarks(name: str, path: Path) -> Iterator[Subject]:
    source = models.load(name)
    yield from _run(name, onnx.load(source.build(path)), [dict(source.inputs(*s)) for s in source.SHAPES[:CALLS]])


def whole_networks() -> Iterator[Subject]:
    """Networks that benchmarks build or declare in a table, and quantised models as onnxruntime's tools write them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in BUILT:
            yield from _of_benchmarks(name, Path(folder) / "m.onnx")
    known: dict[str, Case | Quantised] = {**networks(), **MODELS}
    for name, case in known.items():
        yield from _run(name, case.model(), [case.arrays(sizes) for sizes in case.at])


def suite() -> Iterator[Subject]:
    """Cases of ONNX's suite."""
    from tests.frontends.onnx_suite import as_array, cases, in_form

    for name, case in cases().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            proto, names = in_form(case, "constants")
            results = [as_array(a) for a in case.data_sets[0][1]]
            feed = dict(zip(names, map(as_array, case.data_sets[0][0])))
        kept = [i.name for i in proto.graph.input]
        if not all(isinstance(feed.get(n), np.ndarray) for n in kept) or name.startswith("real:"):
            continue
        for info in proto.graph.input:
            for k, d in enumerate(info.type.tensor_type.shape.dim):
                d.dim_param = f"{re.sub(r'[^A-Za-z0-9_]', '_', info.name)}_{k}"
        true = {o.name: [a.shape] for o, a in zip(proto.graph.output, results) if isinstance(a, np.ndarray)}
        if true:
            yield Subject(name, proto, [{n: feed[n] for n in kept}], true)


def _run(name: str, proto: Any, feeds: Sequence[Arrays]) -> Iterator[Subject]:
    """Measures the shapes of all values by onnxruntime."""
    import onnxruntime

    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    results = [n for node in proto.graph.node for n in node.output if n and node.op_type != "Constant"]
    outputs = {o.name for o in proto.graph.output}
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in results if n not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}
    calls = [{n: a for n, a in feed.items() if n in taken} for feed in feeds[:CALLS]]
    runs = [session.run(results, feed) for feed in calls]
    true = {
        n: [run[k].shape for run in runs]
        for k, n in enumerate(results)
        if all(isinstance(run[k], np.ndarray) for run in runs)
    }
    yield Subject(name, proto, calls, true)


# --- tools


def by_anyshape(proto: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    return _known(anyshape.shapes(proto), feeds)


def by_anyshape_of_bounded_sizes(proto: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    """What anyshape says where named sizes of inputs are at most `MOST`, so that arithmetic in floats is exact."""
    named = {d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
    return _known(anyshape.shapes(proto, dims=dict.fromkeys(named, (0, MOST))), feeds)


def _known(known: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    numbers = [_entry(known, feed) for feed in feeds]
    said: dict[str, list[Said | None]] = {}
    for name, t in known.values.items():
        shape = None if t.type is None else t.type.shape
        said[name] = [
            None if shape is None else [evaluate(d, n) if free_symbols(d) <= n.keys() else None for d in shape]
            for n in numbers
        ]
    return said


def _entry(known: Any, feed: Arrays) -> dict[Any, int]:
    """Numbers of the dims, read off where they stand: `x.shape[1]`, or `s[0]` for an element."""
    numbers = {}
    for d in known.dims.values():
        for place in d.places:
            name, _, axis = place.removesuffix("]").rpartition("[")
            source = name.removesuffix(".shape")
            if name.endswith(".shape") and source in feed:
                numbers[d.symbol] = feed[source].shape[int(axis)]
            elif name in feed:
                numbers[d.symbol] = int(feed[name].reshape(-1)[int(axis)])
            elif place in feed:
                numbers[d.symbol] = int(feed[place])
    return numbers


def by_onnx(proto: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    return _declared(onnx.shape_inference.infer_shapes(proto, data_prop=True), proto, feeds)


def by_onnxruntime(proto: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # it writes sym_shape_infer_temp.onnx where it fails
        return _declared(SymbolicShapeInference.infer_shapes(copy, auto_merge=True), proto, feeds)


def _declared(inferred: Any, proto: Any, feeds: Sequence[Arrays]) -> dict[str, list[Said | None]]:
    """Reads the types that a model says, as numbers at each call: what expressions of the inputs' names give."""
    numbers = []
    for feed in feeds:
        sizes: dict[str, int] = {}
        for info in proto.graph.input:
            for d, n in zip(info.type.tensor_type.shape.dim, feed[info.name].shape if info.name in feed else ()):
                if d.dim_param:
                    sizes[d.dim_param] = n
        numbers.append(sizes)
    graph = inferred.graph
    said: dict[str, list[Said | None]] = {}
    for info in (*graph.value_info, *graph.output):
        t = info.type.tensor_type
        known = info.type.HasField("tensor_type") and t.HasField("shape")
        said[info.name] = [[_at(d, sizes) for d in t.shape.dim] if known else None for sizes in numbers]
    return said


def _at(d: Any, sizes: Mapping[str, int]) -> int | None:
    """The number of a dim; None if it has names that no input has."""
    if d.HasField("dim_value"):
        return int(d.dim_value)
    text = d.dim_param
    if text in sizes:
        return sizes[text]
    words = set(re.findall(r"[A-Za-z_]\w*", text)) - {"Max", "Min", "floor", "ceiling", "Mod", "Abs"}
    if not text or not words <= sizes.keys():
        return None
    import sympy

    with suppress(sympy.SympifyError, TypeError, ValueError, AttributeError):
        expression = sympy.sympify(text, locals={w: sympy.Symbol(w) for w in words})
        return int(expression.subs({sympy.Symbol(w): sizes[w] for w in words}))
    return None


TOOLS: dict[str, Tool] = {
    "anyshape": by_anyshape, f"anyshape, sizes to {MOST}": by_anyshape_of_bounded_sizes, "onnx": by_onnx, "onnxruntime": by_onnxruntime,
}  # fmt: skip


# --- comparison


def compare(subjects: Iterator[Subject]) -> tuple[int, dict[str, Tally]]:
    """Counts models, and what each tool says of them."""
    tallies = {name: Tally() for name in TOOLS}
    count = 0
    for subject in subjects:
        count += 1
        for name, tool in TOOLS.items():
            _judge(subject, tool, tallies[name])
    return count, tallies


def _judge(subject: Subject, tool: Tool, tally: Tally) -> None:
    try:
        said = tool(subject.proto, subject.feeds)
    except Exception:  # other people's tools: that one fails is a result
        said = {}
        tally.failed += 1
    for value, shapes in subject.true.items():
        answers = said.get(value) or [None] * len(shapes)
        for axis in range(len(shapes[0])):
            numbers = [None if a is None or len(a) != len(s) else a[axis] for a, s in zip(answers, shapes)]
            contradicted = [(a, s[axis]) for a, s in zip(numbers, shapes) if a is not None and a != s[axis]]
            if contradicted:
                tally.wrong.append((subject.name, value, axis, *contradicted[0]))
            elif None in numbers:
                tally.unknown += 1
            else:
                tally.right += 1
        ranks = [(len(a), len(s)) for a, s in zip(answers, shapes) if a is not None and len(a) != len(s)]
        if ranks:
            tally.wrong.append((subject.name, value, -1, *ranks[0]))


def table(sets: Mapping[str, tuple[int, Mapping[str, Tally]]]) -> list[str]:
    """Rows of Markdown."""
    lines = ["| models | dims | tool | unknown | wrong | refused models |", "|---|---|---|---|---|---|"]
    for name, (count, tallies) in sets.items():
        for tool, t in tallies.items():
            share = f"{t.unknown} ({t.unknown / max(1, t.dims):.1%})"
            lines.append(f"| {count} {name} | {t.dims} | {tool} | {share} | {len(t.wrong)} | {t.failed} |")
    return lines


def disagreements(sets: Mapping[str, tuple[int, Mapping[str, Tally]]]) -> list[str]:
    """Lists the models of each tool that is wrong somewhere."""
    lines = []
    for name, (_, tallies) in sets.items():
        for tool, t in tallies.items():
            by_model = Counter(model for model, *_ in t.wrong)
            if by_model:
                cases = ", ".join(f"{m.removeprefix('test_')} ({n})" for m, n in sorted(by_model.items()))
                lines += wrap(f"- {name}, wrong by {tool}: {cases}", 138, subsequent_indent="  ")
    return lines


SETS: dict[str, Callable[[], Iterator[Subject]]] = {"exported": exported, "networks": whole_networks, "suite": suite}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)} (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="models with this in their names")
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, dim by dim")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/symbolic-shapes.md")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    chosen = args.sets or list(SETS)
    sets = {name: compare(s for s in SETS[name]() if args.only in s.name) for name in chosen}
    lines = [*table(sets), "", *disagreements(sets)]
    print("\n".join(lines))
    if args.wrong:
        for _, tallies in sets.values():
            for tool, t in tallies.items():
                for model, value, axis, said, true in t.wrong:
                    place = "its rank" if axis < 0 else f"dim {axis}"
                    print(f"{tool}: {model}: {place} of {value!r} is {true}, not {said}")
    if args.page:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text("\n".join([f"{head}{BEGIN}", "", *lines, "", END + rest.partition(END)[2]]))


if __name__ == "__main__":
    main()
