"""Allocators of the environment: a limit on the bytes that calls of sessions which use one may have at once.

In: `create_and_register_allocator`, with an OrtMemoryInfo and an OrtArenaCfg. Out: `registered`, the allocator that new sessions of
`session.use_env_allocators` take. There is one for the CPU, and the last one that was registered is it, as in onnxruntime.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from anyshape.onnxruntime.arenas import Arenas
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented, NoValue, WrongKind, error
from anyshape.onnxruntime.log import ignored
from anyshape.onnxruntime.options import UnknownOption
from anyshape.onnxruntime.providers import PROVIDER
from anyshape.onnxruntime.translation import entry
from anyshape.onnxruntime.values import OrtAllocatorType, OrtMemType
from anyshape.public import short
from anyshape.vm import Executable

_INT = range(-(1 << 31), 1 << 31)
_FIELDS = {
    "max_mem": range(1 << 64), "arena_extend_strategy": _INT, "initial_chunk_size_bytes": _INT, "max_dead_bytes_per_chunk": _INT,
    "initial_growth_chunk_size_bytes": _INT, "max_power_of_two_extend_bytes": _INT,
}  # fmt: skip
"""Numbers that each attribute of an OrtArenaCfg takes"""
_POSITIONAL = 4
_STRATEGIES = (-1, 0, 1)


class OrtArenaCfg:
    """Configuration of an arena: `OrtArenaCfg(max_mem, arena_extend_strategy, initial_chunk_size_bytes, max_dead_bytes_per_chunk)`, or of a
    dict of these and others. `max_mem` has an effect: the most bytes, 0 for no limit."""

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    @entry
    def __init__(self, *args: Any) -> None:
        said = args[0] if len(args) == 1 else dict(zip(_FIELDS, args))
        if not isinstance(said, dict) or len(args) not in (1, _POSITIONAL):
            raise WrongKind(f"OrtArenaCfg takes {', '.join(list(_FIELDS)[:_POSITIONAL])}, or a dict, got {short(args)}")
        for name in _FIELDS:
            object.__setattr__(self, name, 0 if name == "max_mem" else -1)
        try:
            for name, value in said.items():
                self.__setattr__(name, value)
        except (UnknownOption, WrongKind) as e:
            raise e if len(args) > 1 else NoValue(f"Invalid OrtArenaCfg option: {e}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _FIELDS:
            raise UnknownOption(f"OrtArenaCfg has no attribute {short(name)}; it has {', '.join(_FIELDS)}")
        numbers = _FIELDS[name]
        if not isinstance(value, int | np.integer) or int(value) not in numbers:
            raise WrongKind(f"OrtArenaCfg.{name} must be an int from {numbers[0]} to {numbers[-1]}, got {short(value)}")
        object.__setattr__(self, name, int(value))


class OrtMemoryInfo:
    """Memory that an allocator gives: that of the CPU, which is one device, whatever `device_id` says."""

    @entry
    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        if name != "Cpu":
            raise NoValue(f"Specified device is not supported: anyshape runs on the CPU, 'Cpu', got {short(name)}")
        self.name, self.allocator_type, self.mem_type = name, allocator_type, mem_type
        self.device_id = self.device_vendor_id = 0

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED_INFO:
            raise error(NotImplemented, f"OrtMemoryInfo.{name}: {REFUSED_INFO[name]}")
        raise UnknownOption(f"OrtMemoryInfo has no attribute {name!r}")


REFUSED_INFO = dict.fromkeys(("create_v2", "device_mem_type"), "there is one device, the CPU")
"""Attributes of onnxruntime's OrtMemoryInfo that are refused, and why"""


class EnvironmentAllocator:
    """Counts the bytes of calls that are under way, and refuses those beyond `limit`; 0 is no limit. Arenas that other
    models keep are released before they and the calls exceed it."""

    def __init__(self, limit: int, *, is_arena: bool) -> None:
        self.limit, self.is_arena = limit, is_arena
        self._arenas = Arenas()
        self._used = 0
        self._lock = threading.Lock()

    def reserve(self, size: int, executable: Executable) -> int | None:
        """Takes bytes for a call, or gives back, where the size is negative. Returns None, or how many bytes are in use where there are too
        few left, and then takes none."""
        with self._lock:
            used = self._used + size
            if size > 0 and used > self.limit:
                return self._used
            self._used = used
        self._arenas.add(executable)
        if size > 0 and used + self._arenas.bytes_beside(executable) > self.limit:
            self._arenas.release()
        return None


_registered: list[EnvironmentAllocator] = []


def registered() -> EnvironmentAllocator | None:
    """The environment's allocator for the CPU, if one was registered."""
    return _registered[-1] if _registered else None


@entry
def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Registers an allocator for sessions that are made afterwards, in place of an earlier one. Raises an error, a RuntimeError, for a
    strategy that there is not."""
    limit, is_arena = 0, mem_info.allocator_type is OrtAllocatorType.ORT_ARENA_ALLOCATOR
    if arena_cfg is not None:
        if arena_cfg.arena_extend_strategy not in _STRATEGIES:
            raise NoValue(
                f"OrtArenaCfg.arena_extend_strategy must be -1, 0 or 1, got {arena_cfg.arena_extend_strategy}"
            )
        for name in list(_FIELDS)[1:]:
            if getattr(arena_cfg, name) != -1:
                ignored(f"OrtArenaCfg.{name}", "arenas are as large as the plan of a model needs")
        if arena_cfg.max_mem and not is_arena:
            ignored("OrtArenaCfg.max_mem", f"an allocator of type {mem_info.allocator_type.name} has no arena")
        limit = arena_cfg.max_mem if is_arena else 0
    _registered[:] = [EnvironmentAllocator(limit, is_arena=is_arena)]


@entry
def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None
) -> None:
    """Registers an allocator for the CPU's provider, as `create_and_register_allocator` does."""
    if provider_type != PROVIDER:
        raise NoValue(f"{provider_type} is not implemented in CreateAndRegisterAllocatorV2(): anyshape has {PROVIDER}")
    for name in options:
        ignored(f"the option {name!r} of an allocator", "the CPU provider has none")
    create_and_register_allocator(mem_info, arena_cfg)
