"""Compiled models of torch: `compile_torch` of a module or an exported program, called with tensors.

In: an `nn.Module` with an example, or an `ExportedProgram`. Out: a `TorchModel`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.frontends.torch.dtypes import array_of, tensor_of
from anyshape.frontends.torch.program import ImportedProgram, Result, decomposed, import_program, whole_recurrences
from anyshape.public import short
from anyshape.vm.executable.executable import Executable, compile


def compile_torch(
    model: Any, example: Any, *, example_kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
    dims: Mapping[str, Any] | None = None, **options: Any,
) -> TorchModel:  # fmt: skip
    """Compiles a module, exported with these examples and dims, or an exported program. See `anyshape.compile`."""
    import torch

    names: dict[str, str] = {}
    program = model
    if isinstance(model, torch.nn.Module):
        program = exported(model, example, example_kwargs or {}, dynamic_shapes)
        names = names_of_symbols(model, program, example, example_kwargs or {}, dynamic_shapes)
    elif example is not None or dynamic_shapes is not None:
        raise ArgumentError("compile: an exported program has its example and its dynamic_shapes already; pass it alone")
    plain = decomposed(program)
    imported = import_program(plain, names)
    return TorchModel(compile(imported.function, dims or {}, **options), imported, plain.call_spec)


def exported(model: Any, example: Any, kwargs: Mapping[str, Any], dynamic_shapes: Any) -> Any:
    """The module as an exported program. Raises UnsupportedError where torch cannot export it, ArgumentError without an example."""
    import torch

    if not isinstance(example, (tuple, list)):
        raise ArgumentError(f"compile: a module needs an example, a tuple of its arguments, got {short(example)}")
    try:
        with whole_recurrences(), torch.no_grad():
            return torch.export.export(model, tuple(example), dict(kwargs), dynamic_shapes=dynamic_shapes)
    except (torch._dynamo.exc.TorchDynamoException, torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode) as e:
        raise UnsupportedError(f"torch.export does not take the module: {e}") from e


def names_of_symbols(
    model: Any, program: Any, example: Any, kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> dict[str, str]:
    """People's names of torch's symbols, as dims have them in `dynamic_shapes`."""
    import torch

    names: dict[str, str] = {}
    if dynamic_shapes is None:
        return names
    arguments = inspect.signature(model.forward).bind(*example, **kwargs).arguments
    said = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(arguments, dynamic_shapes))
    specs = [s for name, a in arguments.items() for s in _specs(a, said.get(name))]
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    kinds = program.graph_signature.input_specs
    user = [n for n, spec in zip(placeholders, kinds) if spec.kind.name == "USER_INPUT"]
    for node, spec in zip(user, specs):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or spec is None:
            continue
        by_axis = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
        for axis, dim in by_axis:
            size, name = value.shape[axis], getattr(dim, "__name__", "")
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and name.isidentifier():
                names.setdefault(str(size.node.expr), name)
    return names


def _specs(argument: Any, said: Any) -> Iterator[Any]:
    """What is said of each leaf of an argument, in the order in which torch flattens it."""
    if isinstance(argument, Mapping):
        for key, item in argument.items():
            yield from _specs(item, None if said is None else said.get(key))
    elif isinstance(argument, (tuple, list)):
        for k, item in enumerate(argument):
            yield from _specs(item, None if said is None else said[k])
    else:
        yield said


class TorchModel:
    """A compiled model of torch. It takes and gives tensors as the module does, without copies and without gradients; parameters are those
    of the module, as they were when it was compiled. `executable` is the same with arrays of NumPy."""

    def __init__(self, executable: Executable, imported: ImportedProgram, call_spec: Any) -> None:
        self.executable, self._imported = executable, imported
        self._in_spec, self._out_spec = call_spec.in_spec, call_spec.out_spec

    @property
    def report(self) -> Any:
        """What the compiler did."""
        return self.executable.report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model. Raises ArgumentError, DtypeError or ShapeError for arguments that do not fit."""
        from torch.utils import _pytree as pytree

        arguments = self._flat(args, kwargs)
        results = run_imported(self.executable, self._imported, arguments)
        return pytree.tree_unflatten(results, self._out_spec)

    def _flat(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        from torch.export._tree_utils import reorder_kwargs
        from torch.utils import _pytree as pytree

        try:
            ordered = reorder_kwargs(dict(kwargs), self._in_spec)
        except ValueError as e:
            raise ArgumentError(f"the arguments are not those of the example: {e}") from None
        arguments, spec = pytree.tree_flatten((args, ordered))
        if spec != self._in_spec:
            raise ArgumentError(f"the arguments must be as in the example, {self._in_spec}, got {spec}")
        for k, expected in self._imported.constants.items():
            if arguments[k] is not expected and arguments[k] != expected:
                raise ArgumentError(f"argument {k} was {expected!r} in the example, and is {arguments[k]!r}: compile for it")
        return arguments

    def __repr__(self) -> str:
        return f"<TorchModel of {self.executable!r}>"


def run_imported(executable: Executable, imported: ImportedProgram, arguments: Sequence[Any]) -> list[Any]:
    """Calls an executable with tensors, or numbers for sizes; returns the outputs of the model, flat."""
    names = executable.input_names
    tensors = [arguments[k] if k >= 0 else imported.states[-1 - k] for k in imported.inputs]
    arrays = [t if isinstance(t, int) else array_of(t, f"input {name}") for name, t in zip(names, tensors)]
    called = executable(*arrays) if imported.function.results else ()
    results = list(called) if isinstance(called, tuple) else [called]

    def value(of: Result) -> Any:
        if of.kind == "argument":
            return arguments[of.index]
        if of.kind in ("state", "constant"):
            return of.value
        return results[of.index].item() if of.number else tensor_of(results[of.index])

    for target, of in imported.updates:
        tensor = arguments[target] if target >= 0 else imported.states[-1 - target]
        tensor.copy_(value(of))
    return [value(of) for of in imported.outputs]
