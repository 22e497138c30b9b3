"""Activations in tiered memory: the same gradients bit by bit, and nothing left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tiermem.errors import DoesNotFit
from tiermem.offload.memory import TieredMemory
from tiermem.offload.saved import SMALL_BYTES, saved_tensors
from tiermem.offload.tensor import TensorLost

Make = Callable[..., TieredMemory]
Loss = Callable[[], torch.Tensor]
SEED = 11


def cases() -> dict[str, tuple[Loss, list[torch.Tensor]]]:
    """Losses, and the leaves that they have gradients for."""
    torch.manual_seed(SEED)
    x = torch.randn(8, 6, 32, requires_grad=True)
    complex_ = torch.randn(40, 40, dtype=torch.complex64, requires_grad=True)
    encoder = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    convolution = nn.Sequential(nn.Conv1d(6, 8, 3), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
    half = nn.Linear(32, 32).bfloat16()

    def strides() -> torch.Tensor:
        turned = (x * 2).transpose(0, 2)
        return (turned.exp() @ turned.sin().mT).sum() + (x[:1] * 3).expand(8, 6, 32).pow(3).sum()

    return {
        "encoder": (lambda: encoder(x).pow(2).sum(), [x, *encoder.parameters()]),
        "convolution": (lambda: convolution(x).sigmoid().sum(), [x, *convolution.parameters()]),
        "strides": (strides, [x]),
        "bfloat16": (lambda: half(x.bfloat16()).tanh().float().sum(), [x, *half.parameters()]),
        "complex": (lambda: (complex_.conj() @ complex_).abs().sum(), [complex_]),
        "indices": (lambda: x.view(-1)[torch.arange(0, 900, 3)].cumsum(0).tanh().sum(), [x]),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_gradients_are_the_same_bits(make: Make, name: str) -> None:
    """Whatever is saved: transposed, expanded, a mask, integers, out of a memory on disk too."""
    loss, leaves = cases()[name]
    expected = torch.autograd.grad(loss(), leaves, allow_unused=True)
    memory = make("64 KiB", "64 MiB")
    with saved_tensors(memory, min_bytes=1) as saved:
        value = loss()
    assert saved.offloaded > 0
    assert memory.sink()
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or one.equal(other)
    del value
    assert memory.status()["held"]["bytes"] == 0, "freed with the graph"


def test_freed_by_the_backward(make: Make) -> None:
    """Each goes as soon as it was used, though the loss lives on."""
    memory = make()
    x = torch.randn(100, 100, requires_grad=True)
    with saved_tensors(memory, min_bytes=1):
        loss = x.exp().sin().exp().sum()
    assert memory.status()["held"]["blocks"] == 2
    loss.backward()
    assert memory.status()["held"]["blocks"] == 0


def test_a_tensor_is_kept_once(make: Make) -> None:
    """Several operators that save one tensor share it; one that was written to is another."""
    memory = make()
    x = torch.randn(64, 64, requires_grad=True)
    with saved_tensors(memory, min_bytes=1) as saved:
        y = x.tanh()
        loss = (y * y + y.exp() * y).sum()
    assert (saved.offloaded, saved.shared) == (2, 4)
    assert saved.offloaded_bytes == 2 * x.nbytes
    loss.backward()
    buffer = torch.zeros(64, 64)
    with saved_tensors(memory, min_bytes=1) as saved:
        first = x * buffer
        buffer.add_(5.0)
        second = x * buffer
    (grad,) = torch.autograd.grad((first + second).sum(), x)
    assert grad.equal(torch.full((64, 64), 5.0))
    assert saved.offloaded == 2


def test_weights_and_small_tensors_stay(make: Make) -> None:
    """Parameters, views of them and leaves of the user's are in memory anyway."""
    memory = make()
    layer = nn.Linear(64, 64)
    x = torch.randn(8, 64, requires_grad=True)
    with saved_tensors(memory, min_bytes=1) as saved:
        layer(x).sum()
    assert (saved.offloaded, saved.left) == (0, 2)
    with saved_tensors(memory) as saved:
        x.exp().sum()
    assert x.nbytes < SMALL_BYTES
    assert (saved.offloaded, saved.left) == (0, 1)


def test_a_graph_may_be_kept_and_differentiated_twice(make: Make) -> None:
    """`retain_graph` and a second derivative: as without it."""
    x = torch.randn(30, 30, requires_grad=True)

    def gradients(context: Any) -> list[torch.Tensor]:
        with context:
            y = (x.sin() * x.exp()).sum()
            (first,) = torch.autograd.grad(y, x, create_graph=True)
        (again,) = torch.autograd.grad(y, x, retain_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        return [first.detach(), again, second]

    memory = make()
    expected = gradients(contextlib.nullcontext())
    found = gradients(saved_tensors(memory, min_bytes=1))
    assert all(a.equal(b) for a, b in zip(found, expected, strict=True))
    assert memory.status()["held"]["blocks"] == 0


def test_no_room_and_no_bytes_are_errors(make: Make) -> None:
    """A forward that does not fit says so; a backward without its tensors too."""
    memory = make("64 KiB")
    x = torch.randn(100, 100, requires_grad=True)
    with pytest.raises(DoesNotFit), saved_tensors(memory, min_bytes=1):
        x.exp().sin().exp().sum()
    with saved_tensors(memory, min_bytes=1):
        loss = x.exp().sum()
    memory.clear()
    with pytest.raises(TensorLost):
        loss.backward()
