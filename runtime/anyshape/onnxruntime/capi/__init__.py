"""The modules of `onnxruntime.capi` that programs import."""
