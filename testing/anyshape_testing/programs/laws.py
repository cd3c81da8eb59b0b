"""Laws of random programs.

3. types inferred on symbols, with the numbers of a run substituted, are those of the results, and no check fails
4. the compiled program (dyn variants, computed parameters) gives what the static variants give; dyn-to-static only refines types
6. for arguments that do not fit, every executor refuses with the same message, that of a statement that the evaluation on numbers refuses
7. native loop, two threads, Python and a loaded copy give the same bits; one kernel per node gives the same within rounding
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anyshape
from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dtypes import CHAR
from anyshape.errors import AnyshapeError
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.passes import dyn_to_static
from anyshape.strings import as_strings
from anyshape_testing.execution.native import IN_MEMORY
from anyshape_testing.programs.drawing import MOST, Drawn
from anyshape_testing.programs.numbers import TooLarge, Unsaid
from anyshape_testing.programs.refusals import refusals
from anyshape_testing.programs.statements import Program, live, settled

Array = NDArray[Any]
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "native loop": {"loop": "native"},
    "two threads": {"threads": 2},
    "Python": {"loop": "python"},
}
"""Executors of one compiled program"""
EQUAL_BITS = ("two threads", "Python", "loaded")


def function_of(d: Drawn) -> Function:
    return Function([d.values[r] for r in d.program.params.values()], [d.values[r] for r in d.program.results])


def holds(d: Drawn) -> int:
    """Checks all laws; returns the number of refusals that were compared. Raises AssertionError, or errors of compiling and running."""
    inference_on_symbols(d)
    f = function_of(d)
    refined(f)
    native = anyshape.compile(f)
    executables = {way: native.by(**options) for way, options in OPTIONS.items()}
    executables["one kernel per node"] = anyshape.compile(f, fuse=False)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        native.save(Path(folder) / "program")
        executables["loaded"] = anyshape.load(Path(folder) / "program")
    executors(d, executables)
    return sum(refused(d, executables, name) for name in changed_inputs(d))


# --- 3


def inference_on_symbols(d: Drawn) -> None:
    """Compares inferred dims and elements with those of the run; a data-dependent symbol must have the same number everywhere."""
    known = dict(d.symbols.numbers)
    for ref, value in d.values.items():
        array = d.numbers.get(ref)
        if array is None:
            continue
        where = f"v{ref}: {value.type}"
        if value.type.shape is not None:
            assert len(value.type.shape) == array.ndim, f"{where} against {array.shape}"
            for n, m in zip(value.type.shape, array.shape):
                _agrees(n, m, known, f"{where} against {array.shape}")
        for e, x in zip(value.contents or (), array.reshape(-1).tolist()):
            if not isinstance(e, bool | Cond):
                _agrees(e, x, known, f"elements of {where}")
        for check in value.node.checks if value.node is not None else ():
            if dims.free_symbols(check.cond) <= set(known):
                assert dims.evaluate(check.cond, known), f"{where}: the check fails: {check}"


def _agrees(n: Size, m: int, known: dict[Dim, int], where: str) -> None:
    if isinstance(n, Dim) and n.is_symbol and n not in known:
        low, high = dims.bounds(n)
        assert (low is None or low <= m) and (high is None or m <= high), f"{where}: {n} is {m}, of {low}..{high}"
        known[n] = m
    elif not isinstance(n, Dim) or dims.free_symbols(n) <= set(known):
        assert dims.evaluate(n, known) == m, f"{where}: {n} is {dims.evaluate(n, known)}, got {m}"


# --- 4


def refined(f: Function) -> None:
    """Asserts that dyn-to-static only refines types: a number stays that number, a rank stays known."""
    g = dyn_to_static(f)
    for before, after in zip(f.results, g.results, strict=True):
        assert before.type.dtype is after.type.dtype
        if before.type.shape is None:
            continue
        assert after.type.shape is not None and len(after.type.shape) == len(before.type.shape), (
            f"{before} became {after}"
        )
        for n, m in zip(before.type.shape, after.type.shape):
            assert not isinstance(n, int) or n == m, f"{before.type} became {after.type}"
    left = [n for n in g.nodes if n.op.variant == "dyn" and all(_is_known(v) for v in n.param_operands)]
    assert not left, f"operands are known, and these stay dyn: {left}"


def _is_known(v: Value | None) -> bool:
    return v is None or (v.contents is not None and all(isinstance(e, int) for e in v.contents)) or v.is_constant


# --- 7


def executors(d: Drawn, executables: Mapping[str, Any]) -> None:
    results = {way: f.run({n: d.arrays[n] for n in f.input_names}) for way, f in executables.items()}
    for way, got in results.items():
        for r, g in zip(d.program.results, got, strict=True):
            close(g, d.numbers[r], [near[r] for near in d.near], f"{way}, v{r}")
    same_bits(results)


def same_bits(results: Mapping[str, Sequence[Array]]) -> None:
    for way in EQUAL_BITS:
        for k, (a, b) in enumerate(zip(results["native loop"], results[way], strict=True)):
            assert (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes(), (
                f"result {k}: {way} gives {b!r}, the native loop {a!r}"
            )


def _same_kind(a: Array, b: Array) -> bool:
    """Whether dtypes are equal; those of strings may differ in their length, which is padding."""
    return a.dtype == b.dtype or a.dtype.kind == b.dtype.kind == "U"


def _as_result(numbers: Array, result: Array) -> Array:
    """Converts a value of the evaluation on numbers to what executables return: characters become strings."""
    return as_strings(numbers) if numbers.dtype == CHAR.numpy and result.ndim < numbers.ndim else numbers


def close(got: Array, want: Array, near: Sequence[Array], where: str) -> None:
    """Asserts that a result is within rounding, which is bounded by the change of the result for slightly perturbed inputs."""
    want = _as_result(want, got)
    assert _same_kind(got, want), f"{where}: {got.dtype} in place of {want.dtype}"
    assert got.shape == want.shape, f"{where}: shape {got.shape} in place of {want.shape}"
    if want.dtype.kind == "U":
        assert np.array_equal(got, want), f"{where}: got {got!r} in place of {want!r}"
        return
    with np.errstate(all="ignore"):
        g, w, *near = (a.astype(np.float64) for a in (got, want, *near))
        finite = w[np.isfinite(w)]
        scale = max(1.0, float(np.abs(finite).max(initial=0.0))) if want.dtype.kind == "f" else 0.0
        moved = np.max([np.abs(n - w) for n in near], axis=0)
        good = (np.abs(g - w) <= 1e-4 * scale + 50 * moved) | (g == w) | (np.isnan(g) & np.isnan(w))
        unstable = ~np.isfinite([w, *near]).all(axis=0) | (np.abs(w) > 1e30)
    assert (good | unstable).all(), f"{where}: got {got!r} in place of {want!r}"


# --- 6


def changed_inputs(d: Drawn) -> list[str]:
    """Lists up to three inputs that the results need and whose first dim is symbolic."""
    needed = live(d.program, d.program.results)
    shapes = {name: d.values[ref].type.shape for name, ref in needed.params.items()}
    return [name for name, shape in shapes.items() if shape and isinstance(shape[0], Dim)][:3]


def dims_by_name(d: Drawn, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The sizes of arguments by the symbols of the inputs' types, as messages spell them."""
    shapes = {name: d.values[ref].type.shape or () for name, ref in d.program.params.items()}
    return {str(n): m for name, shape in shapes.items() for n, m in zip(shape, arrays[name].shape)}


