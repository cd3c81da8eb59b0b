"""Policies of sizes: which calls get code of their own, when, and that nothing else differs."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.cli.explain import explain, explanation
from anyshape.cli.profile import Limits
from anyshape.cli.profile import text as profile_text
from anyshape.errors import ArgumentError, ShapeError
from anyshape.passes import padding
from anyshape.policies import Bucketed, Generic, Padding, Ruled, SizePolicy, Specialised, size_policy
from anyshape.vm.compiling import size_plan
from anyshape.vm.executable.profile import profile
from anyshape.vm.report.size_variants import State

SHAPES = [(3, 5), (3, 5), (1, 1), (64, 3), (2, 65), (0, 4), (3, 5), (2, 129), (7, 64), (3, 5)]


def scores() -> anyshape.Function:
    x = anyshape.input("x", "f32[b, n]")
    return anyshape.function([x], ops.softmax(ops.mul(ops.tanh(x), x), axis=-1))


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def states(exe: anyshape.Executable) -> dict[str, State]:
    return {str(v).partition(":")[0]: v.state for v in exe.report.variants}


def ulp_of(exe: anyshape.Executable) -> int:
    """Units in the last place by which results may differ: padding adds the same terms in another order."""
    return 4 if "padded" in exe.report.policy else 0


POLICIES: list[Any] = [
    "generic", "specialised", "bucketed", "padded", Specialised(hot=1, most=1), Specialised(hot=1, dims=("n",)),
    Specialised(at=[{"b": 3, "n": 5}]), Bucketed(edges=(4, 64)), Bucketed(edges=(4, 64), dims=("n",), pad=True),
    {"n": Bucketed(edges=(64, 128))}, {"n": "specialised", "b": "generic"}, Specialised(hot=1, ops=("softmax",)),
    lambda sizes: {"n": (1, 64)} if 0 < sizes["n"] <= 64 else None,
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_results_are_those_of_the_program_for_all_sizes(policy: Any) -> None:
    generic, exe = anyshape.compile(scores()), anyshape.compile(scores(), policy=policy)
    for shape in SHAPES:
        for _ in range(3):
            x = array(*shape)
            np.testing.assert_array_max_ulp(exe(x), generic(x), ulp_of(exe))
            np.testing.assert_array_max_ulp(exe.run({"x": x})[0], generic(x), ulp_of(exe))
        exe.wait()
    assert all(v.state in (State.READY, State.COUNTED) for v in exe.report.variants), [*map(str, exe.report.variants)]
    assert exe.compiled_after_first_call <= generic.compiled_after_first_call


def test_a_padded_tail_that_results_see_is_outside_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A softmax without its mask adds the exponentials of the zeros that it is padded with."""
    monkeypatch.setattr(padding, "fills_of", lambda *_: {})
    generic, exe = anyshape.compile(scores()), anyshape.compile(scores(), policy="padded")
    for _ in range(3):
        exe(array(3, 5))
        exe.wait()
    expected, results = (
        generic(array(3, 5)),
        [exe(array(3, 5)) for _ in range(2)],
    )  # the two programs are timed in turns
    with pytest.raises(AssertionError, match="ULP"):
        for result in results:
            np.testing.assert_array_max_ulp(result, expected, ulp_of(exe))


def test_code_is_made_for_a_size_once_it_is_hot() -> None:
    exe = anyshape.compile(scores(), policy=Specialised(hot=3))
    for _ in range(2):
        exe(array(3, 5))
    exe.wait()
    assert states(exe) == {"b=3, n=5": State.COUNTED}
    exe(array(3, 5))
    exe.wait()
    assert states(exe) == {"b=3, n=5": State.READY}
    (variant,) = exe.report.variants
    assert variant.gain is None
    exe(array(3, 5))
    assert variant.gain is not None
    assert "times as fast" in str(exe.report)


def test_a_call_that_compiles_the_program_for_empty_dims_is_no_measure() -> None:
    """The first call of a size 0 takes as long as compiling takes; beside it any variant gains thousands of times."""
    exe = anyshape.compile(scores(), policy=Specialised(hot=2))
    exe(array(3, 0))
    (variant,) = exe.report.variants
    assert exe.compiled_after_first_call == 1 and not variant.generic
    exe(array(3, 0))
    assert [len(times) for times in variant.generic.values()] == [1]
    exe.wait()


