"""The graph that is scheduled: nodes, accesses, and what equations become in it."""
