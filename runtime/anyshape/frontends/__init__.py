"""Models of other formats as functions of ops: ONNX (`onnx/`), PyTorch (`torch/`), and the symbolic shapes of a model (`symbolic_shapes/`)."""
