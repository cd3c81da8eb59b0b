"""Answers of optimum's classes on onnxruntime, or on `anyshape.onnxruntime` in its place.

python -m tests.optimum.answers onnxruntime|anyshape FOLDER OUT.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 6
"""Tokens that are generated"""


def arrays(value: Any, name: str = "") -> dict[str, Any]:
    """All tensors of a nested result by their paths, as nested lists."""
    if isinstance(value, dict):
        return {k: a for n, v in value.items() for k, a in arrays(v, f"{name}.{n}").items()}
    if isinstance(value, list | tuple):
        return {k: a for n, v in enumerate(value) for k, a in arrays(v, f"{name}.{n}").items()}
    return {name: [str(np.asarray(value).dtype), np.asarray(value).tolist()]}


def answers(case: Any, model: Any, bound: bool) -> list[dict[str, Any]]:
    """Results of all calls; of a model that generates, its tokens too, and of one that does not, those of NumPy's arrays."""
    import torch

    torch.manual_seed(1)
    said = []
    for draw in case.calls:
        arguments = draw()
        if hasattr(model, "generate"):
            cache = {} if case.has_past else {"use_cache": False}
            said.append(arrays(model.generate(**arguments, max_new_tokens=STEPS, do_sample=False, **cache)))
            if case.kind != "CausalLM":
                batch = len(next(iter(arguments.values())))
                arguments["decoder_input_ids"] = torch.tensor([[3, 5, 6]] * batch)
        elif not bound:
            said.append(arrays(model(**{name: value.numpy() for name, value in arguments.items()})))
        said.append(arrays(model(**arguments)))
    return said


def outcome(case: Any, folder: Path, bound: bool) -> Any:
    """The answers of a case, or the class of the first error of onnxruntime, Python or optimum."""
    import optimum.onnxruntime as classes

    options = {"use_cache": case.has_past} if case.kind in ("CausalLM", "Seq2SeqLM") else {}
    try:
        kind = getattr(classes, f"ORTModelFor{case.kind}")
        return answers(case, kind.from_pretrained(folder / case.folder, use_io_binding=bound, **options), bound)
    except (RuntimeError, NameError) as e:  # optimum computes sizes of results from their names by itself
        return "RuntimeError" if isinstance(e, RuntimeError) else f"{type(e).__name__}: {e}"


def tools(folder: Path) -> list[Any]:
    """Answers of a model that optimum's tools optimised, at each level, and of one that they quantised."""
    import optimum.onnxruntime as classes
    from optimum.onnxruntime.configuration import AutoQuantizationConfig, OptimizationConfig

    from tests.optimum.models import typed_text

    kind, source = classes.ORTModelForSequenceClassification, folder / "bert.text-classification"
    model, arguments, out, said = kind.from_pretrained(source), typed_text(2, 7)(), folder / sys.argv[1], []
    for level in (0, 1, 2, 99):
        classes.ORTOptimizer.from_pretrained(model).optimize(
            OptimizationConfig(optimization_level=level), out / str(level)
        )
        said.append(arrays(kind.from_pretrained(out / str(level), file_name="model_optimized.onnx")(**arguments)))
    configuration = AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=False)
    classes.ORTQuantizer.from_pretrained(model).quantize(save_dir=out / "quantised", quantization_config=configuration)
    said.append(arrays(kind.from_pretrained(out / "quantised", file_name="model_quantized.onnx")(**arguments)))
    return said


def main() -> None:
    engine, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if engine == "anyshape":
        import anyshape.onnxruntime

        anyshape.onnxruntime.patch()
    import torch

    from tests.optimum.models import CASES

    said = {f"{k}, {bound}": outcome(case, folder, bound) for k, case in enumerate(CASES) for bound in (False, True)}
    torch.manual_seed(2)
    out.write_text(json.dumps({**said, "tools": tools(folder)}))


if __name__ == "__main__":
    main()
