"""Support of calls: checks of arguments, arenas, destinations, the interpreter, and messages that the native loop shares with it."""
