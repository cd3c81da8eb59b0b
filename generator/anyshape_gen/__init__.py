"""Generates `generated/` from `specs/*.yaml`: `yaml_source` and `parse_*` parse, `check*` check, `analysis` resolves, `emit` writes.

`analysis.analyse` returns all that emitters need; `cli` is the command.
"""
