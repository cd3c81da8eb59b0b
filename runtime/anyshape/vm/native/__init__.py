"""The native loop: the table of a program walked by machine code that was compiled once for all programs."""
