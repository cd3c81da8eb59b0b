"""Files that commands draw: pages, traces and pictures, of which an .svg is written as text; for a .png matplotlib is needed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.files import write_plain


def demand_plot(path: str | None) -> None:
    """Raises ArgumentError for a picture that cannot be made."""
    kind = os.path.splitext(path)[1].lower() if path is not None else ".svg"
    if kind not in (".svg", ".png"):
        raise ArgumentError(f"--plot must be a file that ends in .svg or .png, got {path!r}")
    if kind == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError("--plot draws a .png by matplotlib, which is not installed; an .svg needs nothing")


def draw(path: str, svg: Callable[[], str], png: Callable[[str], None]) -> None:
    """Writes a picture as its name says: the text of an .svg, or by what writes a .png. Raises AnyshapeError for a file that cannot be
    written."""
    if not path.lower().endswith(".png"):
        return write_drawing(path, svg())
    try:
        return png(path)
    except OSError as e:
        raise _unwritable(path, e) from None


def write_drawing(path: str, text: str) -> None:
    """Writes a page, a trace or a picture; what is no character, as in the name of a file, becomes `?`. Raises AnyshapeError for a file
    that cannot be written."""
    try:
        write_plain(path, text.encode(errors="replace"))
    except OSError as e:
        raise _unwritable(path, e) from None


def _unwritable(path: str, e: OSError) -> AnyshapeError:
    return AnyshapeError(f"{path} cannot be written: {e.strerror}")
