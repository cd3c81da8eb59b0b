"""Scripts about memory that are written for onnxruntime, as those of `scripts.py`: allocators of the environment, and arenas."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.dropin.scripts import CHAIN, Script, session

MAX_MEM = 1 << 20
FITS, EXCEEDS = 1_000, 100_000
"""Rows of four f32 numbers: of the second, one value alone exceeds the limit"""


def rows(n: int) -> np.ndarray[Any, Any]:
    return np.ones((n, 4), np.float32)


def memory_info(ort: Any, kind: str = "ORT_ARENA_ALLOCATOR", number: int = 0, memory: str = "DEFAULT") -> Any:
    return ort.OrtMemoryInfo("Cpu", getattr(ort.OrtAllocatorType, kind), number, getattr(ort.OrtMemType, memory))


def register(ort: Any, limit: int = MAX_MEM, *info: Any) -> None:
    ort.create_and_register_allocator(memory_info(ort, *info), ort.OrtArenaCfg(limit, 1, -1, -1))


def in_environment(ort: Any, proto: onnx.ModelProto = CHAIN, entry: str = "1", arena: bool = True) -> Any:
    """A session of the environment's allocator."""
    o = ort.SessionOptions()
    o.add_session_config_entry("session.use_env_allocators", entry)
    o.enable_cpu_mem_arena = arena
    return session(ort, proto, sess_options=o)


def shrinking(ort: Any, listed: str = "cpu:0") -> Any:
    o = ort.RunOptions()
    o.add_run_config_entry("memory.enable_memory_arena_shrinkage", listed)
    return o


def run(s: Any, n: int, *options: Any) -> Any:
    return s.run(None, {"x": rows(n)}, *options)


def limited(ort: Any, n: int, *info: Any, limit: int = MAX_MEM, **keywords: Any) -> Any:
    register(ort, limit, *info)
    return run(in_environment(ort, **keywords), n)


def fits_after_refusal(ort: Any) -> Any:
    register(ort)
    s = in_environment(ort)
    try:
        run(s, EXCEEDS)
    except Exception as e:
        return type(e).__name__, str(e).split(" : ")[:3], run(s, FITS)
    raise AssertionError("a run exceeded the limit")


def registered_again(ort: Any, *infos: tuple[Any, ...]) -> Any:
    register(ort)
    for i in infos:
        register(ort, *i)
    return run(in_environment(ort), EXCEEDS)


def registered_late(ort: Any) -> Any:
    register(ort, 0)
    s = in_environment(ort)
    register(ort)
    return run(s, EXCEEDS)


def changed_late(ort: Any) -> Any:
    """Changes a configuration after it was registered."""
    c = ort.OrtArenaCfg(MAX_MEM, 1, -1, -1)
    ort.create_and_register_allocator(memory_info(ort), c)
    c.max_mem = 0
    return run(in_environment(ort), EXCEEDS)


def bound(ort: Any, n: int, *, place: bool) -> Any:
    register(ort)
    s, x, y = in_environment(ort), rows(n), rows(n)
    binding = s.io_binding()
    binding.bind_cpu_input("x", x)
    if place:
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    else:
        binding.bind_output("y")
    s.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def configuration(ort: Any, *arguments: Any, **values: Any) -> Any:
    c = ort.OrtArenaCfg(*arguments)
    for name, value in values.items():
        setattr(c, name, value)
    return (c.max_mem, c.arena_extend_strategy, c.initial_chunk_size_bytes, c.max_dead_bytes_per_chunk,
            c.initial_growth_chunk_size_bytes, c.max_power_of_two_extend_bytes)  # fmt: skip


def info_of(i: Any) -> Any:
    return i.name, i.allocator_type.name, i.device_id, i.mem_type.name, i.device_vendor_id


ALL = {"max_mem": 9, "arena_extend_strategy": 1, "initial_chunk_size_bytes": 2, "max_dead_bytes_per_chunk": 3,
       "initial_growth_chunk_size_bytes": 4, "max_power_of_two_extend_bytes": 5}  # fmt: skip
SHRUNK = ("cpu:0", "cpu", "cpu:0;cpu:0", "cpu:0;", "cpu:0:0", "", "gpu:0", "cpu:1", "cpu:-1", "Cpu:0", "cpu:x", " cpu:0", "cpu:0 ",
          "nope:0", ";", ":", "cpu:0;gpu:0", ";cpu:0")  # fmt: skip
