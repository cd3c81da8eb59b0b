"""Turns errors of libraries into AnyshapeErrors where an import returns to its caller, with the cause chained.

Protobuf, onnx's declarations and bodies, NumPy and the operating system have errors of their own for damaged models. Those that are
foreseen are caught where they happen, with a better message. KeyboardInterrupt and MemoryError pass unchanged: neither says anything of
the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape.errors import AnyshapeError, ModelError, UnsupportedError, library_error


@contextmanager
def model_errors(where: str) -> Iterator[None]:
    """Raises UnsupportedError for what nests deeper than Python calls go, MissingPackageError where a library is not installed, and
    ModelError for every other error of a library."""
    try:
        yield
    except (AnyshapeError, MemoryError):
        raise
    except RecursionError as e:
        raise UnsupportedError(f"{where}: it is nested too deeply for this version") from e
    except ModuleNotFoundError as e:
        raise library_error(e) from e
    except Exception as e:
        raise ModelError(f"{where}: it cannot be read ({type(e).__name__}: {e})") from e
