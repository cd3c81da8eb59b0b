"""Compiled models: `compile`, what it returns, its memory and profile for people, and saved files."""
