"""`compile`: from a model to an executable.

In: a `Function`, a model file, a saved model, or a module of PyTorch. Out: an `Executable`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Unpack

from anyshape.errors import ArgumentError
from anyshape.files import PathLike, is_saved, size_of
from anyshape.graph.function import Function
from anyshape.graph.retype import constrained
from anyshape.policies import Generic, PolicyArgument, SizePolicy, size_policy
from anyshape.precision import Within
from anyshape.public import edge, short
from anyshape.vm.compiling.folding import folding
from anyshape.vm.compiling.modules import load_modules
from anyshape.vm.compiling.options import CompileOptions, ExecutionOptions, Options, make_options
from anyshape.vm.compiling.plans import Compiler, Plan, expect, packed_beside
from anyshape.vm.compiling.uncollected import uncollected
from anyshape.vm.compiling.variants import with_variants
from anyshape.vm.executable.bounded import kept_exact
from anyshape.vm.executable.executable import Executable
from anyshape.vm.report.summary import Report

PROBABLE = 1 << 28
"""Bytes of a model's file that are, at most, taken for weights of products before the file is read."""


@edge
def compile(
    model: Any,
    dims: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    example: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    policy: PolicyArgument = None,
    **options: Unpack[CompileOptions],
) -> Executable:
    """Compiles a Function, or an ONNX model (a path, its bytes, an onnx.ModelProto or what has one as `model_proto`), for all shapes at
    once. A saved model is loaded.

    `dims` says more of the inputs' symbols: {"seq": 128} or {"seq": (1, 512)}. `policy`, of `anyshape.policies` or its name, says for
    which sizes of calls code is made besides. Options are the fields of `Options`, such as kernels="interpret". Raises a subclass of
    AnyshapeError for a model that is wrong or not supported.

    A module of PyTorch takes its `example`, a tuple of arguments, in the place of `dims` or by name, `example_kwargs` and
    `dynamic_shapes`, as `torch.export` has them; an exported program none of these. What is returned is then called with tensors
    (docs/torch.md).
    """
    if torch_kind(model) is not None:
        return _of_torch(model, dims, example, example_kwargs, dynamic_shapes, policy=policy, **options)
    if not isinstance(dims, Mapping | None) or (example, example_kwargs, dynamic_shapes) != (None, None, None):
        raise ArgumentError(
            "compile: an example, example_kwargs and dynamic_shapes are for modules of PyTorch; dims is a mapping from names"
        )
    bound = options.get("precision")
    if isinstance(bound, Within):
        options = {**options, "precision": bound.precision}
    chosen, sizes = make_options({**options, "dims": dims or {}}), size_policy(policy)
    if isinstance(model, (str, os.PathLike)) and is_saved(model):
        if isinstance(bound, Within):
            raise ArgumentError(f"{os.fspath(model)} is a saved model; pass precision when you compile the ONNX model")
        if not isinstance(sizes, Generic):
            raise ArgumentError(f"{os.fspath(model)} is a saved model; pass policy when you compile the ONNX model")
        return _loaded(model, chosen, options)
    return _compiled(model, chosen, sizes, bound if isinstance(bound, Within) else None)


def _compiled(model: Any, chosen: Options, sizes: SizePolicy, bound: Within | None) -> Executable:
    """Compiles a function or an ONNX model, and reports how."""
    report = Report(precision=chosen.precision)
    with report.phase("modules"):
        load_modules(reads_a_model=not isinstance(model, Function))
    with uncollected(), packed_beside(report) as packing:
        expect(packing, _size_of_file(model), chosen)
        with report.phase("import"):
            f = _function(model, chosen, report)
        if bound is not None:
            chosen, report.example_errors = _within(f, bound, chosen)
        plan: Plan = Compiler(chosen, report, threading.RLock(), packing, folding(chosen)).plan(f)
    if unknown := sorted(set(chosen.exact_nodes) - set(report.kept_exact)):
        raise ArgumentError(
            f"exact_nodes: {', '.join(unknown)} names no contraction; there are {', '.join(report.narrowed) or 'none'}"
        )
    sizes = sizes.restricted(f)
    if not isinstance(sizes, Generic):
        plan = with_variants(f, plan, sizes, chosen, report)
    report.finished = True
    report.log(f.name)
    return Executable(f, plan, report, chosen)


