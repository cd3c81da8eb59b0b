"""`anyshape show`: every stage of an op, for every op that usual shapes fit."""

import pytest

from anyshape.cli import show as show_module
from anyshape.cli.main import main
from anyshape.errors import ShapeError
from anyshape.graph.registry import all_ops, find_op


def test_softmax_from_yaml_to_machine_code(capsys):
    stages = ("spec", "relation", "kernel", "equations", "schedule", "program", "llvm", "asm", "speed")
    assert main(["show", "softmax", "--stage", "all"]) == 0
    text = capsys.readouterr().out
    for stage in stages:
        assert f"=== {stage}: " in text
    assert "peak[*a, *b]  = max(x[*a, k, *b] for k in n)" in text
    assert 'inputs: {x: "F[*o, n@axis, *i]"}' in text, "what its family says of it"
    assert "rule.axis(" in text
    assert "define i32 @" in text
    assert "GB/s of operands" in text


def test_a_composed_op_is_shown_with_what_it_calls(capsys):
    assert main(["show", "linear_attention"]) == 0
    text = capsys.readouterr().out
    for stage in ("spec", "relation", "composition", "graph", "equations", "schedule", "program", "speed"):
        assert f"=== {stage}: " in text
    assert "read += [matmul(asked[t], last)]" in text and "c.loop(" in text and "= loop(" in text


def test_a_product_tells_its_share_of_the_peak(capsys):
    assert main(["show", "matmul", "--shape", "a=64x64", "--shape", "b=64x64", "--stage", "speed"]) == 0
    assert "GFLOP/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--stage", "nonsense"], ["--shape", "q=3"], ["--shape", "x=2x"], ["--param", "axis=9"]]
)
def test_wrong_words_are_reported(words, capsys):
    assert main(["show", "softmax", *words]) == 2
    assert capsys.readouterr().err.startswith("anyshape: ")


SHOWN = [word for stage in ("equations", "schedule", "llvm", "program") for word in ("--stage", stage)]


@pytest.mark.parametrize("part", range(8))
def test_every_op_is_shown_on_usual_shapes_or_on_an_example_of_its_spec(part, capsys):
    for name in sorted(all_ops())[part::8]:
        assert main(["show", name, *SHOWN]) == 0, (name, capsys.readouterr().err)


def test_only_what_is_asked_for_is_computed(monkeypatch, capsys):
    def called(*_, **options):
        raise ShapeError("it was called")

    monkeypatch.setattr("anyshape.lower.llvm.jit.assembly", called)
    assert main(["show", "softmax", *SHOWN]) == 0
    assert main(["show", "softmax", "--stage", "asm"]) != 0
    monkeypatch.setattr("anyshape.lower.lower_group", called)
    monkeypatch.setattr("anyshape.vm.compile", called)
    assert main(["show", "softmax", "--stage", "equations"]) == 0
    assert all(main(["show", "softmax", "--stage", stage]) != 0 for stage in ("schedule", "llvm", "program", "speed"))


def test_a_dyn_op_takes_its_operands_when_it_runs(capsys):
    assert main(["show", "dyn.reshape", "--stage", "program", "--stage", "speed"]) == 0
    text = capsys.readouterr().out
    assert "newshape: i64[2]" in text and "argument newshape" in text and "an example of the spec" in text
    assert main(["show", "dyn.reshape", "--shape", "x=64x32", "--param", "newshape=[-1, 16]", "--stage", "speed"]) == 0
    assert "x 64x32, newshape 2" in capsys.readouterr().out


def test_what_does_not_fit_says_what_is_wanted(capsys):
    assert main(["show", "reshape", "--shape", "x=7", "--param", "newshape=[2]"]) == 2
    assert "--shape NAME=4x128" in capsys.readouterr().err


def test_contents_that_an_assert_refuses_are_those_of_an_example(monkeypatch):
    op = find_op("static.reverse_sequence" if "static.reverse_sequence" in all_ops() else "reverse_sequence")
    example = show_module._example(op, {}, {})
    tried: list[object] = []

    def refusing(most: int) -> None:
        def speed(contents, executable):
            tried.append(contents)
            if len(tried) <= most:
                raise ShapeError("a length of 0")
            return "measured"

        monkeypatch.setattr(show_module, "_speed", speed)
        tried.clear()

    refusing(1)
    assert show_module._speed_of_some(op, example, None, shapes={}, params={}) == "measured"
    assert tried[0] is example and len(tried) == 2
    refusing(1000)
    assert (
        "not measured" in (text := show_module._speed_of_some(op, example, None, shapes={}, params={}))
        and "a length of 0" in text
    )
