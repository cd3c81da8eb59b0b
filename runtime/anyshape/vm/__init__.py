"""The virtual machine: programs, what makes them from schedules, what runs them, and `compile`.

In: functions. Out: executables. Rooms: `program` (one table of 64-bit words, its text and its verifier), `compiling` (from a function to
programs: liveness, memory, instructions, kernels), `run` (what calls a program), `native` (the table walked by machine code), `saved`
(executables as files), `report` (what a compile did and what a call takes, for people). `docs/vm.md` is the page.

    compile(model, dims=None, **options) -> Executable      a Function, or an ONNX path, bytes or proto; options are those of `Options`
    exe(*arrays, **named)  exe.run({name: array}, outputs=None)      exe.report, exe.memory, exe.input_types, exe.output_names
    generate(schedule, kernel_maker, assumed) -> Program

An entry dim that is a bare symbol binds it; a symbol in `Value.contents` is loaded from the first value that holds it; one that nothing
defines is an UnsupportedError. All executors agree to the last bit.
"""

from anyshape.vm.compiling.options import Options
from anyshape.vm.program.disassemble import disassemble
from anyshape.vm.program.table import Program
from anyshape.vm.run.executable import Executable, compile

__all__ = ["Executable", "Options", "Program", "compile", "disassemble"]
