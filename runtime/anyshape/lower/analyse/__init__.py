"""What the forms of equations say: costs, loops that are one in memory, windows, iterations that do nothing."""
