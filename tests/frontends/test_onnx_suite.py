"""The ratchet of ONNX's standard tests: what passed must pass. A sample in every run; all of it with ANYSHAPE_LONG=1."""

from __future__ import annotations

import os
import zlib

from tests.frontends.onnx_suite import read_ratchet, run_isolated

SAMPLE = 400


def _chosen() -> list[tuple[str, str]]:
    """The same sample every time, spread over the list by a hash of the names."""
    held = read_ratchet()
    if os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0"):
        return held
    return sorted(sorted(held, key=lambda k: zlib.crc32("/".join(k).encode()))[:SAMPLE])


def test_what_passed_passes():
    chosen = _chosen()
    assert len(chosen) >= SAMPLE
    fallen = [o for o in run_isolated(chosen) if o.word != "pass"]
    assert not fallen, "\n".join(f"{o.key}: {o.word} {o.why}" for o in fallen)
