"""Code is generated with options of LLVM's that hold for our kernels only."""

from __future__ import annotations

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import _machine, _parsed, assembly
from anyshape.lower.llvm.types import I64
from anyshape.lower.target import Target, host_target
from anyshape.vm.export.targets import TARGETS


def shares(target: Target) -> str:
    """A kernel whose loop reads and writes at strides that are known at run time only: LLVM would make pointers of the addresses."""
    module = Module(target)
    with module.kernel("shares") as f:
        with f.for_range(0, f.args[4]) as loop:
            read = [f.load(f.gep(f.args[1], f.mul(loop.index, f.add(f.args[3], k)), I64), I64) for k in range(3)]
            f.store(f.add(f.add(read[0], read[1]), read[2]), f.gep(f.args[2], f.mul(loop.index, f.args[3]), I64))
        f.ret(f.convert("trunc", f.args[3], f.result))
    return module.text()


def as_others_generate(text: str, target: Target) -> str:
    return str(_machine(target).emit_assembly(_parsed(text, target)))


def test_options_are_those_of_the_process_again() -> None:
    target = host_target()
    text = shares(target)
    before, own = as_others_generate(text, target), assembly(text, target)
    assert as_others_generate(text, target) == before
    if target.triple.startswith("x86_64"):
        assert own != before


def test_processors_without_scaled_addresses_keep_the_pass() -> None:
    (arm,) = (t.processor for t in TARGETS.values() if t.processor.triple.startswith("aarch64"))
    text = shares(arm)
    assert assembly(text, arm) == as_others_generate(text, arm)