EXPLAINED: list[tuple[Any, str, str, str]] = [
    (Bucketed(edges=(64, 128), dims=("n",)), "bucketed by 64, 128, for n", "n=0..64", "n=65..128"),
    ({"n": "bucketed", "b": "generic"}, "bucketed by powers of two, for n; generic, for b", "n=5..8", "n=65..128"),
    (Specialised(hot=3), "specialised, for b, n", "b=2, n=5", "b=2, n=100"),
]


@pytest.mark.parametrize(("policy", "said", "small", "large"), EXPLAINED, ids=range(len(EXPLAINED)))
def test_explain_and_profile_tell_what_ran_a_call_and_what_it_gained(
    policy: Any, said: str, small: str, large: str
) -> None:
    exe = anyshape.compile(scores(), policy=policy)
    assert f"policy of sizes: {said}; no call has asked" in explanation(exe)
    for n in (5, 100):
        for _ in range(3):
            exe(array(2, n))
        exe.wait()
        exe(array(2, n))
    for bounds in (small, large):
        assert re.search(
            rf"policy of sizes: {said}\n.*variant for {bounds}: compiled in .* times as fast", explanation(exe), re.S
        )
    assert all("times as fast" in v for v in explain(exe).data["report"]["variants"])
    for n, bounds in ((5, small), (100, large)):
        measured = profile(scores(), {"x": array(2, n)}, 2, policy=policy)
        assert re.fullmatch(
            rf"{said}: variant for {bounds}: compiled in .* times as fast as the program for all sizes", measured.policy
        )
        assert measured.samples and said in profile_text(measured, Limits({"f32": 1.0}, 1.0))
    out = profile(scores(), {"x": array(2, 500)}, 2, policy=Bucketed(edges=(64, 128)))
    assert out.policy == "bucketed by 64, 128, for b, n: variant for b=0..64: " + out.policy.partition("b=0..64: ")[2]


def test_profile_tells_what_no_policy_has_code_for() -> None:
    x = {"x": array(2, 500)}
    assert profile(scores(), x, 2).policy == "" and "policy" not in explanation(anyshape.compile(scores()))
    rule = profile(scores(), x, 2, policy=lambda sizes: None)
    assert rule.policy == "ruled by <lambda>, for b, n: the program for all sizes"
    assert profile(scores(), x, 2, policy=Bucketed(edges=(64,), dims=("n",))).policy.endswith(
        "for n: the program for all sizes"
    )


def test_no_call_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    build = size_plan.SizePlan._build

    def recorded(self: size_plan.SizePlan, *args: Any, **kwargs: Any) -> None:
        threads.append(threading.current_thread().name)
        build(self, *args, **kwargs)

    monkeypatch.setattr(size_plan.SizePlan, "_build", recorded)
    exe = anyshape.compile(scores(), policy=Specialised(hot=1, at=[{"b": 2, "n": 2}]))
    exe(array(3, 5))
    exe.wait()
    assert threads == [threading.current_thread().name, "anyshape variants"]


def test_a_call_does_not_wait_for_code(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(size_plan.SizePlan, "_build", lambda self, variant, **_: (go.wait(30), build(self, variant))[0])
    exe = anyshape.compile(scores(), policy=Specialised(hot=1))
    for _ in range(5):
        exe(array(3, 5))
    assert states(exe) == {"b=3, n=5": State.QUEUED}
    go.set()
    exe.wait()
    assert states(exe) == {"b=3, n=5": State.READY}


build = size_plan.SizePlan._build


def test_code_that_was_not_used_for_longest_goes() -> None:
    exe = anyshape.compile(scores(), policy=Specialised(hot=1, most=2, dims=("n",)))
    for n in (5, 6, 5, 7):
        for _ in range(100):
            exe(array(2, n))
            exe.wait()
    assert states(exe)["n=7"] is State.READY
    assert sum(s is State.READY for s in states(exe).values()) == 2


def test_sizes_that_come_once_take_no_memory_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_plan, "MOST_ENTRIES", 8)
    exe = anyshape.compile(scores(), policy=Specialised(hot=2))
    for _ in range(2):
        exe(array(2, 1))
    exe.wait()
    for n in range(2, 40):
        exe(array(2, n))
    assert len(exe.report.variants) <= 9
    assert states(exe)["b=2, n=1"] is State.READY


def test_code_of_ops_is_for_the_dims_that_they_read() -> None:
    x, w = anyshape.input("x", "f32[b, n]"), anyshape.input("w", "f32[k, m]")
    f = anyshape.function([x, w], [ops.softmax(x), ops.transpose(w)])
    exe = anyshape.compile(f, policy=Specialised(hot=1, ops=("softmax",)))
    exe(array(2, 3), array(4, 5))
    exe.wait()
    assert states(exe) == {"b=2, n=3": State.READY}


