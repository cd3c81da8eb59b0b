"""Models and ops as C functions: values, memory, refusals, and whole C programs."""
