"""Transformers for the zoo: encoders, decoders with a cache of keys and values, an encoder with a decoder, vision, speech."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers as tf
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from benchmarks.models.zoo.exported import Exported

WORDS = 100
BATCH_AND_LENGTH = {0: "batch", 1: "length"}


class Call(nn.Module):
    """A model behind a function of plain tensors."""

    def __init__(self, model: nn.Module, function: Callable[..., object]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *arguments: Tensor) -> object:
        return self.function(self.model, *arguments)


def ids(*shape: int) -> Tensor:
    return torch.randint(0, WORDS, shape)


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.int64)


def bert() -> Exported:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = tf.BertModel(
        tf.BertConfig(vocab_size=WORDS, max_position_embeddings=64, attn_implementation="sdpa", **sizes)
    )
    call = Call(model, lambda m, i, a: m(input_ids=i, attention_mask=a).last_hidden_state)
    axes = {"ids": BATCH_AND_LENGTH, "mask": BATCH_AND_LENGTH, "y": BATCH_AND_LENGTH}
    return Exported(call, (ids(2, 7), ones(2, 7)), ["ids", "mask"], ["y"], axes)


def _with_cache(model: nn.Module, layers: int, heads: int, width: int, positions: bool) -> Exported:
    """One step of a decoder: old keys and values in, logits and all keys and values out."""
    first = ["ids", "mask", "positions"] if positions else ["ids", "mask"]

    def step(m: nn.Module, *arguments: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        old = arguments[len(first) :]
        for k in range(layers):
            cache.update(old[2 * k], old[2 * k + 1], k)
        extra = {"position_ids": arguments[2]} if positions else {}
        out = m(input_ids=arguments[0], attention_mask=arguments[1], past_key_values=cache, use_cache=True, **extra)
        kept = out.past_key_values.layers
        return (out.logits, *(t for layer in kept for t in (layer.keys, layer.values)))

    old = [f"{kind}{k}" for k in range(layers) for kind in ("keys", "values")]
    new = [f"new_{name}" for name in old]
    axes = {
        "ids": BATCH_AND_LENGTH, "positions": BATCH_AND_LENGTH, "mask": {0: "batch", 1: "total"}, "logits": BATCH_AND_LENGTH,
        **{name: {0: "batch", 2: "past"} for name in old}, **{name: {0: "batch", 2: "total"} for name in new},
    }  # fmt: skip
    head = [ids(2, 3), ones(2, 8), *([torch.arange(5, 8).repeat(2, 1)] if positions else [])]
    arguments = (*head, *(torch.randn(2, heads, 5, width) for _ in old))
    return Exported(Call(model, step), arguments, [*first, *old], ["logits", *new], axes)


def gpt2() -> Exported:
    """The decoding step of the benchmarks: 4 layers of 256."""
    sizes = {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 2048}
    model = tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=1000, attn_implementation="eager", **sizes))
    return _with_cache(model, 4, 4, 64, positions=False)


def llama() -> Exported:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = tf.LlamaConfig(vocab_size=WORDS, num_key_value_heads=2, attn_implementation="eager", **sizes)
    return _with_cache(tf.LlamaForCausalLM(config), 2, 2, 8, positions=True)


def t5() -> Exported:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=WORDS, decoder_start_token_id=0, **sizes))

    def call(m: nn.Module, i: Tensor, a: Tensor, d: Tensor) -> Tensor:
        logits: Tensor = m(input_ids=i, attention_mask=a, decoder_input_ids=d, use_cache=False).logits
        return logits

    out = {0: "batch", 1: "written"}
    axes = {"ids": BATCH_AND_LENGTH, "mask": BATCH_AND_LENGTH, "decoded": out, "logits": out}
    arguments = (ids(2, 7), ones(2, 7), ids(2, 4))
    return Exported(Call(model, call), arguments, ["ids", "mask", "decoded"], ["logits"], axes)


def vit() -> Exported:
    """A ViT of any height and width: the table of positions is resized."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = tf.ViTModel(tf.ViTConfig(image_size=32, patch_size=8, attn_implementation="eager", **sizes))
    call = Call(model, lambda m, x: m(pixel_values=x, interpolate_pos_encoding=True).last_hidden_state)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}, "y": {0: "batch", 1: "patches"}}
    return Exported(call, (torch.randn(2, 3, 32, 48),), ["x"], ["y"], axes)


def swin() -> Exported:
    sizes = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    model = tf.SwinModel(tf.SwinConfig(image_size=32, patch_size=2, attn_implementation="eager", **sizes))
    call = Call(model, lambda m, x: m(pixel_values=x).last_hidden_state)
    return Exported(call, (torch.randn(2, 3, 32, 32),), ["x"], ["y"], {"x": {0: "batch"}, "y": {0: "batch"}})


def whisper() -> Exported:
    sides = {
        f"{side}_{k}": n
        for side in ("encoder", "decoder")
        for k, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    }
    sizes = {"d_model": 32, **sides}
    words = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = tf.WhisperConfig(max_source_positions=50, num_mel_bins=16, attn_implementation="eager", **sizes, **words)
    call = Call(tf.WhisperModel(config).get_encoder(), lambda m, x: m(x).last_hidden_state)
    return Exported(call, (torch.randn(2, 16, 100),), ["x"], ["y"], {"x": {0: "batch"}, "y": {0: "batch"}})
