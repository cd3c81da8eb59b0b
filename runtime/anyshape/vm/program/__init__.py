"""Programs: the table of instructions and its objects, its text, and lists in memory."""
