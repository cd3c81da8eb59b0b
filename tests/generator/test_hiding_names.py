"""Names of a spec may be names that the generated Python calls: operands, parameters, dims, results and indices keep their meaning."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyshape_gen.emit.bodies import kernels, procedures
from anyshape_gen.emit.bodies.kernels import KernelCode
from anyshape_gen.emit.calls import api, compositions, ops, rewrites
from anyshape_gen.emit.draws import strategies
from anyshape_gen.emit.operators import dialects, mappings
from anyshape_gen.emit.rules import relations
from anyshape_gen.emit.text import names
from anyshape_gen.emit.text.module import (
    NOTHING,
    Code,
    Doc,
    characters,
    joined,
    number_text,
    python_module,
    use,
    used_names,
)
from anyshape_testing.process.profile import load_profile, usual
from anyshape_testing.quick import checks, run
from tests.generator.installing import installed
from tests.specs import all_specs

CALLED = sorted({*names.RULE_NAMES, *names.KERNEL_NAMES, *names._LOCAL} - {"inf", "pi"})
"""What relations and kernels call"""
NOT_CALLED = [
    "Any",
    "Case",
    "Draw",
    "Example",
    "Given",
    "Property",
    "Value",
    "cls",
    "d",
    "op",
    "outputs",
    "passed_",
    "rule_",
    "self",
]
"""Names of other rooms, and what a name with an underscore may meet"""
MANY = 9
FORMS = {
    "params": """
    inputs: {{x: "F[*dd]"}}
    params: {{{params}}}
    outputs: {{y: "F[*dd]"}}
    shape: |
      assert {first} >= 0, "{first} is negative: {{{first}}}"
    kernel: "y[*jj] = x[*jj] + exp(max({sum}, 0) * 0)"
    reference: x + x.dtype.type(1)
    examples:
      - {{x: [2, 3], y: [2, 3]}}
      - {{x: [2, 3], {first}: -1, error: "{first} is negative: -1"}}
""",
    "operands": """
    inputs: {{{inputs}}}
    params: {{{first}_size: {{kind: int, default: 2, dyn: operand}}}}
    outputs: {{yy: "F[*dd, {first}_size]"}}
    shape: |
      assert {first}_size >= 0, "a negative size"
    kernel: "yy[*jj, kk] = exp(max({reads}, 0))"
    reference: np.repeat(np.exp(np.maximum({sum}, 0))[..., None], {first}_size, -1)
    examples:
      - {{{shapes}, yy: [3, 2]}}
      - {{{shapes}, {first}_size: -1, error: a negative size}}
""",
    "dims": """
    inputs: {{xx: "F[{listed}]"}}
    outputs: {{yy: "F[{listed}, local]"}}
    shape: |
      local = min({sum}, 3)
    kernel: "yy[{indices}, kk] = xx[{indices}] + sum(cast(mm, F) for mm in {first})"
    reference: np.repeat((xx + sum(range(xx.shape[0])))[..., None], min(sum(xx.shape), 3), -1).astype(xx.dtype)
    examples:
      - {{xx: [{ones}], yy: [{ones}, 3]}}
""",
    "indices": """
    inputs: {{xx: "F[{sizes}]"}}
    outputs: {{yy: "F[{sizes}]"}}
    kernel: "yy[{listed}] = max(xx[{listed}] + cast({sum}, F), 0)"
    reference: np.maximum(xx + sum(np.indices(xx.shape)), 0).astype(xx.dtype)
    examples:
      - {{xx: [{ones}], yy: [{ones}]}}
