"""Tensors of a CUDA device, and a device as the fastest tier: right in the order of streams."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tiermem.offload.embedding import TieredEmbedding
from tiermem.offload.memory import TieredMemory
from tiermem.offload.module import offload, streaming_of
from tiermem.offload.saved import saved_tensors

Make = Callable[..., TieredMemory]
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
TIERS: list[dict[str, Any]] = [{}, {"device": "cuda:0", "device_bytes": "64 MiB"}]
ids = pytest.mark.parametrize("tiers", TIERS, ids=["host", "device"])


@ids
def test_put_after_the_kernel_and_freed_at_once(make: Make, tiers: dict[str, Any]) -> None:
    """known_faults 112 and 113: a kernel on another stream writes, the tensor is put, written
    over and freed; each copy has its own kernel's bytes."""
    memory = make("128 MiB", "512 MiB", **tiers)
    stream, handles = torch.cuda.Stream(), []
    with torch.cuda.stream(stream):
        for number in range(60):
            tensor = torch.full((1 << 20,), float(number), device="cuda").mul_(2.0)
            handles.append(memory.put(tensor))
            tensor.fill_(-1.0)
            del tensor
    for number, handle in enumerate(handles):
        with handle.lease() as lent:
            assert lent.device.type == ("cuda" if tiers else "cpu")
            assert lent.eq(2.0 * number).all()
        assert handle.load().device.type == "cuda"
        assert handle.load("cpu").eq(2.0 * number).all()


@ids
def test_views_on_the_device(make: Make, tiers: dict[str, Any]) -> None:
    """known_faults 117, for every dtype that has a kernel there."""
    memory = make("32 MiB", "256 MiB", **tiers)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64, torch.int64):
        whole = torch.randint(0, 2, (60, 50), device="cuda").to(dtype)
        for view in (whole[3:], whole.t(), whole[:, 1::2], whole[:1].expand(9, 50)):
            back = memory.put(view).load()
            assert back.to(torch.complex64).equal(view.to(torch.complex64))


@ids
def test_a_module_on_the_device(make: Make, tiers: dict[str, Any]) -> None:
    """The same bits, one unit ahead, with the device's kernels running late."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(24))).cuda()
    plain = copy.deepcopy(model)
    offload(
        model, make("64 MiB", "512 MiB", **({**tiers, "device_bytes": "16 MiB"} if tiers else {}))
    )
    x = torch.randn(64, 1024, device="cuda")
    with torch.no_grad():
        for _ in range(5):
            assert model(x).equal(plain(x))
    assert streaming_of(model).ahead > 100


@ids
def test_activations_of_the_device(make: Make, tiers: dict[str, Any]) -> None:
    """The same gradients bit by bit, and nothing left behind."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory = make("128 MiB", "512 MiB", **tiers)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True).cuda()
    x = torch.randn(16, 64, 256, device="cuda", requires_grad=True)
    leaves = [x, *layer.parameters()]
    expected = torch.autograd.grad(layer(x).pow(2).sum(), leaves)
    with saved_tensors(memory) as saved:
        loss = layer(x).pow(2).sum()
    assert saved.offloaded > 5
    found = torch.autograd.grad(loss, leaves)
    torch.use_deterministic_algorithms(False)
    assert all(a.equal(b) for a, b in zip(found, expected, strict=True))
    del loss
    assert memory.status()["held"]["blocks"] == 0


def test_rows_for_the_device(make: Make) -> None:
    """Ids on the device get their rows there, and gradients come back from there."""
    table = torch.randn(3000, 16)
    tiered = TieredEmbedding.from_pretrained(table, make("1 MiB", "64 MiB"), freeze=False)
    where = torch.randint(0, 3000, (50,), device="cuda")
    rows = tiered(where)
    assert rows.device.type == "cuda"
    assert rows.cpu().equal(table[where.cpu()])
    rows.sum().backward()
    torch.optim.SGD(tiered.parameters(), lr=1.0).step()
    assert not tiered.dense().equal(table)


def test_a_codec_on_the_device(make: Make) -> None:
    """Encoded and decoded by the device's kernels, within the same bound."""
    memory = make("32 MiB", "128 MiB", codec="nf4")
    tensor = torch.randn(300, 1000, device="cuda")
    assert memory.codec is not None
    off = (memory.put(tensor).load() - tensor).abs().double()
    assert (off <= memory.codec.bound(tensor)).all()
