"""What programs import from `onnxruntime.capi.onnxruntime_inference_collection`."""

from anyshape.onnxruntime.binding import IOBinding
from anyshape.onnxruntime.session import InferenceSession
from anyshape.onnxruntime.values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]
