"""The back half of the generator: one pure emitter per output, Analysis -> {path: text}; nothing here writes a file."""
