"""Generates `generated/` from `specs/*.yaml`: `parse` reads, `resolve` infers, `check` refuses, `emit` writes, `bounds` proves. `editor` is
what editors show of a spec that is being written, `doctor` checks what is installed, and a package.

analysis   parses, checks and resolves all files, in `analyse`; an `Analysis` is all that emitters need
memo       results of steps, in this process and on disk
schema     the JSON Schema of spec files
mutants    an op with one change, which its tests must notice
write      generated files against those on disk
wheel      the wheel of a generated package
torch_kernels  the compiled kernels that a wheel of operators of torch carries
watch      generates and tests again after every save
arguments  the arguments of the command
generation  all files of a package, in memory
new_package  the repository of a new package
cli        the command, which `__main__` runs
"""