def test_buckets() -> None:
    two, powers = Bucketed(edges=(64, 128)), Bucketed()
    assert [two.bound(n) for n in (0, 1, 64, 65, 128, 129)] == [(0, 64), (0, 64), (0, 64), (65, 128), (65, 128), None]
    assert [powers.bound(n) for n in (0, 1, 2, 3, 4, 5, 8, 9)] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 4),
        (3, 4),
        (5, 8),
        (5, 8),
        (9, 16),
    ]


def test_padded_buckets_have_no_empty_size() -> None:
    two, powers = Bucketed(edges=(64, 128), pad=True), Bucketed(pad=True)
    assert [two.bound(n) for n in (0, 1, 64, 65, 129)] == [None, Padding(1, 64), Padding(1, 64), Padding(65, 128), None]
    assert [powers.bound(n) for n in (0, 1, 3, 9)] == [None, Padding(1, 1), Padding(3, 4), Padding(9, 16)]


def pairs() -> anyshape.Function:
    x, y = anyshape.input("x", "f32[n, k]"), anyshape.input("y", "f32[m, n]")
    return anyshape.function([x, y], [ops.matmul(y, x), ops.relu(x)])


def test_padded_calls_have_the_sizes_of_their_operands() -> None:
    generic, exe = (
        anyshape.compile(pairs()),
        anyshape.compile(pairs(), policy=Bucketed(edges=(8,), dims=("n",), pad=True)),
    )
    for n, m, k in ((5, 2, 3), (6, 4, 1), (8, 2, 2), (6, 4, 0), (9, 1, 1)) * 3:
        x, y = array(n, k), array(m, n)
        for got, want in zip(exe.run({"x": x, "y": y}), generic.run({"x": x, "y": y}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert got.shape == want.shape and got.flags.c_contiguous
        place = np.empty((n, k), np.float32)
        assert exe.run({"x": x, "y": y}, {"output1": place})[1] is place
        np.testing.assert_array_equal(place, np.maximum(x, 0))
        exe.wait()
    (variant,) = exe.report.variants
    assert str(variant).startswith("n=1..8 padded: compiled in") and variant.gain is not None and not variant.reason


def test_operands_that_do_not_fit_each_other_are_no_padded_call() -> None:
    generic, exe = (
        anyshape.compile(pairs()),
        anyshape.compile(pairs(), policy=Bucketed(edges=(8,), dims=("n",), pad=True)),
    )
    for _ in range(3):
        exe.run({"x": array(5, 3), "y": array(2, 5)})
        exe.wait()
    said = []
    for e in (exe, generic):
        with pytest.raises(ShapeError) as error:
            e.run({"x": array(5, 3), "y": array(2, 6)})
        said.append(str(error.value))
    assert said[0] == said[1]


def test_what_cannot_be_padded_is_compiled_for_the_bucket() -> None:
    x = anyshape.input("x", "f32[b, n]")
    f = anyshape.function([x], ops.mean(x, axes=[-1]))
    exe = anyshape.compile(f, policy=Bucketed(edges=(8,), dims=("n",), pad=True))
    for n in (5, 5, 6):
        np.testing.assert_allclose(exe(array(2, n)), array(2, n).mean(-1), rtol=1e-6)
        exe.wait()
    (variant,) = exe.report.variants
    assert variant.state is State.READY and variant.reason == "nothing is padded: static.mean: its elements depend on n"


def test_a_variant_is_compared_with_as_many_calls_of_the_program_for_all_sizes() -> None:
    exe = anyshape.compile(scores(), policy=Specialised(hot=1))
    for _ in range(3):
        exe(array(3, 5))
        exe.wait()
    (variant,) = exe.report.variants
    for _ in range(20):
        exe(array(3, 5))
    assert [len(t) for t in variant.generic.values()] == [5] and next(len(t) for t in variant.own.values()) > 10


def test_a_size_that_the_model_refuses_is_refused_by_its_own_words() -> None:
    exe, generic = (anyshape.compile(scores(), {"n": (1, 8)}, policy=p) for p in (Specialised(hot=1), "generic"))
    said = []
    for e in (exe, generic):
        with pytest.raises(ShapeError) as error:
            e(array(2, 9))
        said.append(str(error.value))
    assert said[0] == said[1]
    assert states(exe) == {}


def test_sizes_that_the_model_never_takes_are_not_compiled_for() -> None:
    with pytest.raises(ArgumentError, match="do not have these sizes"):
        anyshape.compile(scores(), {"n": (1, 8)}, policy=Specialised(at=[{"b": 1, "n": 9}]))
    exe = anyshape.compile(scores(), {"n": (1, 8)}, policy=Specialised(at=[{"b": 1, "n": 8}], hot=0))
    assert states(exe) == {"b=1, n=8": State.READY}


def test_what_is_refused_for_some_sizes_is_reported_and_runs_as_before() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], ops.mul(x, 2.0))
    generic = anyshape.compile(f, policy=Ruled(rule=lambda sizes: {"n": sizes["n"]}, hot=1))
    plan: Any = generic.plan

    def refused(bounds: Any) -> Any:
        raise ShapeError(f"no code for {bounds}")

    plan._compile = refused
    for _ in range(3):
        np.testing.assert_array_equal(generic(array(4)), array(4) * 2)
        generic.wait()
    assert [str(v) for v in generic.report.variants] == ["n=4: refused: no code for {'n': 4}"]


