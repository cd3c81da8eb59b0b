"""Exported models as whole C programs: compiled by a C compiler, run as processes, for this machine or by an emulator for another one.

In: an `Export` and a `Toolchain`. Out: a program that reads sizes and inputs from its standard input and writes outputs to its standard
output. It gives each call as much memory as the status asks for. Of an export for several levels, its argument is the number of the level
that it chooses, and it says on standard error which one it runs.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.vm.export import Export, export_target
from anyshape.vm.export.tensor_code import code_of, has_codes
from anyshape_testing.exports.loaded import sizes

Array = NDArray[Any]


@dataclass(frozen=True)
class Toolchain:
    """`compile` is a C compiler for a target, `run` what programs are run by."""

    target: str
    compile: tuple[str, ...]
    run: tuple[str, ...] = ()


def zig(triple: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ziglang", "cc", f"--target={triple}", "-O1")


def toolchain(target: str) -> Toolchain | None:
    """What compiles and runs programs of a target here, or None: `cc` for this machine, else the package ziglang, and an emulator."""
    has_zig = importlib.util.find_spec("ziglang") is not None
    own = shutil.which("cc")
    if export_target(target).architecture == "x86_64" and own is not None:
        return Toolchain(target, (own, "-O1", "-Wall", "-Wextra", "-Werror", "-std=c11"))
    emulators = {
        "aarch64-linux-gnu": ("qemu-aarch64", "aarch64-linux-musl"),
        "riscv64-linux-gnu": ("qemu-riscv64", "riscv64-linux-musl"),
    }
    if target in emulators and has_zig and (emulator := shutil.which(emulators[target][0])):
        return Toolchain(target, (*zig(emulators[target][1]), "-static"), (emulator,))
    if target == "wasm32" and has_zig and importlib.util.find_spec("wasmtime") is not None:
        return Toolchain(target, zig("wasm32-wasi"), (sys.executable, str(Path(__file__).with_name("wasm.py"))))
    return None


def source(export: Export) -> str:
    """The text of the program."""
    m = export.interface
    return f"""\
#include "{m.name}.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

{_ROOM}{_OF_FILE if export.weights.is_file else ""}
int main(int count, char **words) {{
  (void)count, (void)words;
{_inputs(export)}{_level(export) if export.target.several else ""}{_calls(export)}{_tensors(export) if has_codes(m) else ""}
  for (int k = 0; k < {len(m.outputs)}; k++) {{
    uint64_t n = sizes[k];
    for (int a = 0; a < ranks[k]; a++) n *= (uint64_t)shapes[k][a];
    fwrite(shapes[k], 8, ranks[k], stdout);
    fwrite(outputs[k].data, 1, n, stdout);
  }}
  return 0;
}}
"""


_ROOM = """\
static void *room(uint64_t n) { /* at a multiple of 64 bytes */
  char *p = malloc(n + 64);
  if (!p) exit(3);
  return p + (64 - (uintptr_t)p % 64) % 64;
}
static void take(void *to, uint64_t n) {
  if (n && fread(to, 1, n, stdin) != n) exit(4);
}
"""


def _inputs(export: Export) -> str:
    """Declares the variables of `main`, and reads dims and inputs."""
    m, count = export.interface, len(export.interface.dims)
    ranks = ", ".join(str(t.rank) for t in m.outputs)
    sizes_of = ", ".join(str(t.dtype.itemsize) for t in m.outputs)
    read_weights = f'void *weights = of_file("{m.name}.weights");' if export.weights.is_file else ""
    return f"""\
  static const int ranks[] = {{{ranks}}}, sizes[] = {{{sizes_of}}};
  int64_t d[{max(count, 1)}] = {{0}}, shapes[{len(m.outputs)}][{max([t.rank for t in m.outputs] + [1])}] = {{{{0}}}};
  const void *inputs[{max(len(m.inputs), 1)}] = {{0}};
  anyshape_output outputs[{len(m.outputs)}];
  anyshape_status status;
  {read_weights}
  take(d, 8 * {count});
  static int64_t input_shapes[{max(len(m.inputs), 1)}][{max([t.rank for t in m.inputs] + [1])}];
  static const int input_ranks[] = {{{", ".join(str(t.rank) for t in m.inputs) or "0"}}};
  for (int k = 0; k < {len(m.inputs)}; k++) {{
    uint64_t n;
    take(input_shapes[k], 8 * input_ranks[k]);
    take(&n, 8);
    void *to = room(n);
    take(to, n);
    inputs[k] = to;
  }}
"""


def _level(export: Export) -> str:
    """Chooses the level of the first argument, if there is one; the program ends with 2 where it refuses."""
    name = export.interface.name
    return f"""\
  if (count > 1 && {name}_choose(atoi(words[1]), &status)) {{
    fprintf(stderr, "%s", status.text);
    return 2;
  }}
  if ({name}_level()) fprintf(stderr, "%s", {name}_level());
