"""The virtual machine: programs, what makes them from schedules, what runs them, and `compile`.

In: functions. Out: executables. Rooms, each of which imports those before it alone:

    program       one table of 64-bit words, its text, how its memory is laid out
    report        what a compile did, for people
    run           what calls a program: arguments, memory, the interpreter
    native        the table walked by machine code
    compiling     from a function to programs: liveness, memory, instructions, kernels
    export        an object file and a C header of a model
    executable    compiled models, saved files, profiles

    compile(model, dims=None, **options) -> Executable      a Function, or an ONNX path, bytes or proto; options are those of `Options`
    exe(*arrays, **named)  exe.run({name: array}, outputs=None)      exe.report, exe.memory, exe.input_types, exe.output_names
    generate(schedule, kernel_maker, assumed) -> Program

A dim of an argument that is a single symbol defines it; a symbol in `Value.contents` is loaded from the first value that holds it; for one
that nothing defines compile raises UnsupportedError. All executors agree to the last bit.
"""

from anyshape.vm.compiling.options import Options
from anyshape.vm.executable.entry import compile
from anyshape.vm.executable.executable import Executable
from anyshape.vm.program.disassemble import disassemble
from anyshape.vm.program.table import Program

__all__ = ["Executable", "Options", "Program", "compile", "disassemble"]
