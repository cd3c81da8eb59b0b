"""All specs load; what the solver and the kernel resolver make of them is what a person would write."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.model.analysis import (
    Analysis,
    BindParam,
    Define,
    Dependence,
    Equal,
    ForEach,
    IfPresent,
    RankCheck,
    Role,
    SolveStep,
)
from anyshape_gen.model.nodes import Exact, Fit, Flat, Node, Offset, Over, Placed, Reduction, TensorRead
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.traverse import walk
from tests.specs import all_specs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def specs() -> Analysis:
    return all_specs()


@pytest.fixture(scope="module")
def all_ops() -> Analysis:
    return analyse(read_specs([ROOT / "tests/generator/data/all_ops.yaml"], ROOT), complete=False)


def test_how_many(specs: Analysis, all_ops: Analysis) -> None:
    assert len(specs.ops) >= 45
    assert len(all_ops.ops) == 53
    assert specs.op("reshape").file == "specs/movement.yaml"


def lines(steps: tuple[SolveStep, ...]) -> list[str]:
    """Solve steps as text."""
    out: list[str] = []
    for step in steps:
        match step:
            case RankCheck(operand=operand, rank=rank, most=most):
                out.append(f"rank {operand} {'==' if rank == most else '>='} {to_text(rank)}")
                out += [f"rank {operand} <= {to_text(most)}"] if most not in (None, rank) else []
            case BindParam(param=param, defines_length=opens):
                out.append(f"param {param.name}" + (f" opens {opens}" if opens else ""))
            case Define(name=name, value=value):
                out.append(f"{name} = {to_text(value)}")
            case Equal(left=left, right=right):
                out.append(f"{to_text(left)} == {to_text(right)}")
            case ForEach(var=var, count=count, steps=inner):
                out += [f"for {var} in {to_text(count)}", *("  " + line for line in lines(inner))]
            case IfPresent(operand=operand, steps=inner, absent=absent):
                out += [f"if {operand}", *("  " + line for line in lines(inner))]
                out += ["else", *("  " + line for line in lines(absent))] if absent else []
            case _:
                out.append(type(step).__name__)
    return out


SOLVED = {
    "softmax": [
        "param axis",
        "rank x >= axis + 1",
        "o = shape(x)[:axis]",
        "n = shape(x)[axis]",
        "i = shape(x)[axis + 1:]",
    ],
    "reduce_mean": [
        "param axes",
        "param keepdims",
        "rank x >= len(axes)",
        "r = shape(x)[axes]",
        "o = drop(shape(x), axes)",
    ],
    "slice": ["param starts opens r", "param ends", "param axes", "param steps", "d = shape(x)"],
    "scatter_nd": [
        "param reduction",
        "rank index >= 1",
        "j = shape(index)[:-1]",
        "q = shape(index)[-1]",
        "rank x >= q",
        "rank updates >= len(j)",
        "n = shape(x)[:q]",
        "r = shape(x)[q:]",
        "j == shape(updates)[:len(j)]",
        "r == shape(updates)[len(j):]",
    ],
    "space_to_depth": [
        "param r",
        "rank x == 4",
        "b = shape(x)[0]",
        "c = shape(x)[1]",
        "h = exact_div(shape(x)[2], r)",
        "w = exact_div(shape(x)[3], r)",
    ],
    "concat": [
        "param axis",
        "c = len(xs)",
        "AtLeastOne",
        "for v in c",
        "  rank xs >= axis + 1",
        "o = shape(xs[0])[:axis]",
        "n = [shape(xs[v])[axis] for v in range(c)]",
        "i = shape(xs[0])[axis + 1:]",
        "for v in c",
        "  o == shape(xs[v])[:axis]",
        "  i == shape(xs[v])[axis + 1:]",
    ],
    "matmul": [
        "rank a >= 1",
        "a_m = clamp(len(shape(a)) - 1, 0, 1)",
        "rank b >= 1",
        "b_n = clamp(len(shape(b)) - 1, 0, 1)",
        "p = shape(a)[:len(shape(a)) - (a_m + 1)]",
        "m = shape(a)[len(shape(a)) - (a_m + 1):-1]",
        "k = shape(a)[-1]",
        "q = shape(b)[:len(shape(b)) - (b_n + 1)]",
        "k == shape(b)[len(shape(b)) - (b_n + 1)]",
        "n = shape(b)[len(shape(b)) - b_n:]",
    ],
    "layer_norm": [
        "param axis",
        "param epsilon",
        "rank x >= axis",
        "o = shape(x)[:axis]",
        "n = shape(x)[axis:]",
        "if scale",
        "  u = shape(scale)",
        "else",
        "  u = []",
        "if bias",
        "  v = shape(bias)",
        "else",
        "  v = []",
    ],
}


@pytest.mark.parametrize("name", SOLVED)
def test_solving_order(all_ops: Analysis, name: str) -> None:
    assert lines(all_ops.op(name).steps) == SOLVED[name]


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("add", "broadcast(p, q)"),
        ("softmax", "shape(x)"),
        ("sum", "place(o, fill(len(kept), 1), kept)"),
        ("matmul", "[*broadcast(p, q), *m, *n]"),
        ("concat", "[*o, sum(n), *i]"),
        ("expand_dims", "place(d, fill(len(axes), 1), axes)"),
        ("split", "[*o, sizes[v], *i]"),
        ("reshape", "s"),
        ("size", "[]"),
    ],
)
def test_output_shapes(specs: Analysis, op: str, shape: str) -> None:
    assert to_text(specs.op(op).outputs[0].shape) == shape


def test_dependence_of_shapes(specs: Analysis) -> None:
    assert specs.op("reshape").dependence == {"x": Dependence.SHAPE, "newshape": Dependence.VALUES}
    assert specs.op("shape_of").dependence == {"x": Dependence.RANK}
    assert specs.op("full").dependence == {"value": Dependence.NOTHING, "shape": Dependence.VALUES}
    assert specs.op("trilu").dependence["k"] == Dependence.NOTHING
    assert specs.op("layer_norm").dependence["scale"] == Dependence.NOTHING


def reads(analysis: Analysis, op: str, tensor: str) -> list[TensorRead]:
    kernel = analysis.op(op).kernel
    assert kernel is not None
    nodes = [node for equation in kernel.equations for node in walk(equation.value)]
    return [node for node in nodes if isinstance(node, TensorRead) and node.tensor == tensor]


def parts(analysis: Analysis, op: str, tensor: str) -> list[type[Node]]:
    return [type(part) for part in reads(analysis, op, tensor)[0].parts]


def test_how_reads_match(specs: Analysis, all_ops: Analysis) -> None:
    assert parts(specs, "matmul", "a") == [Fit, Exact, Exact]
    assert parts(specs, "transpose", "x") == [Placed]
    assert parts(specs, "sum", "x") == [Placed]
    assert parts(specs, "softmax", "x") == [Exact, Exact, Exact]
    assert parts(specs, "layer_norm", "scale") == [Fit]
    assert parts(all_ops, "conv", "w") == [Flat, Exact, Exact]
    assert to_text(reads(specs, "layer_norm", "scale")[0].absent) == "1"
    assert to_text(reads(all_ops, "conv", "x")[0].outside) == "0"
    mask = reads(all_ops, "attention", "mask")[0].parts
    assert len(mask) == 1
    assert isinstance(mask[0], Fit)
    assert len(mask[0].items) == 4


def test_extents(specs: Analysis, all_ops: Analysis) -> None:
    kernel = specs.op("matmul").kernel
    assert kernel is not None
    variables = [(v.name, v.run, to_text(v.extent)) for v in kernel.equations[0].vars]
    assert variables == [("g", True, "broadcast(p, q)"), ("i", True, "m"), ("j", True, "n")]
    concat = specs.op("concat").kernel
    assert concat is not None
    (equation,) = concat.equations
    assert [(v.name, v.role) for v in equation.vars if v.role == Role.ELEMENT] == [("v", Role.ELEMENT)]
    assert any(isinstance(part, Offset) for part in equation.parts)
    lstm = all_ops.op("lstm").kernel
    assert lstm is not None
    assert {s.name: to_text(s.shape) for s in lstm.scratch}["pre"] == "[t, e, b, 4, h]"
    recurrent = [e.target.tensor for e in lstm.equations if e.recurrence == "s"]
    assert recurrent == ["pre", "cell", "hid"]


def test_equations_come_in_dependency_order(all_ops: Analysis) -> None:
    for op in all_ops.ops:
        defined: set[str] = set()
        for equation in op.kernel.equations if op.kernel else ():
            names = {n.tensor for n in walk(equation.value) if isinstance(n, TensorRead)}
            scratch = {s.name for s in op.kernel.scratch} if op.kernel else set()
            if equation.recurrence is None:
                assert names & scratch <= defined, op.spec.name
            defined.add(equation.target.tensor)


def test_what_generators_run_over(specs: Analysis, all_ops: Analysis) -> None:
    def over(analysis: Analysis, op: str) -> list[Over]:
        kernel = analysis.op(op).kernel
        assert kernel is not None
        nodes = [node for equation in kernel.equations for node in walk(equation.value)]
        return [generator.over for node in nodes if isinstance(node, Reduction) for generator in node.generators]

    assert over(specs, "matmul") == [Over.EXTENT]
    assert over(specs, "mean") == [Over.EXTENTS] * 2
    assert over(all_ops, "cumsum") == [Over.RANGE, Over.RANGE]


def test_functions_go_where_they_are_called(all_ops: Analysis) -> None:
    conv = all_ops.op("conv")
    assert [f.name for f in conv.shape_functions] == ["same_pad", "pad_begin", "pad_end", "window"]
    assert conv.kernel_functions == ()
    assert [f.name for f in all_ops.op("lstm").kernel_functions] == ["sigmoid"]


def test_value_asserts_are_the_kernels(all_ops: Analysis) -> None:
    lstm = all_ops.op("lstm")
    assert len(lstm.rule) == 1
    assert lstm.kernel is not None
    assert len(lstm.kernel.asserts) == 1


def test_same_op_in_two_files() -> None:
    text = 'ops:\n  neg: {inputs: {x: "T[n]"}, outputs: {y: "T[n]"}, kernel: "y[i] = -x[i]"}\n'
    with pytest.raises(SpecError, match=r"b\.yaml:2:3: op 'neg' is also defined at a\.yaml:2:3"):
        analyse({"a.yaml": text, "b.yaml": text}, complete=False)
