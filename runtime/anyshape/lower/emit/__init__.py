"""The schedule tree as code, by way of the instructions of `lower/llvm`."""
