"""A language model of transformers generates the same tokens with its weights streamed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tiermem.offload.memory import TieredMemory
from tiermem.offload.module import offload, restore, streaming_of

transformers = pytest.importorskip("transformers")

Make = Callable[..., TieredMemory]


@pytest.mark.parametrize("whole", [False, True], ids=["by module", "by layer"])
def test_generate_with_streamed_weights(make: Make, whole: bool) -> None:
    """Greedy decoding, out of host memory smaller than the model, its head tied."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, 200, (1, 20))
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(prompt, **options)
    memory = make("512 KiB", "64 MiB")
    offload(model, memory, whole=[type(model.model.layers[0])] if whole else [])
    assert memory.ledger.nbytes > memory.fastest_bytes
    assert model.generate(prompt, **options).equal(expected)
    streaming = streaming_of(model)
    assert len(streaming.units) == (9 if whole else 57)
    assert streaming.ahead > 3 * streaming.late
    restore(model)
    assert model.generate(prompt, **options).equal(expected)
