"""The PyTorch frontend: modules and exported programs as compiled models, and the backend of `torch.compile`.

`compile_torch` is what `anyshape.compile` calls for a module; torch is imported when a function here is called.
"""

from anyshape.frontends.torch.model import TorchModel, compile_torch

__all__ = ["TorchModel", "compile_torch"]
