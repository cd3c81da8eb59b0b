"""What no list of features says: LLVM's tuning decides about gathers, the host's own speed about vectors executed as two halves."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from anyshape.disk_cache import DiskCache
from anyshape.lower import pair_speed
from anyshape.lower import target as target_module
from anyshape.lower.gemm import reload_probe
from anyshape.lower.gemm.microkernels import FULL, emit_kernel
from anyshape.lower.gemm.pairs import Pairs
from anyshape.lower.gemm.tiles import tiles_for
from anyshape.lower.llvm import target_probe
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import assembly
from anyshape.lower.llvm.types import BF16, F16, F32, Type
from anyshape.lower.target import Target, host_target
from anyshape_testing.laws.processors import NEON, TARGETS, processor

AVX512 = "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empties every cache of answers."""
    monkeypatch.setattr(target_probe, "disk_cache", lambda: DiskCache(tmp_path))
    measured = reload_probe.measured_reloads, reload_probe.measured_free, target_probe.measured_reads_ahead
    for cached in (target_probe.gathers, target_probe.measured_multiply_adds, *measured):
        cached.cache_clear()


def x86(cpu: str, features: str) -> Target:
    return processor("x86_64-unknown-linux-gnu", cpu, features)


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("cpu", "gathers"),
    [("znver4", False), ("znver5", False), ("skylake-avx512", True), ("sapphirerapids", True), ("x86-64-v4", True)],
)
def test_gathers_are_used_where_llvm_is_tuned_for_them(cpu: str, gathers: bool) -> None:
    assert target_probe.gathers(x86(cpu, AVX512)) is gathers
    assert not target_probe.gathers(x86(cpu, AVX512).limited("avx2")), (
        "they are masked, which only AVX-512's are without a cost"
    )


@pytest.mark.usefixtures("empty")
def test_it_is_the_tuning_that_counts_not_the_name() -> None:
    assert target_probe.gathers(x86("znver4", f"{AVX512},+fast-gather"))
    assert not target_probe.gathers(x86("skylake-avx512", f"{AVX512},-fast-gather"))


@pytest.mark.usefixtures("empty")
def test_vectors_that_take_twice_the_time_of_their_halves_are_one_a_cycle() -> None:
    """LLVM makes two vectors of one of twice the width that there is; 16 bytes nobody halves."""
    host = host_target()
    assert target_probe.measured_multiply_adds(replace(host, vector_bytes=2 * host.vector_bytes)) == 1
    assert target_probe.measured_multiply_adds(replace(host, vector_bytes=16)) == 2


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(("seconds", "reloads"), [([1.0, 0.5], 1), ([1.0, 0.99], 0), ([1.0, 1.5], 0)])
def test_factors_are_loaded_again_where_that_is_faster(
    seconds: list[float], reloads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_probe, "least", lambda calls, rounds: [call() and s for call, s in zip(calls, seconds)])
    assert reload_probe.measured_reloads(host_target()) == reloads


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(("seconds", "are_free"), [([1.0, 1.0], 1), ([1.0, 1.01], 1), ([1.0, 1.07], 0)])
def test_conversions_are_free_where_they_take_no_time_beside_the_products(
    seconds: list[float], are_free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_probe, "least", lambda calls, rounds: [call() and s for call, s in zip(calls, seconds)])
    assert reload_probe.measured_free(host_target()) == are_free


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(("seconds", "prefetches"), [([1.0, 1.1], False), ([1.0, 1.02], True), ([1.0, 0.7], True)])
def test_streams_are_prefetched_unless_the_processor_is_faster_alone(
    seconds: list[float], prefetches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_probe, "least", lambda calls, rounds: [call() and s for call, s in zip(calls, seconds)])
    for size in (32, 48):
        target = replace(host_target(), l1_bytes=size << 10)
        monkeypatch.setattr(target_probe, "host_target", lambda target=target: target)
        assert target_probe.prefetches_streams(target) is (prefetches and target.has_buffers_to_prefetch)


@pytest.mark.skipif(not (host_target().scalef and host_target().f16), reason="the host is not measured")
@pytest.mark.parametrize(("reloads", "free"), [(False, False), (False, True), (True, False)])
def test_tiles_share_what_is_widened_unless_it_takes_no_time(
    reloads: bool, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_probe, "measured_reloads", lambda target: reloads)
    monkeypatch.setattr(reload_probe, "measured_free", lambda target: free)
    assert reload_probe.shares_widened(host_target()) is not (reloads or free)
    assert reload_probe.shares_widened(host_target().limited("avx2"))


