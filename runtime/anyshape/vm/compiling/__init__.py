"""From a function to programs: schedules, what has to run, where values lie, instructions and kernels."""
