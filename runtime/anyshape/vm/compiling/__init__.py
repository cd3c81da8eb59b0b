"""Compilation of functions to programs: schedules, liveness, memory, instructions and kernels."""
