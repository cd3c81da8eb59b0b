"""Policies of code generation: for which sizes a model is compiled once more, beside the program for all sizes.

In: `policy=` of `anyshape.compile`. Out: a `SizePolicy`, which says for the sizes of a call which of them code may be made for. Types,
shape functions and results do not depend on it. Calls of sizes for which there is no code, or not yet, run the program for all sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anyshape.errors import ArgumentError
from anyshape.public import fits, hints_of, public, short, spell

if TYPE_CHECKING:
    from anyshape.graph.function import Function


class Padding(NamedTuple):
    """Bounds of sizes that all run as the largest: operands are padded to it, masks hide what was added, and results are cut. Where an op
    would see what was added all the same, the code is for the bounds, and nothing is padded."""

    least: int
    most: int


SizeBound: TypeAlias = int | tuple[int, int | None]
"""A size that code is made for: a number, or (least, most), which may be a `Padding`."""
SizeBounds: TypeAlias = Mapping[str, SizeBound]
PolicyRule: TypeAlias = Callable[[Mapping[str, int]], SizeBounds | None]


@dataclass(frozen=True, kw_only=True)
class SizePolicy:
    """What all policies share.

    `dims`: names of the dims that the policy is for, all if there are none. `ops`: names of ops; then it is for the dims of what these ops
    read. `at`: sizes that are compiled for at once, by `compile` itself. `hot`: how many calls within the same bounds come before these
    bounds are compiled for in the background; 0 for never. `most`: how many compiled bounds are kept; the one that was not used for longest
    goes first."""

    dims: Collection[str] = ()
    ops: Collection[str] = ()
    at: Sequence[Mapping[str, int]] = ()
    hot: int = 16
    most: int = 8

    def __post_init__(self) -> None:
        """Raises ArgumentError for a value that is not of its field's kind."""
        hints = hints_of(type(self))
        for f in fields(self):
            value = getattr(self, f.name)
            if not fits(value, hints[f.name]) or (f.name in ("dims", "ops") and isinstance(value, str)):
                raise ArgumentError(
                    f"{type(self).__name__}: {f.name} must be {spell(hints[f.name])}, got {short(value)}"
                )
        for name in ("hot", "most"):
            if getattr(self, name) < 0:
                raise ArgumentError(f"{type(self).__name__}: {name} must be at least 0, got {getattr(self, name)}")

    def bounds(self, sizes: Mapping[str, int]) -> SizeBounds:
        """The bounds to compile for, of a call's sizes by name; empty for the program for all sizes."""
        return {name: b for name, size in sizes.items() if (b := self.bound(size)) is not None}

    def bound(self, size: int) -> SizeBound | None:
        """The bounds of one size; None for the program for all sizes."""
        return None

    def __str__(self) -> str:
        """What people read: `bucketed by 64, 128, for n`."""
        of = ", ".join(sorted(self.dims))
        return f"{type(self).__name__.lower()}{self._rule()}{f', for {of}' if of else ''}"

    def _rule(self) -> str:
        """What the text says of how bounds are chosen."""
        return ""

    def restricted(self, f: Function) -> SizePolicy:
        """The policy for a function, with `ops` resolved into `dims`. Raises ArgumentError for a name that the function does not have."""
        names = {s.name for s in f.symbols()}
        for what in (self.dims, *self.at):
            if unknown := sorted(set(what) - names):
                raise ArgumentError(
                    f"policy: no input has a dim {', '.join(unknown)}; there are {', '.join(sorted(names)) or 'none'}"
                )
        dims = set(self.dims or names)
        if self.ops:
            nodes = list(f.all_nodes())
            if unknown := sorted(set(self.ops) - {n.op.name for n in nodes}):
                raise ArgumentError(
                    f"policy: the model has no op {', '.join(unknown)}; there are {', '.join(sorted({n.op.name for n in nodes}))}"
                )
            read = [v.type for n in nodes if n.op.name in self.ops for v in n.inputs if v is not None]
            dims &= {s.name for t in read for s in t.symbols()}
        for sizes in self.at:
            if missing := sorted(dims - set(sizes)):
                raise ArgumentError(
                    f"policy: at must give each dim that the policy is for a size; {dict(sizes)} has none for {', '.join(missing)}"
                )
        return replace(self, dims=frozenset(dims), ops=())


@dataclass(frozen=True, kw_only=True)
class Generic(SizePolicy):
    """A program for all sizes: the default."""


@dataclass(frozen=True, kw_only=True)
class Specialised(SizePolicy):
    """Code for sizes as they are: each becomes a number."""

    def bound(self, size: int) -> SizeBound | None:
        return size


