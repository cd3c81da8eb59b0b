"""`python …/exports/wasm.py FILE`: runs a program in WebAssembly (WASI) with the streams and the folder of this process."""

from __future__ import annotations

import sys


def main(path: str) -> int:
    """Runs the program; its exit code."""
    from wasmtime import (  # type: ignore[import-not-found, unused-ignore]  # need not be installed
        Engine,
        ExitTrap,
        Linker,
        Module,
        Store,
        WasiConfig,
    )

    engine = Engine()
    linker, store, wasi = Linker(engine), Store(engine), WasiConfig()
    linker.define_wasi()
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir(".", ".")
    store.set_wasi(wasi)
    instance = linker.instantiate(store, Module.from_file(engine, path))
    try:
        instance.exports(store)["_start"](store)
    except ExitTrap as e:
        return int(e.code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
