"""Parses `layout:`, by which an op has the axes of a tensor in another order than its family, and moves them in what the family says.

In: the entries of `layout:`, and those of the family. Out: the op's own signatures, and the family's reference and examples in the op's
order of axes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import (
    AtAxes,
    AtAxis,
    Dim,
    Example,
    ExampleValue,
    Piece,
    Reference,
    Run,
    RunExpr,
    Signature,
)
from anyshape_gen.parse.node_reader import NodeReader
from anyshape_gen.parse.python_text import parse_python
from anyshape_gen.parse.signature import parse_signature
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar

TENSORS = ("inputs", "outputs")


@dataclass(frozen=True)
class Move:
    """The axes of one tensor in two orders."""

    pieces: tuple[Piece, ...]
    """pieces of the family's signature, in its order"""
    places: tuple[int, ...]
    """places among them of the pieces of the op's signature, in its order"""

    @property
    def own_pieces(self) -> tuple[Piece, ...]:
        return tuple(self.pieces[place] for place in self.places)

    def text(self, tensor: ast.expr, to_family: bool) -> ast.expr:
        """Returns the expression for a tensor with the axes of one order in place of the other."""
        family, own = _axes(self.pieces), _axes(self.own_pieces)
        pairs = [(own[k], family[place]) for k, place in enumerate(self.places)]
        moved = [(a, b) if to_family else (b, a) for a, b in pairs if a is not None and b is not None and a != b]
        before, after = (axes[0] if len(axes) == 1 else axes for axes in zip(*moved, strict=True))
        call = ast.parse(f"np.moveaxis(x, {before}, {after})", mode="eval").body
        assert isinstance(call, ast.Call)
        return ast.Call(call.func, [tensor, *call.args[1:]], [])

    def axes(self, rank: int) -> tuple[int, ...] | None:
        """Returns, for each axis of the op's order, which one of the family's it is; None for tensors of too small a rank."""
        further = rank - len(self.pieces)
        at, starts, counts = 0, [], []
        for piece in self.pieces:
            starts.append(at)
            counts.append(further + 1 if _is_run(piece) else 1)
            at += counts[-1]
        if at != rank or min(counts, default=0) < 0:
            return None
        return tuple(starts[place] + k for place in self.places for k in range(counts[place]))

    def value(self, v: ExampleValue) -> ExampleValue:
        """Moves the axes of a value of an example; one that has other axes than the signature stays as it is."""
        sizes = _sizes(v.value) if v.literal else v.value
        axes = self.axes(len(sizes)) if isinstance(sizes, tuple) else None
        if axes is None or not isinstance(sizes, tuple):
            return v
        moved = _transposed(v.value, sizes, axes) if v.literal else tuple(sizes[a] for a in axes)
        return replace(v, value=moved)


def _is_run(piece: Piece) -> bool:
    return isinstance(piece, (Run, RunExpr))


def _axes(pieces: tuple[Piece, ...]) -> list[int | None]:
    """Numbers the axes, those behind a run from the end; None for the run."""
    run = next((k for k, piece in enumerate(pieces) if _is_run(piece)), len(pieces))
    return [k if k < run else None if k == run else k - len(pieces) for k in range(len(pieces))]


def _sizes(value: object) -> tuple[int, ...] | None:
    """Returns the shape of nested tuples; None where rows differ in length."""
    if not isinstance(value, tuple):
        return ()
    below = {_sizes(item) for item in value}
    inner = below.pop() if len(below) == 1 else () if not below else None
    return None if inner is None else (len(value), *inner)


def _transposed(value: object, sizes: tuple[int, ...], axes: tuple[int, ...], at: tuple[int, ...] = ()) -> object:
    """Returns nested tuples whose axis k is axis `axes[k]` of the nested tuples `value`; `at`: positions along the first of them."""
    if len(at) < len(axes):
        return tuple(_transposed(value, sizes, axes, (*at, k)) for k in range(sizes[axes[len(at)]]))
    for axis in range(len(axes)):
        assert isinstance(value, tuple)
        value = value[at[axes.index(axis)]]
    return value


