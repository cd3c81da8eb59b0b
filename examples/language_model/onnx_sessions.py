"""The language model in onnxruntime, whose caches are the same memory before and after a step, and its file for onnxruntime-genai."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from decoder import Arrays, Run  # type: ignore[import-not-found]  # files beside this one
from language_model import Size  # type: ignore[import-not-found]
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


def onnxruntime_run(path: Path, threads: int) -> Run:
    """The model of a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def value(array: NDArray[Any]) -> Any:
        if array.dtype != ml_dtypes.bfloat16:
            return onnxruntime.OrtValue.ortvalue_from_numpy(array)
        bits = array.view(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)

    def run(inputs: Arrays, outputs: Arrays) -> list[NDArray[Any]]:
        if not outputs:
            return list(session.run(None, inputs))
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, value(array))
        for result in session.get_outputs():
            if result.name in outputs:
                binding.bind_ortvalue_output(result.name, value(outputs[result.name]))
            else:
                binding.bind_output(result.name)
        session.run_with_iobinding(binding)
        scores, *_ = binding.get_outputs()
        return [scores.numpy(), *outputs.values()]

    return run


def for_genai(path: Path, size: Size, room: int, threads: int, unsaid: int) -> Path:
    """A folder with the model of a file for onnxruntime-genai: it passes ids and a mask of all words so far, of which `last` and `total`
    follow. A word that is not said is the one at which it would stop."""
    folder = path.with_suffix(".genai")
    folder.mkdir(exist_ok=True)
    weights = folder / f"{path.name}.weights"
    weights.unlink(missing_ok=True)
    shutil.copyfile(path.with_name(weights.name), weights)  # onnx loads no model whose file of weights has two links
    onnx.save(_by_mask(onnx.load(path, load_external_data=False)), folder / "model.onnx")
    (folder / "genai_config.json").write_text(json.dumps(_configuration(size, room, threads, unsaid), indent=1))
    return folder


def _by_mask(model: onnx.ModelProto) -> onnx.ModelProto:
    graph, names = model.graph, {"ids": "input_ids", "scores": "logits"}
    for node in graph.node:
        node.input[:] = [names.get(x, x) for x in node.input]
        node.output[:] = [names.get(x, x) for x in node.output]
    info, i32, i64 = helper.make_tensor_value_info, TensorProto.INT32, TensorProto.INT64
    caches = [i for i in graph.input if i.name.startswith("past_")]
    del graph.input[:]
    graph.input.extend(
        [info("input_ids", i64, ["batch", "new"]), info("attention_mask", i64, ["batch", "all"]), *caches]
    )
    for result in graph.output:
        result.name = names.get(result.name, result.name)
    first = [
        helper.make_node("ReduceSum", ["attention_mask", "axis_1"], ["counts"], keepdims=0),
        helper.make_node("Sub", ["counts", "one"], ["last_wide"]),
        helper.make_node("Cast", ["last_wide"], ["last"], to=i32),
        helper.make_node("Shape", ["attention_mask"], ["total_1"], start=1, end=2),
        helper.make_node("Squeeze", ["total_1"], ["total_wide"]),
        helper.make_node("Cast", ["total_wide"], ["total"], to=i32),
    ]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*first, *rest])
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axis_1"))
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one"))
    return model


def _configuration(size: Size, room: int, threads: int, unsaid: int) -> dict[str, Any]:
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    decoder = {
        "session_options": {"intra_op_num_threads": threads, "provider_options": []},
        "filename": "model.onnx",
        "head_size": size.head,
        "hidden_size": size.width,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.cached_heads,
        "num_hidden_layers": size.layers,
        "inputs": {**inputs, "past_key_names": "past_keys_%d", "past_value_names": "past_values_%d"},
        "outputs": {
            "logits": "logits",
            "present_key_names": "present_keys_%d",
            "present_value_names": "present_values_%d",
        },
    }
    model = {
        "type": "llama",
        "vocab_size": size.words,
        "context_length": room,
        "bos_token_id": unsaid,
        "eos_token_id": unsaid,
        "pad_token_id": unsaid,
        "decoder": decoder,
    }
    return {"model": model, "search": {"max_length": room, "do_sample": False, "past_present_share_buffer": True}}
