"""Ops as custom ops of onnxruntime: sessions, laws on examples, the check of the C interface, commands."""