""",
}


def spec() -> str:
    """Ops of every form for all names, a few names each."""
    lines = ["ops:"]
    listed = [*CALLED, *NOT_CALLED]
    comma, plus = ",\n          ", " +\n          "  # lines of at most so many columns
    for k in range(0, len(listed), MANY):
        few = listed[k : k + MANY]
        texts = {
            "first": few[0], "listed": comma.join(few), "sum": plus.join(few), "ones": ", ".join(["2", *["1"] * (len(few) - 1)]),
            "params": comma.join(f"{n}: {{kind: int, default: 0}}" for n in few),
            "inputs": comma.join(f'{n}: "F[*dd]"' for n in few), "reads": plus.join(f"{n}[*jj]" for n in few),
            "shapes": comma.join(f"{n}: [3]" for n in few), "sizes": comma.join(f"size_{n}" for n in few),
            "indices": comma.join(f"at_{n}" for n in few),
        }  # fmt: skip
        lines += [f"  hides_{form}_{k}:\n    summary: Hides.{text.format(**texts)}" for form, text in FORMS.items()]
    return "\n".join(lines)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with installed("hiding_ops", spec(), tmp_path, monkeypatch) as name:
        yield name


def test_any_name_that_is_called_may_be_a_name_of_a_spec(package: str) -> None:
    from anyshape_testing.calls.packages import register

    load_profile(3)
    try:
        laws = "examples", "relation gives", "symbols with", "dyn at run"
        failed = [
            line
            for op in register(package)
            for check in checks(package, op)
            if any(w in check.name for w in laws)
            for holds, line in [run(check)]
            if not holds
        ]
    finally:
        load_profile(usual())
    assert not failed, "\n".join(failed)


def test_a_variable_of_an_oracle_is_no_import() -> None:
    oracle = "def turns(count_of):\n    count = len(count_of)\n    return [index for index in range(count)] + list(eq)"
    assert used_names(oracle) == {"len", "range", "list", "eq"}
    assert used_names(f"{oracle}\n\n\nKNOWN = count") == {"len", "range", "list", "eq", "count"}


def test_a_name_is_imported_where_what_it_is_written_in_is_kept() -> None:
    """Nothing is imported for a text that an emitter drops, nor for a name of the op's that looks the same; marks count for nothing on a
    line."""
    code = Code()
    dropped, kept = f"{use('prod')}(x)", f"{use('sum_')}(x)"
    code.add(f"count = {kept if dropped else dropped} + {number_text((float('inf'), -1.5))}[0]")
    assert code.text() == "count = sum_(x) + (inf, -1.5)[0]"
    assert code.text().imports == {"sum_", "inf"}
    assert len(characters(kept)) == len("sum_(x)")
    both = joined("\n", [code.text(), NOTHING], ["eq"])
    again = pickle.loads(pickle.dumps(both))
    assert again == both and again.imports == {"sum_", "inf", "eq"}


def test_a_module_has_the_imports_of_its_code_and_no_name_from_nowhere() -> None:
    code = Code()
    code.add(f"x = {use('eq')}(1, ge)")
    doc = Doc("made", "A module.")
    text = python_module(doc, code.text(), {"eq": "anyshape.rules", "ge": "anyshape.rules"}, "own")
    assert "from anyshape.rules import eq\n" in text and "\0" not in text
    with pytest.raises(KeyError, match="eq"):
        python_module(doc, code.text(), {"ge": "anyshape.rules"}, "own")


def test_what_emitters_mark_is_what_their_code_reads() -> None:
    analysis = all_specs()
    by_name = {a.spec.name: a for a in analysis.ops}
    specs = {name: a.spec for name, a in by_name.items()}
    for a in analysis.ops:
        kernel = KernelCode(NOTHING, (), {})
        if a.kernel is not None or a.procedure is not None:
            kernel = kernels.kernel(a) if a.kernel is not None else procedures.procedure(a)
        body = compositions.composition(a, specs, "p").text if a.spec.compose is not None else NOTHING
        texts = [
            (kernel.text, kernels.KNOWN),
            (body, compositions.KNOWN),
            (relations.relation(a, kernel.bound, kernel.hoisted), relations.KNOWN),
            (rewrites.rewrites(a, specs), rewrites.KNOWN),
            (ops.op_defs(a, by_name), ops.KNOWN),
            (strategies.strategy(a), strategies.KNOWN),
            (api.function(a, ""), api.KNOWN),
            *((text, dialects.KNOWN) for text in mappings.mappings(a.spec, a.spec.onnx, specs)),
        ]
        for text, known in texts:
            assert used_names(text) & known.keys() == text.imports & known.keys(), text
