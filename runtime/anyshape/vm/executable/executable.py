"""Executables: compiled models, which can be called with any shapes their types allow.

In: a function, its plan, and what its compile reported. Out: an `Executable`, immutable to its callers and safe to call from any number of
threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim
from anyshape.dtypes import CHAR
from anyshape.errors import ArgumentError, Cancelled
from anyshape.files import PathLike
from anyshape.graph.function import UNNAMED, Function
from anyshape.graph.text import is_anonymous
from anyshape.graph.tuples import Form, formed
from anyshape.graph.value import Value
from anyshape.outline import outline, section
from anyshape.public import edge, fits, public, short
from anyshape.types import ListType, TensorType
from anyshape.vm.compiling.options import ExecutionOptions, Options, make_options
from anyshape.vm.compiling.plans import Plan
from anyshape.vm.compiling.size_plan import SizePlan
from anyshape.vm.executable.call_path import CallPath, CallSizes
from anyshape.vm.executable.hooks import CallHook, CallHooks, CallRecord
from anyshape.vm.executable.memory_text import memory_text
from anyshape.vm.native import wait_for_memory
from anyshape.vm.program.blocks import shown
from anyshape.vm.program.disassemble import disassemble
from anyshape.vm.program.table import ResultType
from anyshape.vm.report.summary import Report
from anyshape.vm.run.arguments import Signature
from anyshape.vm.run.destinations import Destinations
from anyshape.vm.run.limits import Cancellation, bounded, cancelled_text, checked_deadline

if TYPE_CHECKING:
    from anyshape.vm.executable.memory_limit import MemoryLimit

Array = NDArray[Any]


class Head(Protocol):
    """Signature of a function, as its callers see it; `whole` is the function."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> Sequence[Value]: ...
    @property
    def results(self) -> Sequence[Value]: ...
    @property
    def result_names(self) -> tuple[str, ...]: ...
    @property
    def form(self) -> Form: ...
    def whole(self) -> Function: ...