"""


def _calls(export: Export) -> str:
    """Calls the model with as much memory as it asks for; the program ends with 2 where it refuses, its words on standard error."""
    m = export.interface
    dims = [f"d[{k}]" for k, _ in enumerate(m.dims)]
    passed = "".join(f"{d}, " for d in dims)
    weights = "weights, " if export.weights.is_file else ""
    return f"""\
  uint64_t arena_bytes = {m.name}_arena_bytes({", ".join(dims)});
  if ({m.name}_check({passed}&status)) {{
    fprintf(stderr, "%s", status.text);
    return 2;
  }}
  void *arena = room(arena_bytes);
  for (int k = 0; k < {len(m.outputs)}; k++) {{
    if ({m.name}_output_shape(k, {passed}shapes[k], &status)) return 5;
    uint64_t n = sizes[k];
    for (int a = 0; a < ranks[k]; a++) n *= shapes[k][a] < 0 ? 0 : (uint64_t)shapes[k][a];
    outputs[k] = (anyshape_output){{room(n), n, shapes[k]}};
  }}
  while ({m.name}_run(arena, arena_bytes, {weights}inputs, outputs, {passed}&status)) {{
    if (status.code == ANYSHAPE_OUTPUT) {{
      outputs[status.output].data = room(status.needed);
      outputs[status.output].bytes = status.needed;
    }} else if (status.code == ANYSHAPE_ARENA && status.needed < 1u << 30) {{
      arena = room(arena_bytes = 2 * status.needed);
    }} else {{
      fprintf(stderr, "%s", status.text);
      return 2;
    }}
  }}
"""


def _tensors(export: Export) -> str:
    """Writes the call of the function with tensors; the program ends with 7 or 8 where it fails or gives other bits."""
    m = export.interface
    weights = "weights, " if export.weights.is_file else ""
    codes = [code_of(t.dtype) for t in m.inputs], [code_of(t.dtype) for t in m.outputs]
    inputs, outputs = (", ".join(f"{{{c[0]}, {c[1]}}}" for c in row if c is not None) for row in codes)
    return f"""\
  static const uint8_t codes_in[][2] = {{{inputs or "{0, 0}"}}}, codes_out[][2] = {{{outputs}}};
  anyshape_tensor in[{max(len(m.inputs), 1)}], out[{len(m.outputs)}];
  for (int k = 0; k < {len(m.inputs)}; k++)
    in[k] = (anyshape_tensor){{(void *)inputs[k], 1, 0, input_ranks[k], codes_in[k][0], codes_in[k][1], 1, input_shapes[k], 0, 0}};
  for (int k = 0; k < {len(m.outputs)}; k++) {{
    uint64_t n = sizes[k];
    for (int a = 0; a < ranks[k]; a++) n *= (uint64_t)shapes[k][a];
    out[k] = (anyshape_tensor){{(char *)room(n + 16), 1, 0, ranks[k], codes_out[k][0], codes_out[k][1], 1, shapes[k], 0, 16}};
  }}
  if ({m.name}_run_tensors(0, arena, arena_bytes, {weights}in, out, &status)) {{
    fprintf(stderr, "%s", status.text);
    return 7;
  }}
  for (int k = 0; k < {len(m.outputs)}; k++) {{
    uint64_t n = sizes[k];
    for (int a = 0; a < ranks[k]; a++) n *= (uint64_t)shapes[k][a];
    if (memcmp((char *)out[k].data + 16, outputs[k].data, n)) return 8;
  }}
"""


_OF_FILE = """\
static void *of_file(const char *name) {
  FILE *f = fopen(name, "rb");
  if (!f || fseek(f, 0, SEEK_END)) exit(6);
  long n = ftell(f);
  void *p = room(n);
  rewind(f);
  if (fread(p, 1, n, f) != (size_t)n) exit(6);
  fclose(f);
  return p;
}"""


class CProgram:
    """A compiled program of a model, in a folder."""

    def __init__(self, export: Export, tools: Toolchain, folder: Path) -> None:
        self.export, self.tools, self.folder = export, tools, folder
        export.write(folder)
        text, self.path = folder / "main.c", folder / "main"
        text.write_text(source(export))
        words = [*tools.compile, str(text), str(folder / f"{export.name}.o"), "-o", str(self.path)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr[-4000:]}"

    def __call__(self, *inputs: Array) -> list[Array]:
        """Runs the program. Raises RuntimeError with the text of the status."""
        return self._outputs(self._run(inputs, ()).stdout)

    def at_level(self, number: int | None, *inputs: Array) -> tuple[str, list[Array]]:
        """Runs the program at a level, or at the one that it chooses; the name of the level, and the outputs."""
        done = self._run(inputs, () if number is None else (str(number),))
        return done.stderr.decode().rpartition("\n")[2], self._outputs(done.stdout)  # an emulator may warn before

    def _run(self, inputs: Sequence[Array], arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        m = self.export.interface
        words = struct.pack(f"<{len(m.dims)}q", *sizes(m, inputs))
        for a in inputs:
            words += struct.pack(f"<{a.ndim}qQ", *a.shape, a.nbytes) + a.tobytes()
        command = [*self.tools.run, str(self.path), *arguments]
        done = subprocess.run(command, input=words, capture_output=True, cwd=self.folder)
        if done.returncode == 2:
            raise RuntimeError(done.stderr.decode())
        assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
        return done

    def _outputs(self, written: bytes) -> list[Array]:
        results, at = list[Array](), 0
        for t in self.export.interface.outputs:
            shape: Sequence[int] = struct.unpack_from(f"<{t.rank}q", written, at)
            at += 8 * t.rank
            count = int(np.prod(shape, dtype=np.int64))
            results.append(np.frombuffer(written, t.dtype.numpy, count, at).reshape(shape))
            at += count * t.dtype.itemsize
        assert at == len(written)
        return results
