"""Values pass the barrier as they are; a backward does not."""

from __future__ import annotations

import pytest
import torch

from tiermem.offload.frozen import NoGradient, frozen


def test_values_pass_and_gradients_do_not() -> None:
    """In any structure of tensors; integers and what has a graph of its own are left alone."""
    value, whole = torch.arange(3.0), torch.arange(3)
    graph = torch.zeros(2, requires_grad=True) * 2
    output = frozen({"a": (value, whole), "b": [graph, "text", None]}, "a model")
    assert output["a"][0] is value
    assert output["a"][1] is whole
    assert output["b"][0] is graph
    assert not whole.requires_grad
    graph.sum().backward()
    with pytest.raises(NoGradient, match="a model"):
        value.sum().backward()


def test_what_passed_may_be_written_to() -> None:
    """It is the tensor itself, and no view made by a function."""
    output = frozen(torch.tensor([-1.0, 2.0]), "a model")
    assert torch.relu_(output).tolist() == [0.0, 2.0]
    with pytest.raises(NoGradient):
        output.sum().backward()


def test_nothing_to_freeze() -> None:
    """An output without floating tensors comes back as it is."""
    output = (torch.arange(3), "text")
    assert frozen(output, "a model") is output
    with torch.inference_mode():
        inference = torch.zeros(2)
    assert frozen(inference, "a model") is inference