CONFIGURED: dict[str, tuple[Any, ...]] = {
    "four numbers": (1 << 20, 0, 1024, -1), "defaults": (0, -1, -1, -1), "a truth": (True, 0, 0, 0),
    "all of 64 bits": ((1 << 64) - 1, 0, 0, 0),
    "a number of NumPy": (np.int64(5), 0, 0, 0), "a dict": ({"max_mem": 10},), "an empty dict": ({},), "all keys": (ALL,),
    "no arguments": (), "one number": (0,), "five numbers": (0, 0, 0, 0, 0), "None": (None,), "a negative limit": (-1, 0, 0, 0),
    "a fraction": (1.5, 0, 0, 0), "a text": ("a", 0, 0, 0), "65 bits": (1 << 64, 0, 0, 0), "more than 32 bits": (0, 0, 1 << 40, 0),
    "an unknown key": ({"nope": 1},), "a key of no text": ({1: 2},), "a negative limit in a dict": ({"max_mem": -1},),
    "a text in a dict": ({"max_mem": "10"},), "a fraction in a dict": ({"max_mem": 1.5},),
}  # fmt: skip
MEMORY: dict[str, Script] = {
    **{f"configured: {name}": lambda ort, _, a=a: configuration(ort, *a) for name, a in CONFIGURED.items()},
    **{f"shrunk: {listed!r}": lambda ort, _, listed=listed: run(session(ort), 3, shrinking(ort, listed)) for listed in SHRUNK},
    "configured anew": lambda ort, _: configuration(ort, {}, max_mem=7, arena_extend_strategy=0),
    "configured to less than nothing": lambda ort, _: configuration(ort, {}, max_mem=-7),
    "configured by another name": lambda ort, _: configuration(ort, {}, nope=1),
    "configured by name": lambda ort, _: ort.OrtArenaCfg(max_mem=1, arena_extend_strategy=0),
    "info": lambda ort, _: info_of(memory_info(ort)),
    "info of another number": lambda ort, _: info_of(memory_info(ort, "ORT_DEVICE_ALLOCATOR", 3, "CPU_INPUT")),
    "info of a device nobody has": lambda ort, _: ort.OrtMemoryInfo("Nope", ort.OrtAllocatorType.INVALID, 0, ort.OrtMemType.DEFAULT),
    "info of numbers": lambda ort, _: ort.OrtMemoryInfo("Cpu", 1, 0, 0),
    "info of a name": lambda ort, _: ort.OrtMemoryInfo("Cpu"),
    "info of a fraction": lambda ort, _: ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.INVALID, 0.5, ort.OrtMemType.DEFAULT),
    "register nothing": lambda ort, _: ort.create_and_register_allocator(),
    "register numbers": lambda ort, _: ort.create_and_register_allocator(1, 2),
    "register without a configuration": lambda ort, _: ort.create_and_register_allocator(memory_info(ort)),
    "register None": lambda ort, _: ort.create_and_register_allocator(memory_info(ort), None),
    "register for a provider": lambda ort, _: (
        ort.create_and_register_allocator_v2("CPUExecutionProvider", memory_info(ort), {}, ort.OrtArenaCfg(MAX_MEM, 1, -1, -1)),
        run(in_environment(ort), EXCEEDS),
    ),
    "register for a provider nobody has": lambda ort, _: ort.create_and_register_allocator_v2("Nope", memory_info(ort), {}, None),
    "register for a provider, of wrong kinds": lambda ort, _: ort.create_and_register_allocator_v2(
        "CPUExecutionProvider", memory_info(ort), {1: 2}, None
    ),
    "fits": lambda ort, _: limited(ort, FITS),
    "exceeds": lambda ort, _: limited(ort, EXCEEDS),
    "exceeds, then fits": lambda ort, _: fits_after_refusal(ort),
    "no limit": lambda ort, _: limited(ort, EXCEEDS, limit=0),
    "no entry": lambda ort, _: limited(ort, EXCEEDS, entry="0"),
    "an entry that is not 1": lambda ort, _: limited(ort, EXCEEDS, entry="true"),
    "no arena in the session": lambda ort, _: limited(ort, EXCEEDS, arena=False),
    "an allocator without arena": lambda ort, _: limited(ort, EXCEEDS, "ORT_DEVICE_ALLOCATOR"),
    "another number": lambda ort, _: limited(ort, EXCEEDS, "ORT_ARENA_ALLOCATOR", 3),
    "other memory": lambda ort, _: limited(ort, EXCEEDS, "ORT_ARENA_ALLOCATOR", 0, "CPU_INPUT"),
    "registered again": lambda ort, _: registered_again(ort, (0,)),
    "registered again by another number": lambda ort, _: registered_again(ort, (0, "ORT_ARENA_ALLOCATOR", 3)),
    "registered again without arena": lambda ort, _: registered_again(ort, (MAX_MEM, "ORT_DEVICE_ALLOCATOR")),
    "registered again and again": lambda ort, _: registered_again(ort, (0, "ORT_DEVICE_ALLOCATOR"), (MAX_MEM,)),
    "registered late": lambda ort, _: registered_late(ort),
    "changed late": lambda ort, _: changed_late(ort),
    "bound": lambda ort, _: bound(ort, FITS, place=False),
    "bound, exceeds": lambda ort, _: bound(ort, EXCEEDS, place=False),
    "shrunk without arena": lambda ort, _: run(session(ort, sess_options=_without_arena(ort)), 3, shrinking(ort)),
    "without arena": lambda ort, _: run(session(ort, sess_options=_without_arena(ort)), 3),
    "shrunk in the environment": lambda ort, _: (register(ort), run(in_environment(ort, arena=False), 3, shrinking(ort))),
    "shrunk in an environment without arena": lambda ort, _: (
        register(ort, 0, "ORT_DEVICE_ALLOCATOR"), run(in_environment(ort), 3, shrinking(ort)),
    ),
}  # fmt: skip


def _without_arena(ort: Any) -> Any:
    o = ort.SessionOptions()
    o.enable_cpu_mem_arena = False
    return o