def refused(d: Drawn, executables: Mapping[str, Any], name: str) -> int:
    """Changes one dim of one input by one; returns 1 if the evaluation on numbers and all executors refuse that, 0 if all run."""
    a = d.arrays[name]
    other = a[1:] if a.shape[0] else np.zeros((1, *a.shape[1:]), a.dtype)
    arrays = {**d.arrays, name: other}
    program = live(d.program, d.program.results)
    try:
        expected, refusal = refusals(program, arrays, MOST)
    except (TooLarge, Unsaid):
        return 0
    outcomes: dict[str, Any] = {}
    for way, f in executables.items():
        try:
            outcomes[way] = f.run({n: arrays[n] for n in f.input_names})
        except AnyshapeError as e:
            outcomes[way] = str(e)
    where = f"with {name} of shape {other.shape}"
    ran = [way for way, o in outcomes.items() if not isinstance(o, str)]
    if expected is None and len(ran) == len(
        outcomes
    ):  # what is needed for a size alone that its type tells need not be made
        program = live(settled(d.program, d.size), program.results)
        expected, _ = refusals(program, arrays, MOST)
    if expected is None:
        assert not ran, f"{where}: refused on numbers ({refusal.said}), and these run it: {ran}"
        words = {o for way, o in outcomes.items() if way in ("native loop", *EQUAL_BITS)}
        assert len(words) == 1, f"{where}: one refusal in different words: {words}"
        assert refusal.has(words.pop(), dims_by_name(d, arrays)), (
            f"{where}: {outcomes['native loop']}; on numbers: {refusal.said}"
        )
        return 1
    lost = {way: o for way, o in outcomes.items() if isinstance(o, str)}
    assert not lost, f"{where}: runs on numbers, and is refused: {lost}"
    for r, g, numbers in zip(program.results, outcomes["native loop"], expected, strict=True):
        w = _as_result(numbers, g)
        assert g.shape == w.shape and _same_kind(g, w), (
            f"{where}: v{r} is {g.dtype}{g.shape} in place of {w.dtype}{w.shape}"
        )
    same_bits(outcomes)
    return 0


__all__ = ["OPTIONS", "Program", "close", "function_of", "holds"]
