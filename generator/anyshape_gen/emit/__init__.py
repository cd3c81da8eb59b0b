"""The generator's back end: one emitter for each output, a pure function from `Analysis` to {path: text}. None writes a file."""