@dataclass(frozen=True)
class Layout:
    """The moves of an op, by the names of its tensors."""

    moves: dict[str, Move]

    def reference(self, reference: Reference, outputs: tuple[str, ...], findings: Findings) -> Reference:
        """Returns a reference for the family's order of axes as one for the op's order."""
        try:
            tree: ast.expr = parse_python(reference.text, "eval").body
        except SyntaxError:
            return reference  # `parse_reference` has a finding
        inputs = {name: move for name, move in self.moves.items() if name not in outputs and name in reference.names}
        tree = _Substitution(inputs).visit(tree)
        results = tree.elts if isinstance(tree, ast.Tuple) and len(outputs) > 1 else [tree]
        if len(results) != len(outputs) and any(name in outputs for name in self.moves):
            findings.add(
                reference.span, f"`layout:` moves the axes of an output: list the outputs, {', '.join(outputs)}"
            )
            return reference
        moved = [
            self.moves[name].text(result, to_family=False) if name in self.moves else result
            for name, result in zip(outputs, results)
        ]
        tree = ast.Tuple(moved, ast.Load()) if len(moved) > 1 else moved[0]
        return replace(reference, text=ast.unparse(ast.fix_missing_locations(tree)))

    def example(self, example: Example) -> Example:
        """Returns an example of the family as one of the op."""
        return replace(
            example,
            arguments=tuple(self._values(example.arguments)),
            expected=tuple(self._values(example.expected)),
        )

    def _values(self, named: tuple[tuple[str, ExampleValue], ...]) -> Iterator[tuple[str, ExampleValue]]:
        for name, value in named:
            yield name, self.moves[name].value(value) if name in self.moves else value


class _Substitution(ast.NodeTransformer):
    """Replaces each read of an input by the input in the family's order of axes."""

    def __init__(self, moves: dict[str, Move]) -> None:
        self.moves = moves

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.moves[node.id].text(node, to_family=True) if node.id in self.moves else node


def read_layout(reader: NodeReader, own: YMap, base: YMap) -> tuple[Layout, YMap]:
    """Reads the op's `layout:`. Out: what it moves, and the op's entries with its signatures among them."""
    layout = reader.entries(own.get("layout"))
    if layout and own.get("reference") is not None and own.get("examples") is not None:
        place = next(k.span for k, _ in own.entries if k.text.value == "layout")
        reader.findings.add(
            place, "the reference and the examples are the op's own: write signatures in their order of axes"
        )
    written = {k.text.value: k.span for key in TENSORS for k, _ in reader.entries(own.get(key))} if layout else {}
    of_family = {k.text.value: (key, v) for key in TENSORS for k, v in reader.entries(base.get(key))}
    moves: dict[str, Move] = {}
    for name, value in layout:
        tensor = name.text.value
        if tensor in written:
            reader.findings.add(name.span, f"'{tensor}' has a signature of the op's own, at {written[tensor]}")
        elif tensor not in of_family:
            reader.findings.unknown(name.span, "tensor of the family", tensor, of_family)
        else:
            key, signature = of_family[tensor]
            move = _move(reader, signature, value, is_output=key == "outputs")
            if move is not None:
                moves[tensor] = move
                own = _with_entry(own, key, name, value)
    return Layout(moves), own


def _with_entry(own: YMap, key: str, name: YScalar, value: YNode) -> YMap:
    """Adds an entry to the mapping at a key."""
    written = own.get(key)
    before = written.entries if isinstance(written, YMap) else ()
    of_key = next((k for k, _ in own.entries if k.text.value == key), replace(name, text=replace(name.text, value=key)))
    unchanged = [(k, v) for k, v in own.entries if k is not of_key]
    return YMap((*unchanged, (of_key, YMap((*before, (name, value)), value.span))), own.span)


def _move(reader: NodeReader, family: YNode, own: YNode, is_output: bool) -> Move | None:
    """Compares a signature of `layout:` with that of the family."""
    before, after = (reader.parsed(node, lambda text, f: parse_signature(text, f, is_output)) for node in (family, own))
    if before is None or after is None:
        return None
    if not (_movable(before) and _movable(after)):
        reader.findings.add(
            own.span,
            "`layout:` moves the axes of a tensor of numbers with at most one run, without `@`, optional dims, `for`, `?` and `=`",
        )
        return None
    places: list[int] = []
    for piece in after.pieces:
        same = [k for k, p in enumerate(before.pieces) if p == piece and k not in places]
        places += same[:1]
    if before.dtype != after.dtype or len(places) != len(after.pieces) or len(places) != len(before.pieces):
        reader.findings.add(own.span, f"these are not the axes of {before.text} in another order")
        return None
    if places == sorted(places):
        reader.findings.add(own.span, f"the axes are in the order of the family's {before.text}")
        return None
    return Move(before.pieces, tuple(places))


def _movable(signature: Signature) -> bool:
    fixed = any(isinstance(p, (AtAxis, AtAxes)) or (isinstance(p, Dim) and p.optional) for p in signature.pieces)
    further = signature.variadic is not None or signature.optional or signature.default is not None
    return signature.dtype != "char" and not fixed and not further and sum(map(_is_run, signature.pieces)) <= 1
