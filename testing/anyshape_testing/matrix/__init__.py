"""Tests of the laws: small ops, right ones and wrong ones, and which law notices which (docs/testing.md)."""
