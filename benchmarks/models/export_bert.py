"""Make the committed structures of the BERTs again; needs torch and transformers.

`python -m benchmarks.models.export_bert`. Comes in: the configurations below. Goes out: `structures/bert_*.onnx`,
the graphs that torch's tracing exporter writes, checked against torch by onnxruntime before their weights are taken
away. Nothing else in the repository needs torch for a BERT.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from benchmarks.models import structure
from benchmarks.models.token_inputs import VOCABULARY, token_inputs

CONFIGURATIONS = {
    "bert_mini": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    "bert_base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
SIZES = [(1, 1), (1, 7), (4, 33), (3, 128)]
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
LONG = ("/bert/encoder", "/bert", "bert.encoder.", "bert.", "_output_0")  # parts of names that tell nothing
OUTPUTS = ["last_hidden_state", "pooler_output"]


class Bert(nn.Module):
    """A BERT that takes its arguments by position and returns a plain pair."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self.bert = BertModel(BertConfig.from_dict({**sizes, "vocab_size": VOCABULARY, "attn_implementation": "eager"}))
        with torch.no_grad():  # equal tensors, such as fresh biases, would be merged into one by the exporter
            for parameter in self.bert.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        answer = self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return answer.last_hidden_state, answer.pooler_output


def arguments(batch: int, length: int) -> tuple[Tensor, ...]:
    """The arguments of one call, as tensors."""
    return tuple(torch.from_numpy(array) for array in token_inputs(batch, length, seed=0).values())


def export(model: Bert, path: Path) -> None:
    """Write the model with batch and length dynamic."""
    both = {0: "batch", 1: "length"}
    torch.onnx.export(
        model,
        arguments(2, 9),
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=INPUTS,
        output_names=OUTPUTS,
        dynamic_axes={**dict.fromkeys(INPUTS, both), OUTPUTS[0]: both, OUTPUTS[1]: {0: "batch"}},
    )


def difference(model: Bert, path: Path) -> float:
    """The largest difference between torch and onnxruntime over SIZES."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch, length in SIZES:
        with torch.no_grad():
            expected = [part.numpy() for part in model(*arguments(batch, length))]
        for got, want in zip(session.run(None, dict(token_inputs(batch, length, seed=0))), expected):
            worst = max(worst, float(np.abs(got - want).max()))
    return worst


def main() -> None:
    torch.set_num_threads(1)
    for name, sizes in CONFIGURATIONS.items():
        torch.manual_seed(0)
        model = Bert(sizes).eval()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.onnx"
            export(model, path)
            worst = difference(model, path)
            if worst > 1e-4:
                raise SystemExit(f"{name}: the exported graph differs from torch by {worst:.1e}; nothing is written")
            bare = structure.strip(structure.shorten(onnx.load(path), LONG))
        target = structure.FOLDER / f"{name}.onnx"
        onnx.save(bare, target)
        size = target.stat().st_size
        print(f"{name}: {len(bare.graph.node)} nodes, {size} bytes, differs from torch by at most {worst:.1e}")


if __name__ == "__main__":
    main()
