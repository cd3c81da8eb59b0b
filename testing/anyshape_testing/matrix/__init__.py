"""Tests the laws on small ops, correct ones and wrong ones: each law must notice the wrong ones it is meant for (docs/testing.md)."""
