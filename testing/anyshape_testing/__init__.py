"""Tests every op by laws (properties) on random calls; tests the laws themselves; mutates specs; and generates random programs."""
