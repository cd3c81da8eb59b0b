"""`anyshape show`: every stage of an op, for every op that usual shapes fit."""

import pytest

from anyshape.cli.main import main
from anyshape.graph.registry import all_ops


def test_softmax_from_yaml_to_machine_code(capsys):
    stages = ("spec", "relation", "kernel", "equations", "schedule", "program", "llvm", "asm", "speed")
    assert main(["show", "softmax", *(word for s in stages for word in ("--stage", s))]) == 0
    text = capsys.readouterr().out
    for stage in stages:
        assert f"=== {stage}: " in text
    assert "peak[*a, *b]  = max(x[*a, k, *b] for k in n)" in text
    assert "rule.axis(" in text
    assert "define i32 @" in text
    assert "GB/s of operands" in text


def test_a_product_tells_its_share_of_the_peak(capsys):
    assert main(["show", "matmul", "--shape", "a=64x64", "--shape", "b=64x64", "--stage", "speed"]) == 0
    assert "GFLOP/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--stage", "nonsense"], ["--shape", "q=3"], ["--shape", "x=2x"], ["--param", "axis=9"]]
)
def test_wrong_words_are_told(words, capsys):
    assert main(["show", "softmax", *words]) == 2
    assert capsys.readouterr().err.startswith("anyshape: ")


def test_every_op_is_shown_or_says_which_shapes_it_wants(capsys):
    ops = [o for o in all_ops().values() if o.variant != "dyn" and not any(p.required for p in o.params)]
    shown = 0
    for op in ops:
        code = main(["show", op.full_name, "--stage", "equations"])
        shown += code == 0
        assert code == 0 or "--shape NAME=4x128" in capsys.readouterr().err, op.full_name
    assert shown > 0.9 * len(ops)
