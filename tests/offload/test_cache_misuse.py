"""What is no model, no memory, no prompt, or not the same model any more, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tiermem.errors import InputError
from tiermem.offload.cache import KEYWORD, TieredCache
from tiermem.offload.memory import TieredMemory

Make = Callable[..., TieredMemory]
Tiny = Callable[..., Any]


def test_weights_that_change_on_the_way_store_nothing(make: Make, tiny: Tiny) -> None:
    """The KV of an answer is that of the model that was asked, or is not kept."""
    model = tiny()
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    ids = torch.arange(1, 61)[None]
    cache.begin(ids)
    model.generate(ids, **{KEYWORD: cache}, max_new_tokens=12, do_sample=False)
    model.lm_head.weight.data.mul_(-2)
    with pytest.raises(InputError, match="weights have changed"):
        cache.commit()
    assert (cache.get_seq_length(), cache.counts.stored) == (0, 0)
    assert not model._forward_pre_hooks


def test_what_is_no_cache_of_a_model_is_refused(make: Make, tiny: Tiny) -> None:
    """A model, a memory, a number of tokens: each mistake by its name."""
    model, memory = tiny(), make("1 MiB")
    wrong: Any
    for wrong in (torch.nn.Linear(2, 2), 3, None, type(model)):
        with pytest.raises(InputError, match=r"^model: "):
            TieredCache(wrong, memory)
    for wrong in (3, None, {}):
        with pytest.raises(InputError, match=r"^memory: "):
            TieredCache(model, wrong)
    for wrong in (0, "x", 1.5, None):
        with pytest.raises(InputError, match=r"^block_tokens: "):
            TieredCache(model, memory, block_tokens=wrong)
    cache = TieredCache(model, memory)
    for wrong in (None, 3, "ab", torch.ones(1, 3), torch.ones(1, 3, dtype=int, device="meta")):
        with pytest.raises(InputError, match="token ids of one prompt"):
            cache.generate(wrong)
