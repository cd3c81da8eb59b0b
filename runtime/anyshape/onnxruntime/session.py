"""`InferenceSession`: onnxruntime's interface on a compiled model, for programs that are written for onnxruntime."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Unpack

import numpy as np

from anyshape.dtypes import CHAR
from anyshape.errors import AnyshapeError, Cancelled, ModelError, ShapeError, TypeRelationError, UnsupportedError
from anyshape.frontends.onnx.inputs import DimNames, input_type
from anyshape.frontends.onnx.maps import with_maps
from anyshape.frontends.onnx.named_values import overridable
from anyshape.frontends.onnx.simplified import simplify
from anyshape.frontends.onnx.writing import write_model
from anyshape.onnxruntime.arguments import argument, misfits, unequal_dims
from anyshape.onnxruntime.binding import IOBinding
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    NoValue,
    RuntimeException,
    WrongKind,
    error,
)
from anyshape.onnxruntime.description import ModelMetadata, NodeArg, described, described_maps
from anyshape.onnxruntime.log import ignored
from anyshape.onnxruntime.memory import SessionMemory
from anyshape.onnxruntime.model_file import (
    declared_shapes,
    free_dimensions,
    is_undeclared,
    read_source,
    with_independent_dims,
    without_defaults,
)
from anyshape.onnxruntime.options import RunOptions, SessionOptions
from anyshape.onnxruntime.profiling import Profiler
from anyshape.onnxruntime.providers import PROVIDER, check_providers
from anyshape.onnxruntime.translation import entry, translated
from anyshape.onnxruntime.values import OrtValue
from anyshape.public import short
from anyshape.strings import as_objects
from anyshape.types import ListType, TensorType
from anyshape.vm import Executable, compile
from anyshape.vm.compiling.options import CompileOptions, Options


class InferenceSession:
    """A model ready to run; thread-safe, as onnxruntime's is."""

    @entry
    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        **options: Unpack[CompileOptions],
    ) -> None:
        """`path_or_bytes`, `dims` and `options` are those of `anyshape.compile`; a saved model is loaded. Raises NoSuchFile,
        InvalidProtobuf, InvalidGraph, InvalidArgument, Fail or NotImplemented of `capi.onnxruntime_pybind11_state` for a model that does
        not run."""
        check_providers(providers, provider_options)
        self._model = path_or_bytes
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, str | os.PathLike) else None
        """Read by `optimum`, which copies a model's file when it is saved"""
        self._source = read_source(path_or_bytes)
        self._settings = SessionOptions() if sess_options is None else sess_options
        self._settings._heed()
        known = {f.name for f in fields(Options)}
        self._options: dict[str, Any] = {n: v for n, v in options.items() if n in known}
        for name in options.keys() - known:
            ignored(f"InferenceSession({name}=)", "anyshape.compile has no such option")
        if self._settings.intra_op_num_threads > 0:
            self._options.setdefault("threads", self._settings.intra_op_num_threads)
        self._profiler = Profiler(self._settings.profile_file_prefix) if self._settings.enable_profiling else None
        if self._profiler is not None:
            self._options["recorder"] = self._profiler.recorder
        self._dims = {**free_dimensions(self._settings, self._source), **(dims or {})}
        self._memory = SessionMemory(self._settings)
        self.executable = self._compiled(path_or_bytes)
        self._columns = dict(self.executable.report.columns)
        self._numbers = {n: k for k, n in enumerate(self.executable.output_names)}
        self._is_plain = (
            self._memory.is_unlimited
            and not self._columns
            and all(not isinstance(t, ListType) and t.dtype is not CHAR for t in self.executable.output_types)
        )
        self._defaults = sorted(overridable(self._source.model)) if self._source is not None else []
        self._overriding: dict[frozenset[str], Executable] = {}
        self._independent: Executable | None = None
        self._spelled = declared_shapes(self._source)
        self._lock = threading.Lock()
        if self._settings.optimized_model_filepath and self._source is not None:
            write_model(simplify(path_or_bytes, self._dims), self._settings.optimized_model_filepath)

    # --- the model

    @entry
    def get_inputs(self) -> list[NodeArg]:
        return [self._described(*pair) for pair in zip(self.executable.input_names, self.executable.input_types)]

    @entry
    def get_outputs(self) -> list[NodeArg]:
        types = zip(self.executable.output_names, self.executable.output_types)
        return [
            described_maps(name, t, self._columns[name]) if name in self._columns else self._described(name, t)
            for name, t in types
        ]

    def _described(self, name: str, t: TensorType) -> NodeArg:
        return described(name, t, self._spelled.get(name, ()))

    @entry
    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that have a default in the file."""
        if self._source is None:
            return []
        infos = {i.name: i for i in self._source.model.graph.input}
        types = {n: input_type(infos[n].type, DimNames(None), f"input {n!r}") for n in self._defaults}
        return [described(n, t) for n, t in types.items()]

    @entry
    def get_modelmeta(self) -> ModelMetadata:
        if self._source is None:
            return ModelMetadata(
                custom_metadata_map={},
                description="",
                domain="",
                graph_description="",
                graph_name="main",
                producer_name="",
                version=0,
            )
        m = self._source.model
        return ModelMetadata(
            custom_metadata_map={p.key: p.value for p in m.metadata_props},
            description=m.doc_string,
            domain=m.domain,
            graph_description=m.graph.doc_string,
            graph_name=m.graph.name,
            producer_name=m.producer_name,
            version=m.model_version if m.HasField("model_version") else (1 << 63) - 1,
        )

    @entry
    def get_providers(self) -> list[str]:
        return [PROVIDER]

    @entry
    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {PROVIDER: {}}

    @entry
    def get_session_options(self) -> SessionOptions:
        return self._settings

    @entry
    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Checks that the CPU is among the providers, and changes nothing."""
        check_providers(providers, provider_options)

    @entry
    def enable_fallback(self) -> None:
        """Returns at once: there is nothing to fall back from."""

    @entry
    def disable_fallback(self) -> None:
        """Returns at once: there is nothing to fall back from."""

    @entry
    def get_tuning_results(self) -> list[Any]:
        return []

    @entry
    def set_tuning_results(self, results: Any, error_on_invalid: bool = False) -> None:
        ignored("InferenceSession.set_tuning_results", "kernels are not tuned")

    @entry
    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        for key in options:
            ignored(f"the dynamic option {key!r}", "the CPU provider has none")

    @entry
    def release_captured_graph(self, annotation_id: int = 0) -> None:
        raise NoValue("release_captured_graph: no graphs are captured")

    @entry
    def get_input_memory_infos(self) -> list[Any]:
        raise error(NotImplemented, "get_input_memory_infos: there is one kind of memory")

    @entry
    def get_output_memory_infos(self) -> list[Any]:
        raise error(NotImplemented, "get_output_memory_infos: there is one kind of memory")

    @entry
    def get_input_epdevices(self) -> list[Any]:
        raise error(NotImplemented, "get_input_epdevices: there is one device, the CPU")

    @entry
    def get_provider_graph_assignment_info(self) -> list[Any]:
        raise error(NotImplemented, "get_provider_graph_assignment_info: there is one provider, CPUExecutionProvider")

    # --- runs

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs named, or all of them, in order: arrays, lists, and lists of maps where the model has a ZipMap at an output. Inputs
        may be arrays, OrtValues, lists of numbers, and what has DLPack."""
        if run_options is None and input_feed.__class__ is dict and self._is_plain and self._profiler is None:
            results = self._run_arrays(output_names, input_feed)
            if results is not None:
                return results
        return self._run_named(output_names, input_feed, run_options)

    def _run_arrays(self, output_names: Any, feed: Mapping[str, Any]) -> list[Any] | None:
        """Runs the usual call, on arrays; None where something is to be converted, or refused in other words."""
        if output_names is not None and output_names.__class__ is not list:
            return None
        for v in feed.values():
            if v.__class__ is not np.ndarray:
                return None
        try:
            results = self.executable.run(feed)
            return [results[self._numbers[n]] for n in output_names] if output_names else results
        except (AnyshapeError, KeyError, TypeError):
            return None

    @entry
    def _run_named(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None
    ) -> list[Any]:
        chosen = self._chosen(output_names)
        names = self.executable.output_names
        results = self._run(input_feed, run_options)
        shown = with_maps(names, [as_objects(r) for r in results], self._columns)
        return [shown[names.index(n)] for n in chosen]

    @entry
    def run_async(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], callback: Any, user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:  # fmt: skip
        """Runs in another thread, and calls `callback(results, user_data, error)` there: an error has a text, and no results."""
        if not callable(callback):
            raise WrongKind(f"InferenceSession.run_async: callback must be callable, got {short(callback)}")
        self._chosen(output_names)
        self._demand_inputs(input_feed)

        def work() -> None:
            try:
                results, said = self.run(output_names, input_feed, run_options), ""
            except AnyshapeError as e:
                results, said = [], str(e)
            callback(results, user_data, said)

        threading.Thread(target=work, name="anyshape-run-async", daemon=True).start()

    @entry
    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:  # fmt: skip
        chosen = self._chosen(output_names)
        results = dict(zip(self.executable.output_names, self._run(input_dict_ort_values, run_options)))
        return [OrtValue(results[n]) for n in chosen]

    @entry
    def run_with_ortvaluevector(
        self, run_options: Any, feed_names: Any, feeds: Any, fetch_names: Any, fetches: Any, fetch_devices: Any
    ) -> None:
        raise error(NotImplemented, "run_with_ortvaluevector: use run_with_ort_values or io_binding")

    @entry
    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    @entry
    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound. Raises RuntimeException, a RuntimeError, where that does not fit."""
        bound = iobinding.outputs
        if not bound:
            raise NoValue("Error in execution: At least one output should be requested.")
        places = {n: v._array() for n, v in bound.items() if v is not None}
        try:
            chosen = self._chosen(list(bound))
            results = dict(zip(self.executable.output_names, self._run(iobinding.inputs, run_options, places)))
        except AnyshapeError as e:
            raise error(RuntimeException, f"Error in execution: {e}") from e
        iobinding._take({n: OrtValue(results[n]) for n in chosen if n not in places})

    @entry
    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: Any = -1
    ) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    # --- profiles

    @entry
    def end_profiling(self) -> str:
        """Writes the profile and returns the name of the file; empty where profiling is not enabled."""
        if self._profiler is None:
            return ""
        profiler, self._profiler = self._profiler, None
        return profiler.write()

    @entry
    def get_profiling_start_time_ns(self) -> int:
        return 0 if self._profiler is None else self._profiler.start

    # --- inside

    @property
    def feedable(self) -> tuple[str, ...]:
        """Names of inputs, those with defaults included."""
        return (*self.executable.input_names, *self._defaults)

    def _compiled(self, model: Any) -> Executable:
        """Compiles a model, with errors by onnxruntime's names for what a model can be."""
        try:
            executable = compile(model, self._dims, **self._options)
        except TypeRelationError as e:
            raise error(Fail, e) from e
        except UnsupportedError as e:
            raise error(InvalidGraph if is_undeclared(e) else NotImplemented, e) from e
        except ModelError as e:
            raise error(InvalidArgument, e) from e
        self._memory.arenas.add(executable)
        return executable

    def _chosen(self, output_names: Sequence[str] | None) -> Sequence[str]:
        names = self.executable.output_names
        if isinstance(output_names, str):
            raise WrongKind(
                f"InferenceSession.run: output_names must be a list of names or None, got {short(output_names)}"
            )
        unknown = [n for n in output_names or () if n not in names]
        if unknown:
            raise error(
                InvalidArgument,
                f"Invalid output name: there is no output {', '.join(unknown)}; the outputs are {', '.join(names)}",
            )
        return output_names or names

    def _demand_inputs(self, feed: Mapping[str, Any]) -> None:
        missing = [n for n in self.executable.input_names if n not in feed]
        if missing:
            raise error(
                InvalidArgument, f"Required inputs ({missing}) are missing from input feed ({short(list(feed))})."
            )

    def _run(
        self, feed: Mapping[str, Any], run_options: RunOptions | None, places: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Runs on all inputs; the overridden defaults among them choose the executable."""
        self._demand_inputs(feed)
        executable = self._executable_for(frozenset(feed.keys() & set(self._defaults)))
        strange = [n for n in feed if n not in executable.input_names]
        if strange:
            raise error(InvalidArgument, f"Invalid input name: {strange[0]}; the inputs are {', '.join(self.feedable)}")
        types = dict(zip(executable.input_names, executable.input_types))
        arguments = {n: argument(v, types[n]) for n, v in feed.items()}
        try:
            return self._run_by(executable, arguments, run_options, places)
        except ShapeError as e:
            if misfits(arguments, types):
                raise error(InvalidArgument, e) from e
            names = unequal_dims(arguments, types) if executable is self.executable and self._source is not None else []
            if not names:
                raise translated(e) from e
            ignored(f"that the model names dims of several inputs {', '.join(names)}", "a call has unequal ones")
            try:
                independent = self._with_independent_dims()
            except AnyshapeError:
                raise translated(e) from e
            try:
                return self._run_by(independent, arguments, run_options, places)
            except ShapeError:
                raise translated(e) from e

    def _run_by(
        self,
        executable: Executable,
        arguments: Mapping[str, Any],
        run_options: RunOptions | None,
        places: Mapping[str, Any] | None,
    ) -> list[Any]:
        """Runs an executable with the limits of memory and the options of the run."""
        try:
            if self._memory.is_unlimited and (run_options is None or not run_options._shrinks):
                if run_options is not None:
                    executable = run_options._heed(executable, self._memory.arenas)
                return self._timed(executable, arguments, places)
            with self._memory.call(executable, arguments, places or {}, run_options) as running:
                return self._timed(running, arguments, places)
        except Cancelled as e:
            raise error(Fail, "Exiting due to terminate flag being set to true.") from e

    def _timed(
        self, executable: Executable, arguments: Mapping[str, Any], places: Mapping[str, Any] | None
    ) -> list[Any]:
        """Runs, with times where the session has a profile."""
        if self._profiler is not None:
            return self._profiler.timed(lambda: executable.run(arguments, places))
        return executable.run(arguments, places)

    def _with_independent_dims(self) -> Executable:
        """The executable of the model for sizes that are unequal where inputs name them alike, as onnxruntime runs it."""
        with self._lock:
            if self._independent is None:
                assert self._source is not None
                self._independent = self._compiled(with_independent_dims(self._source, self._dims))
            return self._independent

    def _executable_for(self, overridden: frozenset[str]) -> Executable:
        """The executable that takes these inputs besides those without a default."""
        if not overridden:
            return self.executable
        with self._lock:
            if overridden not in self._overriding:
                assert self._source is not None
                self._overriding[overridden] = self._compiled(without_defaults(self._source, overridden))
            return self._overriding[overridden]
