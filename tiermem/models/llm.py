"""The geometry of a language model: bytes of KV-cache and weights, and FLOPs, per token.

Everything follows from the layer shapes by arithmetic; nothing is fitted and nothing is guessed
from the hidden size. It knows no hardware, and no model whose cache is not a fixed number of bytes
per token (sliding windows, state-space layers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention (MLA): one compressed vector per token and layer stands for all heads."""

    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in every layer but the first `dense_layers`.

    `active` of `count` routed experts and all `shared` ones work on a token.
    """

    count: int
    active: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True)
class LLM:
    """One decoder-only transformer.

    `ffn` is the width of a dense layer's feed-forward block (0 if every layer has experts), with
    three matrices when `ffn_gated`, else two. `other_params` counts what is in no matrix: norms,
    biases, learned positions. With `latent` attention the cache holds the latent and the rotary key
    alone, and `kv_heads` and `head_dim` say what the heads look like once expanded.

    Computed once:

    - `kv_bytes_per_token`: what one token adds to the cache, all layers.
    - `params_total`, `params_active`: all parameters, and those that work on one token (both
      embedding matrices are in each).
    - `weight_bytes`, `active_weight_bytes`: all weights, and what a pass over one token reads
      (not an untied input table, of which it looks up one row).
    - `linear_flops_per_token`: 2 for every parameter of a matrix product that a token takes part
      in. The embedding lookup is left out; the output matrix is counted once for every token.
    - `attention_flops_per_token_pair`: one query token against one key token, all layers, in
      prefill; `decode_attention_flops_per_token_pair` is the same in decode, which differs for
      latent attention alone.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    ffn: int
    max_context_tokens: int
    ffn_gated: bool = True
    tied_embeddings: bool = False
    other_params: int = 0
    kernels_per_layer: int = 10
    weight_element_bytes: float = 2.0
    kv_element_bytes: int = 2
    latent: Latent | None = None
    experts: Experts | None = None

    kv_bytes_per_token: int = field(init=False, repr=False, compare=False)
    params_total: int = field(init=False, repr=False, compare=False)
    params_active: int = field(init=False, repr=False, compare=False)
    weight_bytes: int = field(init=False, repr=False, compare=False)
    active_weight_bytes: int = field(init=False, repr=False, compare=False)
    linear_flops_per_token: float = field(init=False, repr=False, compare=False)
    attention_flops_per_token_pair: float = field(init=False, repr=False, compare=False)
    decode_attention_flops_per_token_pair: float = field(init=False, repr=False, compare=False)
    _routed_params: int = field(init=False, repr=False, compare=False)
    _always_read_bytes: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert min(self.layers, self.hidden, self.heads, self.kv_heads, self.head_dim) >= 1
        assert min(self.vocab, self.max_context_tokens, self.kernels_per_layer) >= 1
        experts = self.experts
        if experts is None:
            routed, idle, always = 0, 0, self.layers * self._dense_params(self.ffn)
        else:
            layers = self.layers - experts.dense_layers
            one = layers * self._dense_params(experts.ffn)
            routed, idle = one * experts.count, one * (experts.count - experts.active)
            always = one * experts.shared + layers * self.hidden * experts.count
            always += experts.dense_layers * self._dense_params(self.ffn)
        always += self.layers * self._attention_params()
        table = self.vocab * self.hidden
        # The output matrix is always multiplied; an untied input table is only looked up.
        matrices = always + routed + table
        lookup = 0 if self.tied_embeddings else table
        total = matrices + lookup + self.other_params
        put = object.__setattr__
        put(self, "kv_bytes_per_token", self.layers * self._kv_elements() * self.kv_element_bytes)
        put(self, "params_total", total)
        put(self, "params_active", total - idle)
        put(self, "weight_bytes", math.ceil(total * self.weight_element_bytes))
        active = (total - lookup - idle) * self.weight_element_bytes
        put(self, "active_weight_bytes", math.ceil(active))
        put(self, "linear_flops_per_token", 2.0 * (matrices - idle))
        prefill, decode = self._attention_flops()
        put(self, "attention_flops_per_token_pair", prefill)
        put(self, "decode_attention_flops_per_token_pair", decode)
        put(self, "_routed_params", routed)
        put(self, "_always_read_bytes", (total - lookup - routed) * self.weight_element_bytes)

    def weights_read_bytes(self, tokens: int) -> float:
        """Weight bytes that one forward pass over `tokens` tokens reads.

        A dense model reads all but the input embedding. Of E routed experts with k active, n tokens
        that choose independently and evenly touch E (1 - (1 - k/E)^n).
        """
        assert tokens >= 0, tokens
        if self.experts is None or tokens == 0:
            return self._always_read_bytes if tokens else 0.0
        untouched = (1 - self.experts.active / self.experts.count) ** tokens
        routed = self._routed_params * self.weight_element_bytes
        return self._always_read_bytes + routed * (1 - untouched)

    def _dense_params(self, ffn: int) -> int:
        return (3 if self.ffn_gated else 2) * self.hidden * ffn

    def _attention_params(self) -> int:
        latent = self.latent
        if latent is None:
            return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        nope, rope = latent.qk_nope_head_dim, latent.qk_rope_head_dim
        query = latent.q_lora_rank * self.heads * (nope + rope)
        value = latent.kv_lora_rank * self.heads * (nope + latent.v_head_dim)
        down = latent.q_lora_rank + latent.kv_lora_rank + rope
        return self.hidden * (down + self.heads * latent.v_head_dim) + query + value

    def _kv_elements(self) -> int:
        """Cached numbers of one token in one layer."""
        if self.latent is None:
            return 2 * self.kv_heads * self.head_dim
        return self.latent.kv_lora_rank + self.latent.qk_rope_head_dim

    def _attention_flops(self) -> tuple[float, float]:
        """FLOPs of one query token against one key token, all layers: in prefill and in decode.

        Latent attention expands keys and values in prefill and works on the latent in decode, which
        costs more FLOPs and far fewer bytes.
        """
        latent = self.latent
        if latent is None:
            both = 4.0 * self.layers * self.heads * self.head_dim
            return both, both
        expanded = latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim
        absorbed = 2 * latent.kv_lora_rank + latent.qk_rope_head_dim
        per_width = 2.0 * self.layers * self.heads
        return per_width * expanded, per_width * absorbed
