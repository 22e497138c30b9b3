"""What stands for a weight has no values, and says whose they would be."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

from tiermem.errors import InputError
from tiermem.offload.away import Away, away


def test_it_is_a_parameter_of_the_same_kind() -> None:
    """Shape, dtype, device and whether it needs a gradient."""
    whole = nn.Parameter(torch.zeros(2, 3, dtype=torch.float16), requires_grad=False)
    made = away(whole, "weight of a Linear")
    assert isinstance(made, nn.Parameter)
    assert isinstance(made.detach(), Away)
    assert (made.shape, made.dtype, made.device) == (whole.shape, whole.dtype, whole.device)
    assert (made.numel(), made.nbytes, made.requires_grad) == (6, 12, False)
    assert away(nn.Parameter(torch.zeros(2)), "w").requires_grad
    assert "weight of a Linear, (2, 3)" in repr(made)


def test_its_values_cannot_be_had() -> None:
    """By no operator, alone or in company; torch answers for a meta tensor with arbitrary bytes."""
    made = away(nn.Parameter(torch.zeros(3, 3)), "weight of a Linear")
    x = torch.zeros(2, 3)
    assert nn.functional.linear(x, torch.empty(3, 3, device="meta")).device.type == "cpu"
    for use in (
        lambda: nn.functional.linear(x, made),
        lambda: x @ made,
        lambda: torch.cat([x, made]),
        lambda: made.sum(),
        lambda: made.clone(),
        lambda: x.add_(made[:2]),
        lambda: made.to(torch.float64),
        lambda: pickle.dumps(made),
    ):
        with pytest.raises(InputError, match="weight of a Linear is offloaded"):
            use()
