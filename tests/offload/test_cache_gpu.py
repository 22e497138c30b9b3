"""TieredCache with the model on a CUDA device, over the host and over the device's own memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tiermem.offload.cache import TieredCache
from tiermem.offload.memory import TieredMemory

DEVICE: dict[str, Any] = {"device": "cuda:0", "device_bytes": "256 KiB"}

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("settings", [{}, DEVICE], ids=["host", "device"])
def test_a_conversation_on_a_device(
    make: Callable[..., TieredMemory], tiny: Callable[..., Any], settings: dict[str, Any]
) -> None:
    """The tokens of generate() without us, turn on turn, with prefixes out of memory and disk."""
    model = tiny().to("cuda:0")
    cache = TieredCache(model, make("64 KiB", "4 MiB", **settings), block_tokens=16)
    ids = torch.arange(1, 71, device="cuda:0")[None]
    for turn in range(3):
        answer = cache.generate(ids, max_new_tokens=12, do_sample=False)
        assert answer.equal(model.generate(ids, max_new_tokens=12, do_sample=False))
        assert (cache.loaded_tokens > 0) == (turn > 0)
        ids = torch.cat([answer, answer[:, :20]], dim=1)
    assert cache.counts.lost == 0
