"""The edge of an import: whatever the libraries below raise leaves it as an AnyshapeError, with the cause chained.

Protobuf, onnx's declarations and bodies, NumPy and the operating system have errors of their own for damaged models. What is foreseen is
caught where it happens and says more; this is for the rest. KeyboardInterrupt and MemoryError go through as they are: neither says
anything of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape.errors import AnyshapeError, ModelError, UnsupportedError


@contextmanager
def model_errors(where: str) -> Iterator[None]:
    """Raises UnsupportedError for what nests deeper than Python calls go, and ModelError for every other error of a library."""
    try:
        yield
    except (AnyshapeError, MemoryError):
        raise
    except RecursionError as e:
        raise UnsupportedError(f"{where}: it nests deeper than this version can follow") from e
    except Exception as e:
        raise ModelError(f"{where}: it cannot be read ({type(e).__name__}: {e})") from e
