"""Model geometry: cache bytes, weights and FLOPs from the shapes, worked by hand."""

from __future__ import annotations

import pytest

from tiermem.models.llm import LLM, Experts, Latent

TINY = LLM(
    name="tiny",
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=2,
    head_dim=3,
    vocab=10,
    ffn=16,
    max_context_tokens=64,
    other_params=5,
)
# Attention of a layer: query and output 8 x 12 each, key and value 8 x 6 each: 288.
# Feed-forward: 3 x 8 x 16 = 384. Two layers: 1344. Each embedding matrix: 80.


def test_cache_is_keys_and_values_of_the_kv_heads() -> None:
    """2 x 2 layers x 2 heads x 3 x 2 bytes: grouped-query heads, and not hidden / heads."""
    assert TINY.kv_bytes_per_token == 48


def test_weights_count_every_matrix_once() -> None:
    """1344 in the layers, two embedding matrices of 80, 5 besides; BF16."""
    assert TINY.params_total == TINY.params_active == 1344 + 160 + 5
    assert TINY.weight_bytes == 2 * 1509


def test_flops_leave_out_the_lookup_and_count_the_output_matrix() -> None:
    """Two FLOPs for each of 1344 + 80 parameters; attention 4 x 2 x 4 x 3 a pair."""
    assert TINY.linear_flops_per_token == 2 * 1424
    assert TINY.attention_flops_per_token_pair == 96
    assert TINY.decode_attention_flops_per_token_pair == 96


def test_a_dense_pass_reads_the_same_weights_for_any_batch() -> None:
    """All but the input table, whatever the number of tokens; none without tokens."""
    assert TINY.active_weight_bytes == 2 * (1509 - 80)
    assert TINY.weights_read_bytes(1) == TINY.weights_read_bytes(500) == TINY.active_weight_bytes
    assert TINY.weights_read_bytes(0) == 0


def test_tied_embeddings_are_one_matrix() -> None:
    """A tied table is stored once, read by every pass and multiplied."""
    tied = LLM("tied", 2, 8, 4, 2, 3, 10, 16, 64, tied_embeddings=True, other_params=5)
    assert tied.params_total == 1344 + 80 + 5
    assert tied.linear_flops_per_token == 2 * 1424
    assert tied.active_weight_bytes == tied.weight_bytes


def test_an_ungated_block_has_two_matrices() -> None:
    """2 x 8 x 16 = 256 instead of 384 a layer."""
    plain = LLM("plain", 2, 8, 4, 2, 3, 10, 16, 64, ffn_gated=False)
    assert plain.params_total == 2 * (288 + 256) + 160


def test_element_sizes_scale_weights_and_cache_apart() -> None:
    """One byte a weight halves the weights alone; one byte an element halves the cache alone."""
    eight = LLM("w8", 2, 8, 4, 2, 3, 10, 16, 64, other_params=5, weight_element_bytes=1)
    assert (eight.weight_bytes, eight.kv_bytes_per_token) == (1509, 48)
    eight = LLM("kv8", 2, 8, 4, 2, 3, 10, 16, 64, other_params=5, kv_element_bytes=1)
    assert (eight.weight_bytes, eight.kv_bytes_per_token) == (3018, 24)


MIXED = LLM(
    name="mixed",
    layers=3,
    hidden=8,
    heads=4,
    kv_heads=2,
    head_dim=3,
    vocab=10,
    ffn=16,
    max_context_tokens=64,
    experts=Experts(count=4, active=2, ffn=5, shared=1, dense_layers=1),
)
# An expert: 3 x 8 x 5 = 120. Two layers with experts: 960 routed, 240 shared, 64 in the routers.
# One dense layer: 384. Attention: 3 x 288 = 864. Always: 240 + 64 + 384 + 864 + 80 (output) = 1632.


def test_experts_count_all_in_memory_and_some_in_work() -> None:
    """Two of four routed experts are idle for a token: 480 parameters of 960."""
    assert MIXED.params_total == 1632 + 960 + 80
    assert MIXED.params_active == MIXED.params_total - 480
    assert MIXED.linear_flops_per_token == 2 * (1632 + 480)
    assert MIXED.active_weight_bytes == 2 * (1632 + 480)


@pytest.mark.parametrize(("tokens", "share"), [(1, 0.5), (2, 0.75), (3, 0.875), (200, 1.0)])
def test_a_batch_touches_more_experts(tokens: int, share: float) -> None:
    """E (1 - (1 - k/E)^n) of E: with half active each token leaves half of the rest untouched."""
    assert MIXED.weights_read_bytes(tokens) == pytest.approx(2 * (1632 + 960 * share))


def test_latent_attention_caches_the_latent_alone() -> None:
    """Two layers x (6 + 2) x 2 bytes; FLOPs expanded in prefill, absorbed in decode."""
    latent = Latent(
        q_lora_rank=5, kv_lora_rank=6, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=4
    )
    model = LLM("latent", 2, 8, 4, 4, 4, 10, 16, 64, latent=latent)
    assert model.kv_bytes_per_token == 32
    # Query: 8 x 5 down, 5 x 4 x (3 + 2) up. Latent: 8 x (6 + 2) down, 6 x 4 x (3 + 4) up.
    # Output: 4 x 4 x 8.
    attention = 40 + 100 + 64 + 168 + 128
    assert model.params_total == 2 * (attention + 384) + 160
    assert model.attention_flops_per_token_pair == 2 * 2 * 4 * (3 + 2 + 4)
    assert model.decode_attention_flops_per_token_pair == 2 * 2 * 4 * (6 + 2 + 6)
