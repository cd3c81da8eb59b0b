"""Arguments of a BERT: seeded token ids with a ragged padding mask."""

from __future__ import annotations

import numpy as np

from benchmarks.models import Arrays

VOCABULARY = 30522


def token_inputs(batch: int, length: int, seed: int) -> Arrays:
    """Ids, a mask with one full row and the others padded from a random place on, and two segments."""
    rng = np.random.default_rng([seed, batch, length])
    used = np.concatenate([[length], rng.integers(1, length + 1, batch - 1)]) if batch else np.zeros(0, np.int64)
    places = np.arange(length)[None, :]
    mask = (places < used[:, None]).astype(np.int64)
    segments = (places >= rng.integers(1, length + 1, (batch, 1))).astype(np.int64)
    ids = rng.integers(1, VOCABULARY, (batch, length), dtype=np.int64) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments * mask}
