"""The ratchet of ONNX's standard tests: what passed must pass. A sample in every run; all of it in `make test-long`, by `onnx_suite`."""

from __future__ import annotations

import zlib

import numpy as np

from anyshape import onnx_backend
from tests.frontends import onnx_suite
from tests.frontends.onnx_suite import FORMS, PAGE, counted, page, read_ratchet, run_isolated

SAMPLE = 400
SMALLEST = ("real:test_squeezenet", "given")
"""The one of the whole networks that every run tries"""


def _chosen() -> list[tuple[str, str]]:
    """Selects the same sample every time, spread over the list by a hash of the names."""
    held = read_ratchet()
    small = [k for k in held if not k[0].startswith("real:")]
    return [SMALLEST, *sorted(sorted(small, key=lambda k: zlib.crc32("/".join(k).encode()))[:SAMPLE])]


def test_what_passed_passes():
    chosen = _chosen()
    assert len(chosen) >= SAMPLE
    fallen = [o for o in run_isolated(chosen) if o.word != "pass"]
    assert not fallen, "\n".join(f"{o.key}: {o.word} {o.why}" for o in fallen)


def test_the_page_has_the_table_as_it_is():
    assert PAGE.read_text() == page(), "python -m tests.frontends.onnx_suite --update-docs"


def test_enough_passes():
    """Nearly all cases of base types and today's operators pass; and nearly as many with nothing known of shapes as in the form that is
    given."""
    total, held = counted()
    assert held["node, tier 1", "given"] >= 0.99 * total["node, tier 1"]
    for group in total:
        if group.startswith(("pytorch", "real")):
            assert held[group, "given"] == total[group]
    passed = sum(held[group, "given"] for group in total)
    for form in FORMS:
        assert sum(held[group, form] for group in total) >= 0.98 * passed, form


def test_what_dft_inverse_wants_is_not_within_its_own_tolerance():
    """The one case of arithmetic that does not pass: what it wants is no nearer to the sums than f32 gets, where they are 0."""
    case = onnx_suite.cases()["test_dft_inverse"]
    (x, *more), (expected,) = ([onnx_suite.as_array(a) for a in side] for side in case.data_sets[0])
    got = onnx_backend.prepare(case.model).run([x, *more])[0]
    exact = np.fft.ifft(x.astype(np.float64) @ [1, 1j], axis=1)
    sums = np.stack([exact.real, exact.imag], -1)
    assert not np.allclose(expected, sums, rtol=case.rtol, atol=case.atol)
    assert np.allclose(got, sums, rtol=1e-6, atol=1e-7 * np.abs(sums).max())
