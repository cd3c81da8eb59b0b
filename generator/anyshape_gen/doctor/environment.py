"""Checks an environment: Python, packages and their versions, LLVM, the cache, and what optional targets need.

In: what is installed. Out: lines. Nothing beyond Python and the run time's plainest modules is imported before it is checked.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module, metadata

from anyshape.code_version import VERSION
from anyshape.disk_cache import DiskCache
from anyshape_gen.doctor.answer import Line, checked, error, ok, warning

DISTRIBUTIONS = ("anyshape", "anyshape-gen")
"""Distributions whose requirements have to be there"""
OPTIONAL = {
    "anyshape-testing": ("the laws of ops, as tests", "test"),
    "onnx": ("ONNX models, and --target onnx", "onnx"),
    "onnxruntime": ("comparing models with it", "test"),
    "torch": ("modules of PyTorch, and using the wheels of --target torch", "torch"),
    "pygls": ("anyshape-gen language-server", "editor"),
}
"""Packages that only some commands need: what for, and the extra of anyshape that has them"""


def environment() -> Iterator[Line]:
    """Checks everything."""
    yield from checked("Python", lambda: python(sys.version_info[:3], sys.implementation.name))
    for distribution in DISTRIBUTIONS:
        yield from checked(distribution, partial(requirements, distribution))
    yield from checked("LLVM", processor)
    yield from checked("cache", lambda: cache(DiskCache.standard()))
    yield from checked("C compiler", compiler)
    for package, (purpose, extra) in OPTIONAL.items():
        yield from checked(package, partial(optional, package, purpose, extra))


def python(version: Sequence[int], implementation: str) -> Line:
    """Checks the version of Python against what the project demands."""
    text = f"{implementation} {'.'.join(map(str, version))}"
    demand = _python_demand("anyshape") or ">=3.11"
    if not satisfies(".".join(map(str, version)), demand):
        return error("Python", f"{text}, anyshape needs {demand}", "make a virtual environment with a later Python")
    if implementation != "cpython":
        return warning(
            "Python", f"{text}: anyshape is tested with CPython alone", "make a virtual environment with CPython"
        )
    return ok("Python", text)


def _python_demand(distribution: str) -> str | None:
    try:
        demand = metadata.metadata(distribution).json.get("requires_python")
    except metadata.PackageNotFoundError:
        return None
    return demand if isinstance(demand, str) else None


def requirements(distribution: str) -> Iterator[Line]:
    """Checks a distribution, its version, and the versions of packages that it requires."""
    try:
        version, listed = metadata.version(distribution), metadata.requires(distribution) or ()
    except metadata.PackageNotFoundError:
        yield warning(distribution, "it runs from a folder that is not installed", "pip install --editable that folder")
        return
    if version != VERSION:
        yield error(
            distribution, f"{version} is installed, the code is of {VERSION}", "pip install 'anyshape[gen]' again"
        )
    else:
        yield ok(distribution, version)
    for demand in listed:
        if "extra ==" not in demand and _name(demand) not in DISTRIBUTIONS:
            yield from checked(demand, partial(required, demand))


def _name(demand: str) -> str:
    match = re.match(r"[\w.-]+", demand)
    return match[0] if match else demand


def required(demand: str) -> Line:
    """Checks that a package is installed, of a version that a requirement allows, and can be imported where a module has its name."""
    name = _name(demand)
    versions = _versions(demand)
    fix = f"pip install '{demand.partition(';')[0].strip()}'"
    version = _version(name)
    if version is None:
        return error(name, f"it is not installed, and needed: {demand}", fix)
    if not satisfies(version, versions):
        return error(name, f"{version} is installed, {versions} is needed", fix)
    for module in _modules(name):
        try:
            import_module(module)
        except (ImportError, OSError) as e:
            again = f"pip install --force-reinstall {name}"
            return error(name, f"{version} is installed, but cannot be imported: {e}", again)
    return ok(name, version)


def _versions(demand: str) -> str:
    """The versions that a requirement allows."""
    return re.sub(r"^[\w.-]+(\[.*?\])?|;.*", "", demand).strip(" ()")


def _modules(distribution: str) -> list[str]:
    """The modules of a distribution that are imported by one name."""
    names = (metadata.distribution(distribution).read_text("top_level.txt") or "").split()
    return [name for name in names if name.isidentifier() and not name.startswith("_")]


def satisfies(version: str, demands: str) -> bool:
    """Whether a version is one that all of `>=1.2,<2` allow. Of other forms of demands than comparisons none excludes a version."""
    have = _numbers(version)
    for demand in filter(None, (d.strip() for d in demands.split(","))):
        match = re.fullmatch(r"(>=|<=|==|!=|~=|>|<)\s*([\w.*+!-]+)", demand)
        if match is None or "*" in match[2]:
            continue
        bound = _numbers(match[2])
        size = max(len(have), len(bound))
        a, b = ((*v, *(0,) * (size - len(v))) for v in (have, bound))
        holds = {
            ">=": a >= b,
            "<=": a <= b,
            "==": a == b,
            "!=": a != b,
            ">": a > b,
            "<": a < b,
            "~=": a >= b and have[: len(bound) - 1] == bound[:-1],
        }
        if not holds[match[1]]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


def processor() -> Line:
    """Checks that LLVM makes code for this processor, and which vectors it has."""
    target = import_module("anyshape.lower.target").host_target()
    features = target.features.split(",")
    text = f"{target.triple}, {target.cpu}, vectors of {8 * target.vector_bytes} bits"
    if target.triple.startswith("x86_64") and "+sse4.2" not in features:
        return error("LLVM", f"{text}: anyshape needs SSE 4.2", "run it on a processor since 2008")
    if target.triple.startswith("x86_64") and target.vector_bytes < 32:
        fix = "a virtual machine may hide it: pass the host's processor"
        return warning("LLVM", f"{text}: without AVX2 kernels are slow", fix)
    return ok("LLVM", text)


def cache(disk: DiskCache) -> Line:
    """Checks the directory of compiled kernels."""
    problem = disk.obstacle()
    if problem is not None:
        return warning(
            "cache", f"{problem}: every process compiles anew", "set ANYSHAPE_CACHE to a directory of your own"
        )
    return ok("cache", str(disk.directory))


def compiler() -> Line:
    """Checks for what links shared libraries."""
    path = shutil.which("cc")
    if path is not None:
        return ok("C compiler", path)
    version = _version("ziglang")
    if version is not None:
        return ok("C compiler", f"the package ziglang, {version}")
    return warning(
        "C compiler",
        "there is none: --target torch and `anyshape export --shared` need one",
        "pip install 'anyshape[cross]'",
    )


def optional(package: str, purpose: str, extra: str) -> Line:
    """Checks for a package that only some commands need, and for its version."""
    version = _version(package)
    if version is None:
        return warning(package, f"it is not installed; it is for {purpose}", f"pip install 'anyshape[{extra}]'")
    versions = next((_versions(d) for d in _requires("anyshape") if _name(d) == package), "")
    if not satisfies(version, versions):
        fix = f"pip install '{package}{versions}'"
        return warning(package, f"{version} is installed, and for {purpose} {versions} is needed", fix)
    return ok(package, version)


def _requires(distribution: str) -> Sequence[str]:
    try:
        return metadata.requires(distribution) or ()
    except metadata.PackageNotFoundError:
        return ()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
