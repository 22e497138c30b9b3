"""Which model it is: the same for the same one, and another for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from tiermem.errors import InputError
from tiermem.offload import fingerprint

Tiny = Callable[..., Any]


def identity(model: Any, block_tokens: int = 16) -> str:
    return fingerprint.describe(model, block_tokens).identity


def test_the_layout_is_what_the_model_makes(tiny: Tiny) -> None:
    """Layers, KV heads, head size and dtype come out of a pass over one token."""
    layout = fingerprint.describe(tiny(dtype="bfloat16").to(torch.bfloat16), 16)
    assert layout.shape == (3, 2, 2, 16, 16)
    assert (layout.dtype, layout.element_bytes) == ("bfloat16", 2)
    assert "10000.0" in layout.positions


def test_the_same_model_is_the_same(tiny: Tiny) -> None:
    """Made again, under another path, with other bookkeeping tokens: one identity."""
    model, again = tiny(), tiny(_name_or_path="elsewhere", eos_token_id=5)
    assert identity(model) == identity(model)
    assert identity(model) == identity(again)


def test_any_weight_counts(tiny: Tiny) -> None:
    """One element of one matrix, anywhere, makes another model; so does another seed."""
    seen = {identity(tiny()), identity(tiny(seed=1))}
    for name in ("model.embed_tokens", "model.layers.2.mlp.down_proj", "lm_head"):
        for at in (0, 17, -1):
            model = tiny()
            with torch.no_grad():
                model.get_submodule(name).weight.view(-1)[at] += 0.01
            seen.add(identity(model))
    assert len(seen) == 11


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rms_norm_eps": 1e-3},
        {"hidden_act": "gelu"},
    ],
)
def test_the_configuration_counts(tiny: Tiny, changes: dict[str, Any]) -> None:
    """Equal weights under another position encoding, norm or activation are another model."""
    assert identity(tiny(**changes)) != identity(tiny())


def test_block_size_and_dtype_count(tiny: Tiny) -> None:
    """Blocks of another layout are never exchanged."""
    assert len({identity(tiny()), identity(tiny(), 32), identity(tiny().to(torch.float64))}) == 3


def test_a_name_stands_for_the_weights(tiny: Tiny) -> None:
    """With `name` nothing is read; without one, meta tensors are refused by name."""
    model = tiny()
    named = fingerprint.describe(model, 16, name="v1").identity
    assert "v1" in named
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.to("meta"))
    with pytest.raises(InputError, match=r"lm_head\.weight is a meta tensor"):
        fingerprint._weights(model)


def other(kind: str, **changes: Any) -> Any:
    """A model of another architecture, as small as it goes."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **heads, **changes})
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("Mistral", {"sliding_window": 8}, "DynamicSlidingWindowLayer in 2 of 2 layers"),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "'dynamic'"),
        ("Mamba", {}, "full attention in every layer"),
    ],
)
def test_what_has_no_kv_of_a_prefix_is_refused(
    kind: str, changes: dict[str, Any], said: str
) -> None:
    """Sliding windows, recurrent layers and angles that depend on the length, each by name."""
    with pytest.raises(InputError, match=f"^{kind}ForCausalLM has .*{said}"):
        fingerprint.describe(other(kind, **changes), 16)


def test_training_mode_is_refused(tiny: Tiny) -> None:
    """Dropout would make KV that is never made again."""
    with pytest.raises(InputError, match=r"model\.eval\(\)"):
        fingerprint.describe(tiny().train(), 16)
