"""SessionOptions and RunOptions: what is set is kept, what has an effect takes it where a session is made or run, the rest is logged
then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from anyshape.errors import AnyshapeError
from anyshape.onnxruntime.arenas import Arenas
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import Fail, NotImplemented, NoValue, WrongKind, error
from anyshape.onnxruntime.enumerations import EqualToIntegers, IntegerValued
from anyshape.onnxruntime.log import ignored
from anyshape.onnxruntime.translation import entry
from anyshape.public import fits, short, spell
from anyshape.vm import Executable


class GraphOptimizationLevel(EqualToIntegers):
    """How much onnxruntime rewrites a model; all of its levels are one here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(EqualToIntegers):
    """Whether onnxruntime runs nodes at the same time; here kernels share their work among threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntegerValued):
    """The order of nodes, which the compiler decides here."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class UnknownOption(AnyshapeError, AttributeError):
    """Raised where options have no attribute of a name."""


class _Settings:
    """Attributes of fixed names and kinds."""

    _defaults: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if name not in self._defaults:
            raise UnknownOption(f"{type(self).__name__} has no attribute {name!r}; it has {', '.join(self._defaults)}")
        kind = type(self._defaults[name])
        if kind is bool and fits(value, int):
            value = bool(value)
        if not fits(value, kind):
            raise WrongKind(f"{type(self).__name__}.{name} must be {spell(kind)}, got {short(value)}")
        object.__setattr__(self, name, value)

    def _changed(self) -> dict[str, Any]:
        """Attributes that are not what they are by default."""
        return {n: getattr(self, n) for n, value in self._defaults.items() if getattr(self, n) != value}


HEEDED = frozenset(
    (
        "enable_cpu_mem_arena",
        "enable_profiling",
        "intra_op_num_threads",
        "optimized_model_filepath",
        "profile_file_prefix",
    )
)
"""Options of a session that have an effect"""
USE_ENV_ALLOCATORS, SHRINKAGE = "session.use_env_allocators", "memory.enable_memory_arena_shrinkage"
"""Configuration entries that have an effect: one of a session, one of a run"""
TRUE_ANYWAY = frozenset(("use_deterministic_compute",))
"""Options that ask for what is always so: results do not depend on threads or on what ran before"""


class SessionOptions(_Settings):
    """Options of a session. `intra_op_num_threads`, `enable_cpu_mem_arena`, `enable_profiling`, `profile_file_prefix`,
    `optimized_model_filepath`, overrides of free dimensions and the entry `session.use_env_allocators` have an effect; others are named in
    the log when a session is made."""

    _defaults: ClassVar[Mapping[str, Any]] = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True, "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "inter_op_num_threads": 0, "intra_op_num_threads": 0,
        "log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False, "use_per_session_threads": True,
    }  # fmt: skip

    @entry
    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, str] = {}
        self._by_name: dict[str, int] = {}
        self._by_denotation: dict[str, int] = {}

    @entry
    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Makes the dims of this name a number."""
        self._by_name[name] = value

    @entry
    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Makes the dims of this denotation a number; each needs a name in the model."""
        self._by_denotation[denotation] = value

    @entry
    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    @entry
    def get_session_config_entry(self, key: str) -> str:
        return _entry_of(self._entries, key, "SessionOptions")

    @entry
    def register_custom_ops_library(self, path: str) -> None:
        raise error(
            Fail,
            f"{path}: operators in shared libraries are not called; declare the operator in YAML (docs/op-authors.md)",
        )

    @entry
    def has_providers(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED_OPTIONS:
            raise error(NotImplemented, f"SessionOptions.{name}: {REFUSED_OPTIONS[name]}")
        raise UnknownOption(f"SessionOptions has no attribute {name!r}")

    def _heed(self) -> None:
        """Logs what has been set and has no effect."""
        for name in self._changed().keys() - HEEDED - TRUE_ANYWAY:
            ignored(f"SessionOptions.{name}", "the compiler and its virtual machine have no such choice")
        _ignore_entries(self._entries, USE_ENV_ALLOCATORS)


REFUSED_OPTIONS = {
    **dict.fromkeys(
        ("add_initializer", "add_external_initializers", "add_external_initializers_from_files_in_memory"),
        "weights are those of the model; pass an input that has a default instead",
    ),
    **dict.fromkeys(
        ("add_provider", "add_provider_for_devices", "set_provider_selection_policy", "set_provider_selection_policy_delegate"),
        "there is one provider, CPUExecutionProvider",
    ),
    **dict.fromkeys(
        ("clear_ep_context_data_read_func", "set_ep_context_data_read_func", "set_load_cancellation_flag"),
        "a model is compiled in one step, by one provider",
    ),
}  # fmt: skip
"""Methods of onnxruntime's SessionOptions that are refused, and why"""


class RunOptions(_Settings):
    """Options of a run. Setting `terminate` stops runs with these options that are under way, in whatever threads, and refuses later
    ones."""

    terminate: bool
    _defaults: ClassVar[Mapping[str, Any]] = {
        "log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "only_execute_path_to_fetches": False, "terminate": False,
    }  # fmt: skip

    @entry
    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, str] = {}
        self._stoppable: WeakKeyDictionary[Executable, Executable] = WeakKeyDictionary()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and self.terminate:
            for executable in list(self._stoppable.values()):
                executable.cancel()

    @entry
    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    @entry
    def get_run_config_entry(self, key: str) -> str:
        return _entry_of(self._entries, key, "RunOptions")

    @entry
    def add_active_adapter(self, adapter: Any) -> None:
        raise error(NotImplemented, "RunOptions.add_active_adapter: adapters are not applied to weights")

    @property
    def _shrinks(self) -> bool:
        return bool(self._entries.get(SHRINKAGE))

    def _heed(self, executable: Executable, arenas: Arenas) -> Executable:
        """Checks `terminate`, logs what has no effect, and returns an executable of the same programs that these options can stop. A new
        one is added to `arenas`, those that a session releases."""
        for name in self._changed().keys() - {"terminate"}:
            ignored(f"RunOptions.{name}", "runs have no such choice")
        _ignore_entries(self._entries, SHRINKAGE)
        own = self._stoppable.get(executable)
        if own is None:
            o = executable.options
            own = self._stoppable.setdefault(
                executable, executable.by(threads=o.threads, loop="python" if o.loop == "python" else None)
            )
            arenas.add(own)
        if self.terminate:
            raise error(Fail, "Exiting due to terminate flag being set to true.")
        return own


def _ignore_entries(entries: Mapping[str, str], heeded: str) -> None:
    for key in entries:
        if key != heeded:
            ignored(f"the configuration entry {key!r}", "it speaks of parts that onnxruntime alone has")


def _entry_of(entries: Mapping[str, str], key: str, owner: str) -> str:
    if key not in entries:
        raise NoValue(f"{owner} does not have configuration with key: {key}")
    return entries[key]
