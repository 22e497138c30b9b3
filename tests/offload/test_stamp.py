"""A change of the weights is noticed, whichever way it was made; a forward is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tiermem.offload.away import away
from tiermem.offload.stamp import stamp_of

Tiny = Callable[..., Any]


def step(model: Any) -> None:
    with torch.no_grad():
        model.lm_head.weight.mul_(1.0)


def assign(model: Any) -> None:
    state = {name: tensor * 2 for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def replace_data(model: Any) -> None:
    weight = model.model.layers[1].mlp.up_proj.weight
    weight.data = weight.data * -3


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an optimiser's step": step,
    "load_state_dict": lambda model: model.load_state_dict(model.state_dict()),
    "load_state_dict, assign": assign,
    "other data": replace_data,
    "data in place": lambda model: model.lm_head.weight.data.mul_(-2),
    "a small tensor in place": lambda model: model.model.norm.weight.data.add_(1),
    "a transposed one": lambda model: model.model.embed_tokens.weight.data.t().mul_(2),
    "a buffer": lambda model: model.model.rotary_emb.inv_freq.mul_(3),
    "a buffer's data": lambda model: model.model.rotary_emb.inv_freq.data.mul_(3),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_it_moves_with_the_weights(tiny: Tiny, change: str) -> None:
    """Also where torch does not count, for parameters and for buffers."""
    model = tiny()
    before = stamp_of(model)
    model(torch.zeros((1, 3), dtype=torch.long))
    assert stamp_of(model) == before
    CHANGES[change](model)
    assert stamp_of(model) != before


def test_any_tensor_has_one() -> None:
    """Of every dtype, empty, of no dimension, transposed, on no device, elsewhere, in inference."""
    module = torch.nn.Module()
    with torch.inference_mode():
        module.register_buffer("inference", torch.ones(3))
    for name, tensor in {
        "eight": torch.ones(100).to(torch.float8_e4m3fn),
        "complex": torch.ones(3, dtype=torch.complex64),
        "truth": torch.ones(3, dtype=torch.bool),
        "brain": torch.ones(3, dtype=torch.bfloat16),
        "empty": torch.ones(0),
        "scalar": torch.tensor(1.0),
        "transposed": torch.ones(30, 40).t(),
        "part": torch.ones(30, 40)[3:, ::3],
        "meta": torch.ones(3, device="meta"),
        "sparse": torch.ones(3, 3).to_sparse(),
    }.items():
        module.register_buffer(name, tensor)
    module.weight = away(torch.nn.Parameter(torch.ones(3)), "w")
    before = stamp_of(module)
    assert stamp_of(module) == before
    module.part[-1, -1] = 3
    assert stamp_of(module) != before
    before = stamp_of(module)
    module.part.data.mul_(2)
    assert stamp_of(module) != before