class Executable:
    """A compiled model. Call it with arrays by position or by name, or `run` it with a dict."""

    def __init__(self, function: Head, plan: Plan, report: Report, options: Options) -> None:
        self._head, self.plan, self.report, self.options = function, plan, report, options
        self.signature = Signature(function.params)
        self._converts = any(isinstance(v.type, ListType) or v.type.dtype is CHAR for v in function.results)
        self._strings = any(v.type.dtype is CHAR for v in (*function.params, *function.results))
        form = function.form or ()
        self._form = form if any(f is not None for f in form) else None
        self._single = len(form or function.results) == 1
        self._names = self.signature.names
        self._places = Destinations(
            [ResultType(n, v.type.dtype) for n, v in zip(function.result_names, function.results)]
        )
        self._limit = None if options.max_memory is None else self._limited(options.max_memory)
        self._hooks: CallHooks | None = None
        self._lock = threading.Lock()
        self._first_check: Callable[[], None] | None = None
        self._lay_path()

    def _lay_path(self) -> None:
        """Has calls enter the plan, past a memory limit and hooks where there are any."""
        with self._lock:
            path = CallPath(None if self._strings else self.plan.direct, self.signature.bind, self.plan.run)
            if self._first_check is not None:
                path = self._checked(path, self._first_check)
            if self._limit is not None:
                path = self._limit.before(path)
            if self._hooks:
                path = self._hooks.around(path)
            self._direct, self._bind, self._run = path.direct, path.bind, path.run

    def _checked(self, path: CallPath, check: Callable[[], None]) -> CallPath:
        def run(arrays: Sequence[Array], places: Sequence[Array | None] = ()) -> list[Array]:
            check()
            self._first_check = None
            self._lay_path()
            return path.run(arrays, places)

        return CallPath(None, path.bind, run)

    def _limited(self, most: int) -> MemoryLimit:
        """Makes the memory limit. Raises MemoryLimitExceeded where no call is within it, and ArgumentError for a plan with a policy."""
        from anyshape.vm.executable.memory_limit import MemoryLimit
        from anyshape.vm.export.call_bytes import call_bytes

        if isinstance(self.plan, SizePlan):
            raise ArgumentError("compile: max_memory and policy exclude each other: variants have memory of their own")
        f, threads = self.function, self.options.threads
        counted = self.plan.by(replace(self.options, loop="python", max_memory=None))
        limit = MemoryLimit(f, most, call_bytes(f, self.plan, threads), counted)
        limit.demand_possible()
        return limit

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model: one array, or a tuple of arrays. Raises ArgumentError, DtypeError or ShapeError for arguments that do not fit."""
        results = None
        if not kwargs and self._direct is not None:
            results = self._direct(args)
        if results is None:
            results = self._shown(self._run(self._bind(args, kwargs)))
        if self._form is not None:
            results = formed(self._form, iter(results))
        return results[0] if self._single else tuple(results)

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Array] | None = None,
        *,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[Array]:
        """Runs the model on a dict of inputs: a list in the order of `output_names`. Results named in `outputs` are put there; if the call
        raises an error, what those arrays hold is not defined. With a `deadline`, in seconds from now, a call that is not over by then
        raises DeadlineExceeded; with a `cancellation`, one that its `cancel()` stops raises Cancelled."""
        if deadline is not None or cancellation is not None:
            return self._run_bounded(inputs, outputs, deadline, cancellation)
        direct = self._direct
        if direct is not None:
            try:
                arguments = tuple([inputs[name] for name in self._names])
                places = self._places.listed(outputs) if outputs else ()
            except (KeyError, TypeError, IndexError, ValueError, AttributeError):
                direct = None  # said better below
        if direct is not None and len(inputs) == len(self._names):
            results = direct(arguments, places)
            if results is not None:
                return results
        return self._run_at_leisure(inputs, outputs)

    def _run_bounded(self, inputs: Any, outputs: Any, seconds: Any, cancellation: Any) -> list[Array]:
        if not isinstance(cancellation, Cancellation | None):
            raise ArgumentError(f"run: cancellation must be an anyshape.Cancellation, got {short(cancellation)}")
        limit = None if seconds is None else checked_deadline(seconds)
        if cancellation is not None and cancellation.is_cancelled:
            raise Cancelled(cancelled_text(self._head.name))
        with bounded(limit, cancellation):
            return self._run_at_leisure(inputs, outputs)

    def _run_at_leisure(self, inputs: Any, outputs: Any) -> list[Array]:
        for what, named in (("inputs", inputs), ("outputs", outputs if outputs is not None else {})):
            if not fits(named, Mapping[str, Any]):
                raise ArgumentError(f"run: {what} must be a mapping from names to arrays, got {short(named)}")
        arguments = self._bind((), inputs)
        return self._shown(self._run_into(arguments, outputs) if outputs else self._run(arguments))

    def _shown(self, results: list[Any]) -> list[Any]:
        if not self._converts:
            return results
        return [shown(r, t) for r, t in zip(results, self.output_types, strict=True)]

    def _run_into(self, arguments: list[Array], outputs: Mapping[str, Array]) -> list[Array]:
        """Runs the model with destinations: results are computed there where that is possible, else copied."""
        results = self._run(arguments, self._places.plan(outputs, arguments, self.plan.overwrites))
        for name, place in outputs.items():
            k = self._places.number(name)
            if results[k] is not place:
                if place.shape != results[k].shape:
                    raise self._places.unfit(k, results[k].shape, place)
                np.copyto(place, results[k])
                results[k] = place
        return results

    @public
    def cancel(self) -> None:
        """Calls of this executable that are under way, in whatever threads, raise Cancelled within a tenth of a second; later ones run."""
        self.plan.cancel()

    @public
    def release(self) -> None:
        """Lets go of the memory that is kept for the next call (`memory`), which then takes new memory; calls that are under way go on."""
        self.plan.release()

    @edge
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole executable into one file for `anyshape.load`, atomically. Raises AnyshapeError if it cannot be written."""
        from anyshape.vm.executable.saved import save

        save(self, path)

    @public
    def export(
        self,
        folder: PathLike,
        *,
        name: str | None = None,
        target: str | Sequence[str] | None = None,
        weights: Literal["inside", "file"] | None = None,
        budget: int | None = None,
        shared: bool = False,
    ) -> list[Path]:
        """Writes an object file, an archive of it, a C header and, where they are large or `weights="file"`, the weights into a folder; the
        paths. They need neither Python nor anyshape (docs/export.md). `name` begins the names of files and functions: by default that of
        the Function, or of the folder where it has none. `target` is one of `anyshape export --help`, by default of machines like this
        one; of several levels of one architecture, the code chooses one when it first runs. `budget`: the most bytes of memory beside
        inputs and outputs. `shared`: a shared library too. Sizes are bounded as `compile` was told.

        Raises UnsupportedError for a model that cannot be exported, and for a target without shared libraries, and ArgumentError for other
        arguments, a folder that cannot be written, or where nothing links."""
        from anyshape.vm.export import export, export_target, name_from

        own = self._head.name
        chosen = name_from(own if own != UNNAMED else Path(folder).absolute().name) if name is None else name
        return export(self.function, chosen, export_target(target), self.options, weights, budget).write(folder, shared)

    @public
    def by(self, **options: Unpack[ExecutionOptions]) -> Executable:
        """Returns these programs with other options for running: `loop`, `threads` and `max_memory` of `Options`. Nothing is compiled
        again."""
        running = make_options({"max_memory": self.options.max_memory, **options})
        chosen = replace(self.options, **{name: getattr(running, name) for name in ExecutionOptions.__annotations__})
        other = Executable(self._head, self.plan.by(chosen), self.report, chosen)
        if self._first_check is not None:
            other.check_first(self._first_check)
        return other

    @public
    def wait(self) -> None:
        """Returns once nothing of the compile goes on beside its caller any more: large constants are laid out meanwhile, for which calls
        wait by themselves, memory for large results is touched, and code is made for sizes that a policy names."""
        if isinstance(self.plan, SizePlan):
            self.plan.wait()
        _ = self.plan.programs
        wait_for_memory()

    @public
    def check_first(self, check: Callable[[], None]) -> None:
        """Makes calls `check` before they run, until it once does not raise."""

        self._first_check = check
        self._lay_path()

    @public
    def on_call(self, hook: Callable[[CallRecord], object]) -> CallHook:
        """Calls `hook` after each call of this executable, in the thread of the call, with its dims by name, seconds, memory and error.
        What it raises is logged (`anyshape.calls`), and the call goes on. `remove()` of what is returned, or the end of a `with`, takes
        the hook away."""
        with self._lock:
            if self._hooks is None:
                self._hooks = CallHooks(self._head.name, self._sizes(), lambda: self.memory, self._lay_path)
        return self._hooks.add(hook)

    def _sizes(self) -> CallSizes:
        """Finds where the named dims of a call stand in its arguments."""
        places: dict[str, tuple[int, int]] = {}
        for k, p in enumerate(self._head.params):
            dims = () if isinstance(p.type, ListType) else p.type.shape or ()
            for axis, n in enumerate(dims):
                if isinstance(n, Dim) and n.is_symbol and not is_anonymous(n):
                    places.setdefault(n.name, (k, axis))
        return CallSizes(places)

    @property
    def function(self) -> Function:
        """The function that was compiled; it is read from the file if the executable is loaded."""
        return self._head.whole()

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.signature.names

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return self.signature.types

    @property
    def output_names(self) -> tuple[str, ...]:
        return self._head.result_names

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self._head.results)

    @property
    def compiled_after_first_call(self) -> int:
        """Programs compiled since `compile` returned: for an empty dim, or for a rank that turned up."""
        return self.report.compiled_after_first_call

    @property
    def memory(self) -> int:
        """Bytes of memory for intermediate values that is kept for the next call."""
        return self.plan.bytes

    @public
    def disassemble(self) -> str:
        """The programs compiled so far, as text."""
        return "\n\n".join(disassemble(p) for p in self.plan.programs)

    @public
    def explain_html(self, dims: Mapping[str, int] | None = None, *, title: str | None = None) -> str:
        """Returns a page of HTML without other files: the kernels as a graph, where each dim comes from, and memory over time for any
        sizes; it begins with `dims`, by name. The function is compiled again, but for machine code. Raises ArgumentError for dims that no
        input has."""
        from anyshape.vm.page import explanation_page

        return explanation_page(self.function, self.options, self.report.notes, title=title, sizes=dims)

    def _repr_html_(self) -> str:
        """The signature, and below it, collapsed, the report of the compile, the memory plan and the programs."""
        sides = ("inputs", self.input_names, self.input_types), ("outputs", self.output_names, self.output_types)
        lines = [
            line
            for side, names, types in sides
            for line in (f"{side}:", *(f"  {n}: {t}" for n, t in zip(names, types)))
        ]
        parts = {"report": str(self.report), "memory": memory_text(self), "programs": self.disassemble()}
        body = outline("\n".join(lines)) + "".join(section(title, outline(text)) for title, text in parts.items())
        return section(self._head.name, body, opened=True)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{n}: {t}" for n, t in zip(self.input_names, self.input_types))
        return f"<Executable {self._head.name}({inputs}) -> {', '.join(self.output_names)}>"
