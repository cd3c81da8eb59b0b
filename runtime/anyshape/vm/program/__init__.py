"""Programs: the table of instructions and its objects, its text, lists in memory, and where values lie."""