def _of_torch(
    model: Any, dims: Any, example: Any, example_kwargs: Any, dynamic_shapes: Any, **options: Any
) -> Executable:
    """Compiles a module of PyTorch; a sequence in the place of `dims` is its example."""
    own_dims, arguments = (dims, example) if isinstance(dims, Mapping | None) else (None, dims)
    torch = import_module("anyshape.frontends.torch")
    return torch.compile_torch(  # type: ignore[no-any-return]  # a TorchModel, which this room does not know
        model, arguments, example_kwargs=example_kwargs, dynamic_shapes=dynamic_shapes, dims=own_dims, **options
    )


def _within(f: Function, bound: Within, options: Options) -> tuple[Options, list[float]]:
    """The options by which as many nodes are narrowed as a bound allows, and the error of each example."""

    def compiled(exact_nodes: Collection[str] | None) -> Executable:
        own = replace(
            options, precision="exact" if exact_nodes is None else bound.precision, exact_nodes=tuple(exact_nodes or ())
        )
        report = Report(precision=own.precision)
        return Executable(f, Compiler(own, report, threading.RLock(), None, folding(own)).plan(f), report, own)

    kept, errors = kept_exact(bound, compiled)
    return replace(options, exact_nodes=kept), errors


def torch_kind(model: Any) -> str | None:
    """`Module` or `ExportedProgram` for these of torch, which is not imported to find out; None for anything else."""
    classes = (c.__name__ for c in type(model).__mro__ if c.__module__.startswith("torch."))
    return next((name for name in classes if name in ("Module", "ExportedProgram")), None)


def _loaded(path: PathLike, chosen: Options, options: CompileOptions) -> Executable:
    """Loads a saved model. Raises ArgumentError for options that decide what is compiled, unless the file was compiled so."""
    from anyshape.vm.executable.saved import load

    if chosen.dims:
        raise ArgumentError(f"{os.fspath(path)} is a saved model; pass dims when you compile the ONNX model")
    executable = load(path, threads=chosen.threads, max_memory=chosen.max_memory)
    asked = {name for name, value in options.items() if value is not None}
    for name in sorted(asked - set(ExecutionOptions.__annotations__)):
        if getattr(executable.options, name) != getattr(chosen, name):
            raise ArgumentError(f"{os.fspath(path)} is a saved model; pass {name} when you compile the ONNX model")
    by = executable.by
    return (
        by(loop=options["loop"], threads=chosen.threads, max_memory=chosen.max_memory)
        if "loop" in asked
        else executable
    )


def function_of(
    model: Any, dims: Mapping[str, Any] | None = None, **options: Unpack[CompileOptions]
) -> tuple[Function, Options]:
    """The function of a model as `compile` takes it, a saved one included, and its options; nothing is compiled. Raises what `compile`
    raises."""
    chosen = make_options({**options, "dims": dims or {}})
    if isinstance(model, (str, os.PathLike)) and is_saved(model):
        saved = _loaded(model, chosen, options)
        return saved.function, saved.options
    load_modules(reads_a_model=not isinstance(model, Function))
    return _function(model, chosen, Report()), chosen


def _size_of_file(model: Any) -> int:
    """Bytes of the file that are likely to be weights of products; few, since nothing of the file is known yet."""
    size = size_of(model) if isinstance(model, (str, os.PathLike)) else None
    return min(size or 0, PROBABLE)


def _function(model: Any, options: Options, report: Report) -> Function:
    dims, columns = options.dims, dict[str, Sequence[Any]]()
    if isinstance(model, Function):
        return constrained(model, dims) if dims else model
    if (
        isinstance(model, (str, bytes, bytearray, memoryview, os.PathLike))
        or hasattr(model, "SerializeToString")
        or hasattr(model, "model_proto")
    ):
        load = import_module("anyshape.frontends.onnx").load
        loaded = load(model, dims or None, repair=options.repair, notes=report.notes, columns=columns)
        report.columns = list(columns.items())
        assert isinstance(loaded, Function)
        return loaded
    raise ArgumentError(
        f"compile takes a Function or a model (a path, bytes, an onnx.ModelProto or a module of PyTorch), got {short(model)}"
    )
