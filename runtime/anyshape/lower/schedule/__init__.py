"""From one graph to a tree of loops and phases: products, recurrences, blocks of rows, shares of work."""
