"""specs/*.yaml in, generated/ out. The pieces: `yaml_source` and `parse_*` read, `check*` judge, `analysis` resolves, `emit` writes.

`load_specs` in `analysis` gives emitters everything they need; `cli` is the command.
"""