@pytest.mark.usefixtures("empty")
@pytest.mark.skipif(not host_target().pairs, reason="the host has no products of pairs")
@pytest.mark.parametrize(("seconds", "are_slow"), [((1.0, 4.0), True), ((1.0, 2.0), True), ((1.0, 1.0), False)])
def test_pairs_are_multiplied_where_that_is_faster(
    seconds: tuple[float, float], are_slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHAPE_CACHE", str(tmp_path))
    measure = pair_speed.are_pairs_slow.__wrapped__
    host, measured = host_target(), list[bool]()
    names = host.triple, host.cpu, host.features
    assert all(s > 0 for s in pair_speed._seconds(*names))
    monkeypatch.setattr(pair_speed, "_seconds", lambda *names: (measured.append(True), seconds)[1])
    assert [measure(*names) for _ in range(2)] == [are_slow] * 2 and len(measured) == 1, "it is kept"
    monkeypatch.setattr(target_module, "are_pairs_slow", lambda *names: are_slow)
    vectors = host_target.__wrapped__().without_tiles
    assert vectors.multiplies_pairs is not are_slow
    assert Pairs().per(vectors) == (1 if are_slow else 2)
    assert Pairs().stored_b(vectors, 1) == (BF16 if are_slow else None)
    assert vectors.limited("amx").multiplies_pairs, "matrix tiles multiply pairs, whatever vectors do"


@pytest.mark.parametrize("stored", [F16, BF16])
@pytest.mark.parametrize(("rows", "vectors"), [(5, 2), (8, 2), (14, 2), (9, 1)])
def test_multiply_adds_that_load_their_factors_need_no_registers_for_them(
    stored: Type, rows: int, vectors: int
) -> None:
    """LLVM makes one of equal loads, and puts into a register what two want; nothing but the machine code says that it did not."""
    target = x86("znver4", AVX512)
    module, tiles = Module(target), tiles_for(target, F32)
    emit_kernel(module, tiles, "kernel", rows, vectors, FULL, stored, reloads=True)
    module.pointer_table("table", ("kernel",))
    code = assembly(module.text(), target)
    assert code.count("{1to16}") == rows * vectors and "vbroadcastss" not in code


@pytest.mark.usefixtures("empty")
def test_an_answer_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True])
    monkeypatch.setattr(target_probe, "_takes_twice", lambda target: next(answers))
    measure = target_probe.measured_multiply_adds.__wrapped__  # as other processes ask
    assert [measure(host_target()) for _ in range(3)] == [1, 1, 1]
    with pytest.raises(StopIteration):
        measure(NEON)


def test_nothing_is_measured_for_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_target()
    probes = (
        (target_probe, "measured_multiply_adds"),
        (reload_probe, "measured_reloads"),
        (reload_probe, "measured_free"),
    )
    probes = (*probes, (target_probe, "measured_reads_ahead"))
    for module, what in probes:
        monkeypatch.setattr(module, what, lambda target: pytest.fail("it was measured"))
    named = x86(host.cpu, AVX512)
    for target in (*TARGETS.values(), named, host.limited("avx2"), host.limited("sse")):
        assert target == host or (target_probe.multiply_adds(target) == 2 and not reload_probe.reloads_factors(target))
        assert target == host or reload_probe.shares_widened(target)
        assert target == host or target_probe.prefetches_streams(target) is target.has_buffers_to_prefetch


@pytest.mark.skipif(host_target().vector_bytes == 16, reason="the narrowest vectors are not measured")
def test_the_host_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in (1, 2):
        monkeypatch.setattr(target_probe, "measured_multiply_adds", lambda target, answer=answer: answer)
        assert target_probe.multiply_adds(host_target().limited("avx512")) == answer


def test_processes_that_know_nothing_agree(tmp_path: Path) -> None:
    code = (
        "from anyshape.lower.llvm.target_probe import gathers, host_target, multiply_adds;"
        "t = host_target(); print(t, gathers(t), multiply_adds(t))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ANYSHAPE_CACHE": folder and str(tmp_path / folder)},
            check=True,
            capture_output=True,
        ).stdout.decode()
        for folder in ("one", "two", "one", "")
    }
    host = host_target()
    assert printed == {f"{host} {target_probe.gathers(host)} {target_probe.multiply_adds(host)}\n"}
