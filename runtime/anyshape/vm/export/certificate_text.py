"""Text of certificates, for people, and as JSON, for what judges them.

In: certificates. Out: text; both say the same, the JSON all of it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from anyshape.dims import Size, exact_text
from anyshape.vm.export.accesses import KernelAccess
from anyshape.vm.export.certificate import (
    FORMAT,
    INTEGERS,
    Certificate,
    Established,
    KernelCertificate,
    ProgramCertificate,
    TestedCondition,
)
from anyshape.vm.export.interface import bounds_text

WIDTH = 110


def certificate_json(certificates: Sequence[Certificate], digest: str) -> str:
    """The certificates of the models in one object, whose SHA-256 is `digest`. Each program, condition and kernel is a line."""
    head = {"anyshape certificate": FORMAT, "object sha256": digest, "models": [c.data() for c in certificates]}
    return _lines(head, 6) + "\n"


def _lines(value: object, levels: int) -> str:
    """JSON of which the outermost levels have a line for each item."""
    if levels and isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"{json.dumps(k)}: {_lines(v, levels - 1)}" for k, v in value.items()) + "}"
    if levels and isinstance(value, list) and value:
        return "[\n" + ",\n".join(_lines(v, levels - 1) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def certificate_text(certificates: Sequence[Certificate], digest: str) -> str:
    lines = [f"The object has the SHA-256 {digest}.", *textwrap.wrap(INTEGERS, WIDTH)]
    for c in certificates:
        dims = [f"{d.c_name} is {bounds_text(d.symbol)}" for d in c.interface.dims]
        lines += ["", f"{c.interface.name} for {c.target}: {', '.join(dims) or 'no dims'}"]
        for p in c.programs:
            lines += _program(p)
    return "\n".join(lines) + "\n"


def _program(p: ProgramCertificate) -> Iterator[str]:
    yield f"\nProgram for {p.title}"
    for k, condition in enumerate(p.conditions):
        yield f"  condition {k}, {condition.where}: {_condition(condition)}"
    for kernel in p.kernels:
        yield from _kernel(kernel)


def _condition(c: TestedCondition) -> str:
    at = f"{c.op} ({c.source}): " if c.op and c.source else f"{c.op}: " if c.op else ""
    holds = "" if c.cond is None else exact_text(c.cond)
    return f"{at}{c.words}" if not holds or c.words == holds else f"{at}{holds}: {c.words}"


def _kernel(k: KernelCertificate) -> Iterator[str]:
    yield f"\n  Kernel {k.name}, of {', '.join(k.nodes)}"
    if k.conditions:
        yield f"    under conditions {', '.join(map(str, k.conditions))}"
    if k.decided:
        yield f"    {k.decided} more decided when the model was compiled ({Established.RULE})"
    for b in k.buffers:
        yield f"    {b.where}: the bytes of {b.name}: {b.dtype}[{_joined(b.dims)}] fit 63 bits"
    if k.scalars:
        yield f"    {k.scalars_where}: {_joined(k.scalars)} fit 64 bits"
    for v, n in k.variables.items():
        yield f"    0 <= {exact_text(v)} < {exact_text(n)}"
    for v, n in k.tested.items():
        yield f"    0 <= {exact_text(v)} < {exact_text(n)} by a test of each element"
    for a in k.accesses:
        yield f"      {_access(a)}"


def _access(a: KernelAccess) -> str:
    where = f" where {' and '.join(map(exact_text, a.where))}" if a.where else ""
    place = f"{a.tensor}[{_joined([x.index for x in a.axes])}] of [{_joined([x.dim for x in a.axes])}]{where}"
    return f"{'store' if a.is_store else 'read'} {place}: {', '.join(x.by for x in a.axes) or 'one element'}"


def _joined(sizes: Sequence[Size]) -> str:
    return ", ".join(map(exact_text, sizes))
