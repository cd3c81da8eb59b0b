"""Random functions: fused machine code, saved and loaded too, one kernel per node, the walked table and interpreted kernels agree
at every shape, and fail on the same ones. ANYSHAPE_LONG=1 runs many more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_graphs import arguments, random_function

from anyshape.errors import AnyshapeError, ShapeError
from anyshape.vm import Executable, compile
from anyshape.vm.executable.saved import load
from anyshape.vm.native import executor
from anyshape_testing.process.profile import LONG

SEEDS = [162, *range(400 if LONG else 24)]
SHAPES = [(2, 3), (5, 4), (1, 1), (1, 7), (4, 1), (3, 3), (0, 3), (2, 0), (17, 19)]


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


def outcome(exe: Executable, arrays: list[Any]) -> list[Any] | None:
    """The results, or None for a shape that the function refuses."""
    try:
        return exe.run(dict(zip(exe.input_names, arrays)))
    except ShapeError:
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_every_way_of_running_agrees(seed: int, tmp_path: Path) -> None:
    f = random_function(seed, 14)
    try:
        slow = compile(f, kernels="interpret", fuse=False)
    except AnyshapeError:
        with pytest.raises(AnyshapeError):
            compile(f, kernels="native")
        return
    executables = {
        "fused": compile(f, kernels="native"),
        "one kernel per node": compile(f, kernels="native", fuse=False),
        "walked": compile(f, kernels="native", loop="python"),
    }
    executables["fused"].save(tmp_path / "f")
    executables["loaded"] = load(tmp_path / "f", verify=True)
    assert str(executables["loaded"].function) == str(f), "the function in the file is the one that was compiled"
    for shape in SHAPES:
        arrays = arguments(*shape)
        expected = outcome(slow, arrays)
        for way, exe in executables.items():
            compare(outcome(exe, arrays), expected, f"{way} at {shape}")


@pytest.mark.parametrize("seed", SEEDS)
def test_both_loops_agree_to_the_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels give the same bits called by the native loop, by it without its direct entry, and by Python; refusals have the same words."""
    f = random_function(seed, 14)
    try:
        native = compile(f, kernels="native")
    except AnyshapeError:
        return
    python = compile(f, kernels="native", loop="python")
    monkeypatch.setattr(executor, "_methods", lambda: None)
    iterations = compile(f, kernels="native")
    for shape in SHAPES:
        arrays = arguments(*shape)
        first, *rest = (said(exe, arrays) for exe in (native, native, iterations, python))
        assert all(o == first for o in rest), shape


def said(exe: Executable, arrays: list[Any]) -> Any:
    """The results' bytes, or what the error says."""
    try:
        return (
            [(r.dtype, r.shape, r.tobytes()) for r in exe(*arrays)]
            if len(exe.output_names) > 1
            else exe(*arrays).tobytes()
        )
    except AnyshapeError as e:
        return type(e), str(e)


def compare(got: list[Any] | None, expected: list[Any] | None, where: str) -> None:
    assert (got is None) == (expected is None), f"{where}: one refuses the shape, the other does not"
    for g, w in zip(got or (), expected or (), strict=True):
        assert g.shape == w.shape, where
        finite = w[np.isfinite(w)]
        scale = float(np.abs(finite).max()) if finite.size else 1.0
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3 * max(1.0, scale), err_msg=where)
