"""Summary of a compile, for people: variants of ops, why something stayed dynamic, kernels, seconds per phase."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Dim
from anyshape.graph.function import Function
from anyshape.graph.value import Node
from anyshape.logs import COMPILE
from anyshape.outline import outline
from anyshape.vm.report.causes import Causes
from anyshape.vm.report.size_variants import SizeVariant
from anyshape.wording import counted


@dataclass(eq=False, kw_only=True)
class Report:
    """`dyn_symbolic`: dyn ops whose results have dims that are expressions of the inputs' dims and those of what they work on.
    `still_dynamic`: the others, each with its cause; `unknown_dims`: sizes that only the run decides, with theirs. `programs` and
    `kernels` count what was compiled; `compiled_after_first_call`, programs compiled since. `rebuilt`: why a saved model was compiled
    again instead of loaded. `policy`: that of sizes, in words, if there is one; `variants`: programs for some sizes that it asked for.
    `notes`: what the importer took for granted that the model does not say. `columns`: outputs that are lists of maps in the model, and
    the labels of their columns. `precision`: what contractions of f32 multiply, `sums`: in what they add up; `narrowed`: the nodes in which
    that is not f32, `kept_exact` those in which it is on demand; `example_errors`: the largest relative error of each example, if there
    were some."""

    imported_dyn: int = 0
    became_static: int = 0
    dyn_symbolic: int = 0
    still_dynamic: list[str] = field(default_factory=list)
    unknown_dims: list[str] = field(default_factory=list)
    nodes: int = 0
    steps: int = 0
    kernels: int = 0
    programs: int = 0
    compiled_after_first_call: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    finished: bool = False
    rebuilt: str = ""
    notes: list[str] = field(default_factory=list)
    policy: str = ""
    variants: list[SizeVariant] = field(default_factory=list)
    columns: list[tuple[str, Sequence[Any]]] = field(default_factory=list)
    precision: str = "exact"
    sums: str = "in f32"
    narrowed: list[str] = field(default_factory=list)
    kept_exact: list[str] = field(default_factory=list)
    example_errors: list[float] = field(default_factory=list)
    _inner: list[float] = field(default_factory=lambda: [0.0])

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts the seconds spent inside for this phase, without those of phases within it."""
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            total = time.perf_counter() - start
            inside = self._inner.pop()
            self._inner[-1] += total
            self.phases[name] = self.phases.get(name, 0.0) + total - inside

    def compiled(self, kernels: int) -> None:
        """Counts one more program with so many kernels."""
        self.programs += 1
        self.kernels += kernels
        self.compiled_after_first_call += self.finished

    def count_variants(self, imported: Function, optimised: Function) -> None:
        """Counts what became of the dyn ops."""
        entry = set(optimised.symbols())
        left = [n for n in optimised.all_nodes() if n.op.variant == "dyn"]
        self.imported_dyn = sum(n.op.variant == "dyn" for n in imported.all_nodes())
        self.became_static = max(0, self.imported_dyn - len(left))
        dynamic = [n for n in left if decides_a_size(n, entry)]
        self.dyn_symbolic = len(left) - len(dynamic)
        causes = Causes(optimised)
        self.still_dynamic = [causes.of_node(n) for n in dynamic]
        self.unknown_dims = causes.unknown_dims()
        self.nodes = sum(1 for _ in optimised.all_nodes())

    def log(self, name: str) -> None:
        """Reports the compile of the model of this name, and what stays dynamic in it, to the log `anyshape.compile`."""
        numbers = (self.nodes, self.steps, self.kernels, self.programs, sum(self.phases.values()) * 1e3)
        COMPILE.info("%s: %d nodes, %d steps, %d kernels, %d programs in %.1f ms", name, *numbers)
        if self.rebuilt:
            COMPILE.info("%s: compiled again from the saved file: %s", name, self.rebuilt)
        for line in (*self.still_dynamic, *self.unknown_dims, *self.notes):
            COMPILE.info("%s: %s", name, line)

    def _repr_html_(self) -> str:
        return outline(str(self))

    def __str__(self) -> str:
        seconds = ", ".join(f"{name} {s * 1e3:.1f} ms" for name, s in self.phases.items())
        lines = [
            f"{counted(self.imported_dyn, 'dyn op')} in the model: {self.became_static} became static or constant, "
            f"{self.dyn_symbolic} dyn with all dims symbolic, {len(self.still_dynamic)} stayed dynamic",
            *(f"  {reason}" for reason in self.still_dynamic),
            *(["data-dependent sizes, which are no expression of the inputs' dims:"] if self.unknown_dims else []),
            *(f"  {reason}" for reason in self.unknown_dims),
            f"{counted(self.nodes, 'node')} in {counted(self.steps, 'step')}, {counted(self.kernels, 'kernel')}, "
            f"{counted(self.programs, 'program')}; {seconds}",
        ]
        lines += self.notes
        if self.precision != "exact":
            count = len(self.narrowed)
            who = f"{counted(count, 'node')} {'multiplies' if count == 1 else 'multiply'}"
            dtype = self.precision.partition("-")[0]
            lines.append(f"precision {self.precision}: {who} numbers rounded to {dtype}, with sums {self.sums}")
            lines += [f"  {node}" for node in self.narrowed]
            lines += [f"  exact: {node}" for node in self.kept_exact]
            lines += [f"  largest relative error of example {k}: {e:.2g}" for k, e in enumerate(self.example_errors)]
        if self.policy:
            unused = "" if self.variants else "; no call has asked for code of its own"
            lines.append(f"policy of sizes: {self.policy}{unused}")
        lines += [f"variant for {v}" for v in list(self.variants)]
        if self.rebuilt:
            lines.append(f"compiled again from the saved file: {self.rebuilt}")
        return "\n".join(lines)


def decides_a_size(node: Node, entry: set[Dim]) -> bool:
    """Tests whether the values of the node's operands alone decide a size or a rank of a result, or what the node does at all."""
    data = node.data_inputs
    known = entry.union(*(v.type.symbols() for v in data if v is not None))
    return node.bound is None or any(not v.type.symbols() <= known for v in node.outputs)