WRONG: list[tuple[Any, str]] = [
    ("fast", "policy must be one of generic, specialised, bucketed"),
    (5, "policy must be "),
    ({"n": 5}, "policy must be "),
    (Specialised(dims=("m",)), "no input has a dim m; there are b, n"),
    (Specialised(ops=("conv",)), "the model has no op conv"),
    (Specialised(at=[{"b": 3}]), "has none for n"),
    (Specialised(at=[{"b": 3, "n": 4, "z": 1}]), "no input has a dim z"),
    ({"z": "specialised"}, "no input has a dim z"),
]


@pytest.mark.parametrize(("policy", "words"), WRONG, ids=[w for _, w in WRONG])
def test_wrong_policies(policy: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        anyshape.compile(scores(), policy=policy)


RULES: list[tuple[Any, str]] = [
    (lambda _: {"n": 4}, "gives n 4 for a call of {'b': 3, 'n': 5}, outside of these bounds"),
    (lambda _: {"n": (6, None)}, "outside of these bounds"),
    (lambda _: {"z": 4}, "outside of these bounds"),
    (lambda _: 5, "must give sizes or"),
    (lambda _: {"n": "5"}, "must give sizes or"),
    (lambda sizes: sizes["missing"], "raised KeyError"),
]


@pytest.mark.parametrize(("rule", "words"), RULES, ids=[w for _, w in RULES])
def test_wrong_rules(rule: Any, words: str) -> None:
    exe = anyshape.compile(scores(), policy=rule)
    with pytest.raises(ArgumentError, match=words):
        exe(array(3, 5))


FIELDS: list[tuple[Any, str]] = [
    (lambda: Bucketed(edges=(64, 32)), "Bucketed: edges must be ascending numbers of at least 1"),
    (lambda: Bucketed(edges=5), "Bucketed: edges must be .*, got int 5"),
    (lambda: Specialised(hot=-1), "Specialised: hot must be at least 0, got -1"),
    (lambda: Specialised(most=True), "Specialised: most must be int, got bool True"),
    (lambda: Specialised(dims="n"), "Specialised: dims must be "),
    (lambda: Specialised(at={"n": 3}), "Specialised: at must be "),
]


@pytest.mark.parametrize(("make", "words"), FIELDS, ids=[w for _, w in FIELDS])
def test_fields_of_wrong_kinds(make: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make()


def test_a_saved_model_has_the_program_for_all_sizes(tmp_path: Path) -> None:
    exe = anyshape.compile(scores(), policy=Specialised(at=[{"b": 3, "n": 5}]))
    exe.save(tmp_path / "m.anyshape")
    loaded = anyshape.load(tmp_path / "m.anyshape")
    for shape in SHAPES:
        np.testing.assert_array_equal(loaded(array(*shape)), exe(array(*shape)))
    assert loaded.report.variants == []
    with pytest.raises(ArgumentError, match="pass policy when you compile the ONNX model"):
        anyshape.compile(tmp_path / "m.anyshape", policy="specialised")


def test_calls_from_many_threads() -> None:
    generic, exe = anyshape.compile(scores()), anyshape.compile(scores(), policy=Specialised(hot=2, most=2))
    wrong: list[object] = []

    def calls(k: int) -> None:
        for shape in SHAPES[k % 4 :] * 20:
            x = array(*shape)
            if not np.array_equal(exe(x), generic(x)):
                wrong.append(shape)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_policy_stays_what_it_is() -> None:
    assert size_policy(None) == Generic()
    policy: SizePolicy = Specialised(hot=4)
    assert size_policy(policy) is policy
