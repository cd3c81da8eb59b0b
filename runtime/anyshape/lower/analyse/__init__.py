"""Analyses of the graph: cost, contiguity, loops that collapse, windows, iterations that do nothing."""
