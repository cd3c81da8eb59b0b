"""The ONNX frontend: `load` makes a Function of a model."""

from anyshape.frontends.onnx.loading import load
from anyshape.frontends.onnx.refusals import Unsupported, UnsupportedModel

__all__ = ["Unsupported", "UnsupportedModel", "load"]
