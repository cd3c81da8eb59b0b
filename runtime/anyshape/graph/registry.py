"""The ops that exist: the generated package's, and those of packages that announce themselves by the entry point `anyshape.ops`.

In: what is installed. Out: ops by full name; the packages, so that importers find what their ops mean in ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from anyshape.errors import UnsupportedError
from anyshape.graph.opdef import OpDef
from anyshape.package_versions import GROUP, check_interface, versions_of

OWN = "anyshape"
"""The namespace of the generated package's ops"""


def packages() -> tuple[ModuleType, ...]:
    """anyshape's own package of ops, then those of others by name. Raises UnsupportedError as `namespaces` does."""
    return tuple(namespaces().values())


@cache
def namespaces() -> Mapping[str, ModuleType]:
    """The packages by the namespaces that other engines have for their ops: the names of their entry points. Raises UnsupportedError for a
    package that cannot be imported, or was generated for another interface, and where two have one namespace."""
    from importlib.metadata import entry_points

    modules = {OWN: import_module("anyshape_ops")}
    for module, name in sorted({(point.module, point.name) for point in entry_points(group=GROUP)}):
        if name in modules:
            raise UnsupportedError(
                f"{module} and {modules[name].__name__} both register ops under the name {name} ({GROUP}); rename that of {module}"
            )
        try:
            check_interface(module, versions_of(module))
            modules[name] = import_module(module)
        except ImportError as e:
            raise UnsupportedError(
                f"the package {module} registers ops ({GROUP}), but cannot be imported: {e}; reinstall or uninstall it"
            ) from e
    return modules


@cache
def all_ops() -> Mapping[str, OpDef]:
    """{full name: OpDef} of every variant. Raises UnsupportedError where two packages have an op of one name."""
    ops: dict[str, OpDef] = {}
    owner: dict[str, str] = {}
    for package in packages():
        if not hasattr(package, "OPS"):
            raise UnsupportedError(
                f"{package.__name__} registers ops ({GROUP}), but has none: its OPS is missing; uninstall it"
            )
        for full_name, op in package.OPS.items():
            if owner.setdefault(op.name, package.__name__) != package.__name__:
                raise UnsupportedError(
                    f"{package.__name__} and {owner[op.name]} both declare an op {op.name}; rename it in the specs of {package.__name__}"
                )
            ops[full_name] = op
    return ops


@cache
def operands_of_patterns() -> frozenset[str]:
    """Names of the ops that rewrites of other ops look for among their operands."""
    return frozenset(name for op in all_ops().values() for rewrite in op.rewrites for name in rewrite.operands)


def find_op(full_name: str) -> OpDef:
    """An op, of control flow, lists, calls and parts of compositions too. Raises UnsupportedError with near names."""
    from anyshape.graph.callee import CALL_OPS
    from anyshape.graph.composition import part_of
    from anyshape.graph.control import CONTROL_OPS
    from anyshape.graph.lists import LIST_OPS
    from anyshape.graph.required import REQUIREMENT_OPS

    ops = (
        {**all_ops(), **CONTROL_OPS, **LIST_OPS, **CALL_OPS, **REQUIREMENT_OPS}
        if full_name not in all_ops()
        else all_ops()
    )
    if full_name in ops:
        return ops[full_name]
    part = part_of(full_name)
    if part is not None:
        return part
    from difflib import get_close_matches

    near = get_close_matches(full_name, ops, 3)
    raise UnsupportedError(f"there is no op {full_name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
