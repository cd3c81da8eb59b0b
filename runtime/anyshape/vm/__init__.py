"""The virtual machine: programs, what makes them from schedules, what runs them, and `compile`.

In: functions. Out: executables. A program is one table of 64-bit words (`program`); shape functions are its scalar instructions
(`shape_code`), kernels are called by number (`kernels`), memory is planned once for all shapes (`memory`) and reused (`arena`).
"""

from anyshape.vm.compiling.options import Options
from anyshape.vm.program.disassemble import disassemble
from anyshape.vm.program.table import Program
from anyshape.vm.run.executable import Executable, compile

__all__ = ["Executable", "Options", "Program", "compile", "disassemble"]
