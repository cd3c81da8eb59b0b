"""Exports the date reader and the decoder for C: `python examples/embed/export.py FOLDER [TARGET]`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyshape

EXAMPLES = Path(__file__).parents[1]
sys.path.append(str(EXAMPLES / "decoding"))


def main(folder: str, target: str | None = None) -> None:
    from run import decoder

    dates = anyshape.compile(EXAMPLES / "dates/dates.onnx", dims={"length": (1, 96)})
    written = dates.export(folder, name="dates", target=target, weights="file")
    written += anyshape.compile(decoder()).export(folder, name="decoder", target=target)
    print(*written, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
