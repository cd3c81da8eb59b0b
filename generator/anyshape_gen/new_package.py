"""Makes the repository of a new package of ops, which works at once: a spec, the code and pages generated from it, tests, CI.

In: the name of the package, and the folder that will hold the repository. Out: the repository, complete, or none: it is written beside its
place, and moved there in the end.
"""

from __future__ import annotations

import keyword
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from anyshape.errors import SpecError
from anyshape_gen.arguments import arguments
from anyshape_gen.emit.standalone import emit_repository
from anyshape_gen.generation import generated
from anyshape_gen.memo import Memo
from anyshape_gen.write import synchronise


def new_package(name: str | None, folder: Path) -> str:
    """Makes the repository `folder/name`; returns what to tell its author. Raises SpecError for a name that no package can have, and
    OSError where the folder cannot be written to."""
    check_name(name)
    assert name is not None
    place = folder / name
    if os.path.lexists(place):
        raise SpecError(f"{place.as_posix()} is there already: choose another name, or another --out")
    above = next(parent for parent in place.absolute().parents if parent.exists())
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=above) as temporary:
        repository = Path(temporary) / name
        write_repository(name, repository)
        place.parent.mkdir(parents=True, exist_ok=True)
        repository.rename(place)
    return (
        f"{place.as_posix()}: a package with the op {name}_gate; the op is specs/ops.yaml, and `make help` lists what to do\n"
        f"cd {place.as_posix()} && make test"
    )


def write_repository(name: str, repository: Path) -> None:
    """Writes all files of the repository."""
    synchronise({repository / path: text for path, text in emit_repository(name).items()}, [])
    words = ["--package", name, "--specs", str(repository / "specs"), "--out", str(repository)]
    result = generated(arguments().parse_args([*words, "--docs", str(repository / "docs/ops")]), Memo())
    synchronise(result.files, result.owned)


def check_name(name: str | None) -> None:
    """Checks that a package can have this name. Raises SpecError for one that Python or anyshape cannot import, or that another package
    has."""
    if (
        not name
        or not name.isascii()
        or not name.isidentifier()
        or not name.islower()
        or name.startswith("_")
        or len(name) > 50
    ):
        raise SpecError(
            f"new-package needs a name in lower case, of letters, digits and underscores, like my_ops; got {name!r}"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise SpecError(f"{name} is a word of Python: choose another name")
    spec = find_spec(name) if name not in sys.stdlib_module_names else None
    if name in sys.stdlib_module_names or (spec is not None and spec.loader is not None):
        origin = "Python's own" if spec is None else f"at {spec.origin}"
        raise SpecError(f"there is a module {name} already, {origin}: choose another name")