@dataclass(frozen=True, kw_only=True)
class Bucketed(SizePolicy):
    """Code for all sizes between two edges, which are upper ends: `edges=(64, 128)` makes the buckets 0 to 64 and 65 to 128, and sizes
    above 128 run the program for all sizes. Without edges every power of two is one. Code for a bucket is right for each of its sizes;
    with `pad` it is for the upper end alone, to which operands are padded (`Padding`). Empty dims are never padded."""

    edges: Sequence[int] = ()
    hot: int = 1
    pad: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.edges) != sorted(set(self.edges)) or any(e < 1 for e in self.edges):
            raise ArgumentError(f"Bucketed: edges must be ascending numbers of at least 1, got {list(self.edges)}")

    def _rule(self) -> str:
        return f" by {', '.join(map(str, self.edges)) or 'powers of two'}{', padded' if self.pad else ''}"

    def bound(self, size: int) -> SizeBound | None:
        bucket = self._bucket(size)
        if not self.pad or bucket is None:
            return bucket
        return Padding(max(bucket[0], 1), bucket[1]) if size else None

    def _bucket(self, size: int) -> tuple[int, int] | None:
        """The ends of a size's bucket; None above the last edge."""
        if not self.edges:
            most = 1 << max(size - 1, 0).bit_length()
            return (most // 2 + 1 if size > 1 else size, most if size else 0)
        k = bisect_left(self.edges, size)
        return (self.edges[k - 1] + 1 if k else 0, self.edges[k]) if k < len(self.edges) else None


@dataclass(frozen=True, kw_only=True)
class Ruled(SizePolicy):
    """A rule of the user's: for a call's sizes by name, the bounds of those that code is to be made for, as `dims=` of `compile` takes
    them; None or nothing for the program for all sizes."""

    rule: PolicyRule

    def _rule(self) -> str:
        return f" by {getattr(self.rule, '__name__', type(self.rule).__name__)}"

    def bounds(self, sizes: Mapping[str, int]) -> SizeBounds:
        try:
            said = self.rule(dict(sizes)) or {}
        except Exception as e:
            raise ArgumentError(f"policy: the rule raised {type(e).__name__} for {dict(sizes)}: {e}") from e
        if not fits(said, Mapping[str, int | tuple[int, int | None]]):
            raise ArgumentError(
                f"policy: the rule must give sizes or (least, most) by name, got {short(said)} for {dict(sizes)}"
            )
        for name, bound in said.items():
            least, most = bound if isinstance(bound, tuple) else (bound, bound)
            if name not in sizes or sizes[name] < least or (most is not None and sizes[name] > most):
                raise ArgumentError(
                    f"policy: the rule gives {name} {bound} for a call of {dict(sizes)}, outside of these bounds"
                )
        return said


@dataclass(frozen=True, kw_only=True)
class PerDim(SizePolicy):
    """A policy for each dim. Those without one are unknown to all code. `hot`: the most of the policies'; `most`: the least."""

    each: Mapping[str, SizePolicy]

    def __str__(self) -> str:
        return "; ".join(f"{p}, for {n}" for n, p in self.each.items())

    def bounds(self, sizes: Mapping[str, int]) -> SizeBounds:
        return {n: b for n, p in self.each.items() if n in sizes for b in p.bounds({n: sizes[n]}).values()}


NAMED: Mapping[str, Callable[[], SizePolicy]] = {
    "generic": Generic, "specialised": Specialised, "bucketed": Bucketed, "padded": partial(Bucketed, pad=True),
}  # fmt: skip


PolicyArgument: TypeAlias = SizePolicy | str | Mapping[str, SizePolicy | str] | PolicyRule | None


@public
def size_policy(said: PolicyArgument) -> SizePolicy:
    """Reads `policy=`: a name, a policy, a rule, or a policy for each dim by its name. Raises ArgumentError for anything else."""
    if said is None:
        return Generic()
    if isinstance(said, SizePolicy):
        policy = said
    elif isinstance(said, str) and said in NAMED:
        policy = NAMED[said]()
    elif isinstance(said, Mapping) and all(isinstance(name, str) for name in said):
        each = {name: size_policy(p) for name, p in said.items()}
        some = [p for p in each.values() if not isinstance(p, Generic)]
        least, most = min((p.most for p in some), default=0), max((p.hot for p in some), default=0)
        policy = PerDim(dims=tuple(each), each=each, hot=most, most=least)
    elif callable(said):
        policy = Ruled(rule=said)
    else:
        kinds = f"{', '.join(NAMED)}, a policy of anyshape.policies, one for each dim by name, or a function from sizes to bounds"
        raise ArgumentError(f"policy must be one of {kinds}, got {short(said)}")
    return policy
