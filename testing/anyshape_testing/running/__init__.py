"""Runs a law on random calls of an op.

    accounting      whether the calls were enough to say that the law holds
    counts          the calls of each law on each op, summarised and kept in a file
    trying          runs a law's body on calls, and counts them
    report          describes a call for which a law fails
    random_calls    draws and tries calls until they are enough; runs a law on one call again

`rerun` is what the scripts that failures print import from here.
"""

from anyshape_testing.running.random_calls import rerun as rerun
