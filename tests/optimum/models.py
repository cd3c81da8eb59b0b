"""Small models of the families that optimum exports, with random weights, and calls for each of its classes.

python -m tests.optimum.models FOLDER        exports them, each into a folder of its own
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as families
from optimum.exporters.onnx import onnx_export_from_model
from optimum.exporters.tasks import TasksManager

SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS: dict[str, Any] = {"vocab_size": 100, "max_position_embeddings": 64}
COUPLED: dict[str, Any] = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
GPT2: dict[str, Any] = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 100,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IMAGE: dict[str, Any] = {"image_size": 32, "patch_size": 8}

CONFIGURATIONS: Mapping[str, Callable[[], Any]] = {
    "bert": lambda: families.BertConfig(**SMALL, **WORDS),
    "gpt2": lambda: families.GPT2Config(**GPT2),
    "llama": lambda: families.LlamaConfig(**SMALL, **WORDS, num_key_value_heads=2),
    "t5": lambda: families.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100, decoder_start_token_id=0),
    "mbart": lambda: families.MBartConfig(**COUPLED, **WORDS, d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64),
    "vit": lambda: families.ViTConfig(**SMALL, **IMAGE),
    "whisper": lambda: families.WhisperConfig(
        **COUPLED, d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100, num_mel_bins=16, max_target_positions=40,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, begin_suppress_tokens=None, suppress_tokens=None,
    ),
    "wav2vec2": lambda: families.Wav2Vec2Config(
        **SMALL, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, vocab_size=32,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    ),
    "segformer": lambda: families.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32,
    ),
    "clip": lambda: families.CLIPConfig(
        text_config={**SMALL, **WORDS, "bos_token_id": 1, "eos_token_id": 2}, vision_config={**SMALL, **IMAGE}, projection_dim=16
    ),
    "swin2sr": lambda: families.Swin2SRConfig(
        image_size=16, patch_size=1, embed_dim=16, depths=[1], num_heads=[2], window_size=4, upscale=2, num_channels=3
    ),
    "vision-encoder-decoder": lambda: families.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        families.ViTConfig(**SMALL, **IMAGE), families.GPT2Config(**GPT2, add_cross_attention=True, is_decoder=True),
        decoder_start_token_id=1, pad_token_id=2,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A class of optimum, a family and the task for which it is exported, and the arguments of calls."""

    kind: str
    family: str
    task: str
    calls: Sequence[Callable[[], dict[str, torch.Tensor]]]

    @property
    def folder(self) -> str:
        return f"{self.family}.{self.task}"

    @property
    def has_past(self) -> bool:
        """Whether the model keeps keys and values between steps."""
        return self.task.endswith("-with-past")


def text(batch: int, length: int) -> Callable[[], dict[str, torch.Tensor]]:
    def drawn() -> dict[str, torch.Tensor]:
        ids = torch.randint(4, 99, (batch, length))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    return drawn


def typed_text(*shape: int) -> Callable[[], dict[str, torch.Tensor]]:
    def drawn() -> dict[str, torch.Tensor]:
        ones = torch.ones(shape, dtype=torch.int64)
        return {"input_ids": torch.randint(4, 99, shape), "attention_mask": ones, "token_type_ids": 0 * ones}

    return drawn


def floats(name: str, *shape: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {name: torch.randn(shape)}


def image(batch: int, side: int) -> Callable[[], dict[str, torch.Tensor]]:
    return floats("pixel_values", batch, 3, side, side)


def both(*parts: Callable[[], dict[str, torch.Tensor]]) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {name: value for part in parts for name, value in part().items()}


CASES = (
    Case("FeatureExtraction", "bert", "feature-extraction", [typed_text(2, 7), typed_text(3, 11)]),
    Case("CustomTasks", "bert", "feature-extraction", [typed_text(2, 7), typed_text(1, 5)]),
    Case("MaskedLM", "bert", "fill-mask", [typed_text(2, 7), typed_text(1, 5)]),
    Case("SequenceClassification", "bert", "text-classification", [typed_text(2, 7), typed_text(3, 11)]),
    Case("TokenClassification", "bert", "token-classification", [typed_text(2, 7), typed_text(3, 11)]),
    Case("QuestionAnswering", "bert", "question-answering", [typed_text(2, 7), typed_text(3, 11)]),
    Case("MultipleChoice", "bert", "multiple-choice", [typed_text(2, 4, 6), typed_text(1, 3, 9)]),
    Case("CausalLM", "gpt2", "text-generation", [text(2, 7), text(1, 3)]),
    Case("CausalLM", "gpt2", "text-generation-with-past", [text(2, 7), text(1, 3)]),
    Case("CausalLM", "llama", "text-generation-with-past", [text(2, 7), text(1, 3)]),
    Case("Seq2SeqLM", "t5", "text2text-generation", [text(2, 7), text(1, 5)]),
    Case("Seq2SeqLM", "t5", "text2text-generation-with-past", [text(2, 7), text(1, 5)]),
    Case("Seq2SeqLM", "mbart", "text2text-generation-with-past", [text(2, 7), text(1, 5)]),
    Case("SpeechSeq2Seq", "whisper", "automatic-speech-recognition-with-past", [floats("input_features", 2, 16, 3000)]),
    Case("Vision2Seq", "vision-encoder-decoder", "image-to-text-with-past", [image(2, 32), image(1, 32)]),
    Case("ImageClassification", "vit", "image-classification", [image(2, 32), image(1, 32)]),
    Case("ImageToImage", "swin2sr", "image-to-image", [image(2, 16), image(1, 24)]),
    Case("SemanticSegmentation", "segformer", "semantic-segmentation", [image(2, 64), image(1, 32)]),
    Case("ZeroShotImageClassification", "clip", "zero-shot-image-classification", [both(text(2, 6), image(3, 32))]),
    Case("CTC", "wav2vec2", "automatic-speech-recognition", [floats("input_values", 2, 1000), floats("input_values", 1, 700)]),
    Case("AudioClassification", "wav2vec2", "audio-classification", [floats("input_values", 2, 1000), floats("input_values", 1, 700)]),
    Case("AudioFrameClassification", "wav2vec2", "audio-frame-classification", [floats("input_values", 2, 1000)]),
    Case("AudioXVector", "wav2vec2", "audio-xvector", [floats("input_values", 2, 1000)]),
)  # fmt: skip
NOT_TRIED = {"Pix2Struct": "its export asks for a processor of images, which is published with weights only"}
"""Classes that have no case"""


def write(case: Case, folder: Path) -> None:
    """Exports the model of a case."""
    task = case.task.removesuffix("-with-past")
    model_class = TasksManager.get_model_class_for_task(task, framework="pt", model_type=case.family)
    configuration = CONFIGURATIONS[case.family]()
    torch.manual_seed(0)
    model = (
        model_class.from_config(configuration)
        if hasattr(model_class, "from_config")
        else model_class(config=configuration)
    )
    onnx_export_from_model(model.eval(), folder / case.folder, task=case.task, do_validation=False)
    model.config.save_pretrained(folder / case.folder)


def main() -> None:
    folder = Path(sys.argv[1])
    for case in {case.folder: case for case in CASES}.values():
        write(case, folder)


if __name__ == "__main__":
    main()
