"""Compiled models of torch: `compile_torch` of a module or an exported program, called with tensors.

In: an `nn.Module` with an example, or an `ExportedProgram`. Out: a `TorchModel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.frontends.torch.dtypes import array_of, tensor_of
from anyshape.frontends.torch.open_dims import OpenDims
from anyshape.frontends.torch.program import (
    ImportedProgram,
    OutputOrigin,
    decomposed,
    import_program,
    sizes_alike,
    whole_recurrences,
)
from anyshape.public import short
from anyshape.vm.executable.entry import compile
from anyshape.vm.executable.executable import Executable


def compile_torch(
    model: Any, example: Any, *, example_kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
    dims: Mapping[str, Any] | None = None, **options: Any,
) -> TorchModel:  # fmt: skip
    """Compiles a module, exported with these examples and dims, or an exported program. See `anyshape.compile`."""
    import torch

    if isinstance(model, torch.nn.Module):
        if not isinstance(example, (tuple, list)):
            raise ArgumentError(f"compile: a module needs an example, a tuple of its arguments, got {short(example)}")
        open_dims = OpenDims(model, example, example_kwargs or {}, dynamic_shapes)
        plain = decomposed(exported(open_dims))
        imported = import_program(plain, open_dims.sizes(plain))
    elif example is not None or dynamic_shapes is not None:
        raise ArgumentError(
            "compile: an exported program has its example and its dynamic_shapes already; pass it alone"
        )
    else:
        plain = decomposed(model)
        imported = import_program(plain, {})
    return TorchModel(compile(imported.function, dims or {}, **options), imported, plain.call_spec)


def exported(of: OpenDims) -> Any:
    """The module as an exported program. Raises UnsupportedError where torch cannot export it."""
    import torch

    try:
        with whole_recurrences(), sizes_alike(), torch.no_grad():
            return torch.export.export(of.model, tuple(of.example), dict(of.kwargs), dynamic_shapes=of.for_torch())
    except (
        torch._dynamo.exc.TorchDynamoException,
        torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode,
    ) as e:
        raise UnsupportedError(f"torch.export does not take the module: {e}") from e


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
                raise ArgumentError(
                    f"argument {k} was {expected!r} in the example, and is {arguments[k]!r}: compile for it"
                )
        return list(arguments)

    def _repr_html_(self) -> str:
        return self.executable._repr_html_()

    def __repr__(self) -> str:
        return f"<TorchModel of {self.executable!r}>"


def run_imported(executable: Executable, imported: ImportedProgram, arguments: Sequence[Any]) -> list[Any]:
    """Calls an executable with tensors, or numbers for sizes; returns the outputs of the model, flat."""
    names = executable.input_names
    tensors = [arguments[k] if k >= 0 else imported.states[-1 - k] for k in imported.inputs]
    arrays = [t if isinstance(t, int) else array_of(t, f"input {name}") for name, t in zip(names, tensors)]
    called = executable(*arrays) if imported.function.results else ()
    results = list(called) if isinstance(called, tuple) else [called]

    def value(of: OutputOrigin) -> Any:
        if of.kind == "argument":
            return arguments[of.index]
        if of.kind in ("state", "constant"):
            return of.value
        return results[of.index].item() if of.number else tensor_of(results[of.index])

    for target, of in imported.updates:
        tensor = arguments[target] if target >= 0 else imported.states[-1 - target]
        tensor.copy_(value(of))
    return [value(of) for of in imported.outputs]
