"""Models of other formats as functions of ops: ONNX (`onnx/`), PyTorch (`torch/`), and symbolic shapes (`symbolic_shapes/`)."""
