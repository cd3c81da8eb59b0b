"""Sets what a process that tests is limited to, and how it is tuned. Nothing here knows of ops.

profile         how many random calls a law is tested with, and the same draws in every run
time_budget     seconds for a law, after which it tries no more calls
time_limit      processor time of code that may not end
memory_limit    memory that a block may take
collector       the garbage collector where much lives to the end
frames          the interpreter's stack of frames
"""
