"""What calls a program: arguments, memory, and what walks the table."""
