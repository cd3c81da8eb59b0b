"""Make the zoo's graphs from Hugging Face's exporter again: `python -m benchmarks.models.zoo.export_optimum [NAME ...]`.

It needs optimum-onnx. Small configurations with random weights, as `optimum-cli export onnx` writes trained ones: with caches of keys and
values, a decoder whose branches are the first step and the later ones, names of axes for all that may vary, and opset 18 if the model's
own is lower.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import torch
import transformers as tf
from optimum.exporters.onnx import onnx_export_from_model

from benchmarks.models import structure

Described = tuple[tf.PreTrainedModel, str, str]
"""A model, its task, and which of the files that are written is the one for the zoo"""

LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
TEXT = {**LAYERS, "vocab_size": 100, "max_position_embeddings": 128}
SIDES = {
    f"{side}_{k}": n
    for side in ("encoder", "decoder")
    for k, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
}
WORDS = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def qwen2() -> Described:
    model = tf.Qwen2ForCausalLM(tf.Qwen2Config(**TEXT, num_key_value_heads=2))
    return model, "text-generation-with-past", "model.onnx"


def bart() -> Described:
    config = tf.BartConfig(d_model=32, max_position_embeddings=64, forced_eos_token_id=None, **SIDES, **WORDS)
    return tf.BartForConditionalGeneration(config), "text2text-generation-with-past", "decoder_model_merged.onnx"


def whisper_decoder() -> Described:
    config = tf.WhisperConfig(d_model=32, max_target_positions=64, num_mel_bins=16, **SIDES, **WORDS)
    return (
        tf.WhisperForConditionalGeneration(config), "automatic-speech-recognition-with-past", "decoder_with_past_model.onnx",
    )  # fmt: skip


def wav2vec2() -> Described:
    convolutions = {
        "conv_dim": (16, 16, 16),
        "conv_kernel": (10, 3, 2),
        "conv_stride": (5, 2, 2),
        "num_feat_extract_layers": 3,
    }
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    config = tf.Wav2Vec2Config(**LAYERS, vocab_size=30, **convolutions, **positions)
    return tf.Wav2Vec2ForCTC(config), "automatic-speech-recognition", "model.onnx"


def detr() -> Described:
    body = tf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    sizes = {"d_model": 32, "num_queries": 7, "num_labels": 5, **SIDES}
    config = tf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=body, **sizes
    )
    return tf.DetrForObjectDetection(config), "object-detection", "model.onnx"


def segformer() -> Described:
    sizes = {"depths": [1] * 4, "hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 2, 2, 4]}
    config = tf.SegformerConfig(**sizes, decoder_hidden_size=16, num_labels=5)
    return tf.SegformerForSemanticSegmentation(config), "semantic-segmentation", "model.onnx"


def clip() -> Described:
    words = {**LAYERS, "vocab_size": 100, "max_position_embeddings": 32, "eos_token_id": 99}
    pixels = {**LAYERS, "image_size": 32, "patch_size": 8}
    config = tf.CLIPConfig(text_config=words, vision_config=pixels, projection_dim=16)
    return tf.CLIPModel(config), "zero-shot-image-classification", "model.onnx"


def deberta() -> Described:
    attention = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}
    config = tf.DebertaV2Config(**TEXT, **attention, norm_rel_ebd="layer_norm", share_att_key=True)
    return tf.DebertaV2ForTokenClassification(config), "token-classification", "model.onnx"


def mobilevit() -> Described:
    sizes = {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 24, 32, 40, 48], "num_attention_heads": 4}
    config = tf.MobileViTConfig(image_size=64, **sizes, aspp_out_channels=16, num_labels=5, atrous_rates=[2, 3, 4])
    return tf.MobileViTForSemanticSegmentation(config), "image-segmentation", "model.onnx"


def distilbert() -> Described:
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100}
    model = tf.DistilBertForQuestionAnswering(tf.DistilBertConfig(**sizes, max_position_embeddings=64))
    return model, "question-answering", "model.onnx"


MODELS: dict[str, Callable[[], Described]] = {
    describe.__name__: describe
    for describe in (
        qwen2, bart, whisper_decoder, wav2vec2, detr, segformer, clip, deberta, mobilevit, distilbert,
    )
}  # fmt: skip


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in names or MODELS:
        torch.manual_seed(0)
        model, task, file = MODELS[name]()
        with tempfile.TemporaryDirectory() as folder:
            onnx_export_from_model(model.eval(), Path(folder), task=task, do_validation=False)
            path = Path(folder) / file
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            bare = structure.strip(structure.renamed(onnx.load(path)))
        structure.keep(bare, f"optimum_{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
