"""Shapes as text for people, who learn from it what can be asked, and as data for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from anyshape.dims import Dim
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.frontends.symbolic_shapes.result import NamedDim, NamedType, Shapes, Sizes

SHOWN = 40
"""Values beyond these are left out of a text, unless all are asked for"""


def text(shapes: Shapes, whole: bool = False) -> str:
    """Dims, values, conditions, and how to ask; all values if `whole`."""
    over = f" over {', '.join(shapes.dims)}" if shapes.dims else ", all in numbers"
    lines = [f"{shapes.name}: {counted(len(shapes.values), 'value')}{over}"]
    if shapes.dims:
        lines += ["dims, which callers choose (shapes.dims):", *_rows((n, _dim(d)) for n, d in shapes.dims.items())]
    if shapes.data:
        lines += ["sizes that data decides (shapes.data):", *_rows((n, d.cause) for n, d in shapes.data.items())]
    lines += ["inputs:", *_types(shapes, shapes.inputs), "outputs:", *_types(shapes, shapes.outputs)]
    ends = {*shapes.inputs, *shapes.outputs}
    between = [n for n, t in shapes.values.items() if n not in ends and not t.is_constant]
    kept = between if whole else between[:SHOWN]
    if kept:
        lines += ['other values (shapes.values["NAME"].type):', *_types(shapes, kept)]
    if len(kept) < len(between):
        lines.append(f"  … and {len(between) - len(kept)} more")
    for place, values in shapes.bodies.items():
        lines += _body(place, values, whole)
    if shapes.body_sizes:
        said = "sizes inside of bodies, other ones in each run of a body (shapes.body_sizes):"
        lines += [said, *_rows((n, d.cause) for n, d in shapes.body_sizes.items())]
    constants = sum(t.is_constant for t in shapes.values.values())
    if constants:
        lines.append(f"and {counted(constants, 'constant')}")
    if shapes.unsupported:
        lines += ["known from ONNX's own inference alone (shapes.unsupported):", *_rows(shapes.unsupported.items())]
    lines += _conditions(shapes)
    return "\n".join([*lines, *_questions(shapes)])


def _body(place: str, values: Mapping[str, NamedType], whole: bool) -> Iterator[str]:
    """The values of a body; constants are left out."""
    names = [n for n, t in values.items() if not t.is_constant]
    kept = names if whole else names[:SHOWN]
    yield f"{place} (shapes.bodies[{place!r}]):"
    yield from _rows((n, str(values[n])) for n in kept)
    if len(kept) < len(names):
        yield f"  … and {len(names) - len(kept)} more"


def _conditions(shapes: Shapes) -> Iterator[str]:
    if not shapes.conditions:
        yield "valid for all sizes"
        return
    yield "valid if (shapes.conditions):"
    for k, c in enumerate(shapes.conditions):
        yield f"  [{k}] {c.text}{' (if that part runs)' if c.is_inside else ''}"
        yield f"      {c.node or c.op}: {c.message}"


def _questions(shapes: Shapes) -> Iterator[str]:
    known = [n for n in shapes.outputs if (t := shapes.values[n].type) is not None and t.rank]
    if known:
        shape = shapes.values[known[0]].type
        assert shape is not None and shape.shape is not None
        sizes = ", ".join("None" if isinstance(n, Dim) else str(n) for n in shape.shape)
        yield f"ask for inputs by an output: shapes.solve({{{known[0]!r}: ({sizes}{',' * (len(shape.shape) == 1)})}}), with sizes for None"
    if shapes.conditions:
        yield "ask for the smallest input that fails: shapes.smallest_failure(0)"


def _dim(d: NamedDim) -> str:
    if d.least is None:
        return "an element of an input; any number"
    limits = f"{d.least} to {d.most}" if d.most is not None else f"at least {d.least}"
    return f"{', '.join(d.places) or 'part of a dim'}; {limits}"


def _types(shapes: Shapes, names: Iterable[str]) -> list[str]:
    return _rows((n, str(shapes.values[n])) for n in names)


def _rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(pairs)
    width = max((len(n) for n, _ in rows), default=0)
    return [f"  {n:<{width}}  {said}" for n, said in rows]


def as_data(shapes: Shapes) -> dict[str, Any]:
    """Numbers and texts of all that is known, for JSON."""
    return {
        "model": shapes.name,
        "inputs": {n: str(shapes.values[n]) for n in shapes.inputs},
        "outputs": {n: str(shapes.values[n]) for n in shapes.outputs},
        "values": {n: _value(t) for n, t in shapes.values.items()},
        "bodies": {place: {n: _value(t) for n, t in values.items()} for place, values in shapes.bodies.items()},
        "dims": {n: {"least": d.least, "most": d.most, "places": d.places} for n, d in shapes.dims.items()},
        "data": {n: d.cause for n, d in shapes.data.items()},
        "body_sizes": {n: d.cause for n, d in shapes.body_sizes.items()},
        "conditions": [
            {"must_hold": c.text, "node": c.node, "op": c.op, "message": c.message, "inside": c.is_inside}
            for c in shapes.conditions
        ],
        "unsupported": dict(shapes.unsupported),
    }


def _value(known: NamedType) -> Mapping[str, Any]:
    shape = None if known.type is None or known.type.shape is None else [_size(n) for n in known.type.shape]
    dtype = None if known.type is None else str(known.type.dtype)
    elements = None if known.elements is None else [_size(e) for e in known.elements]
    return {"dtype": dtype, "shape": shape, "elements": elements}


def _size(n: Any) -> Any:
    return str(n) if isinstance(n, Dim) else n


def sizes_as_data(sizes: Sizes) -> dict[str, Any]:
    """The answer to a question, for JSON."""
    return {
        "question": sizes.question,
        "outcome": sizes.outcome.value,
        "dims": {n: _size(v) for n, v in sizes.dims.items()},
        "conditions": sizes.conditions,
        "smallest": sizes.smallest,
        "data": sizes.data,
        "inputs": sizes.inputs,
        "searched": sizes.searched,
    }
