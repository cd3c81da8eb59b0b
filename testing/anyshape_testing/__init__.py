"""The laws of every op, run on random calls; tests of these laws, mutation of specs, and random programs."""
