"""Quantised tiers: the stated error bound holds, and what cannot be quantised is left alone."""

from __future__ import annotations

import pytest
import torch

from tiermem.errors import UnknownName
from tiermem.offload.codec import GROUP, Codec

NAMES = ("int8", "fp8", "nf4")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SEED = 7


def samples(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Values of many kinds, among them those where arithmetic is at its ends."""
    generator = torch.Generator().manual_seed(SEED)
    info = torch.finfo(dtype)
    normal = torch.randn(5000, generator=generator, dtype=torch.float64)
    spread = normal * torch.exp2(torch.randint(-10, 10, (5000,), generator=generator))
    ends = torch.tensor([info.max, info.min, info.tiny, info.tiny / 8, 0.0, -0.0, 1.0] * 40)
    return {
        "normal": normal.to(dtype),
        "spread over 20 octaves": spread.to(dtype),
        "the ends of the range": ends.to(torch.float64).clamp(info.min, info.max).to(dtype),
        "below the normal range": (normal * info.tiny / 4).to(dtype),
        "zeros": torch.zeros(100, dtype=dtype),
        "one value": torch.tensor([3.0], dtype=dtype),
        "a group and one": torch.linspace(-2, 2, GROUP + 1, dtype=torch.float64).to(dtype),
        "a matrix": normal[:4992].view(48, 104).to(dtype),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_error_stays_within_the_stated_bound(name: str, dtype: torch.dtype) -> None:
    """Measured against the formula for every value of every sample."""
    codec = Codec(name)
    for what, tensor in samples(dtype).items():
        assert codec.takes(tensor), what
        back = torch.empty_like(tensor)
        codec.decode(codec.encode(tensor), back)
        assert back.isfinite().all(), what
        off = (back.double() - tensor.double()).abs()
        assert (off <= codec.bound(tensor)).all(), what


@pytest.mark.parametrize(("name", "share"), [("int8", 0.9), ("fp8", 0.9), ("nf4", 0.9)])
def test_the_bound_is_not_idle(name: str, share: float) -> None:
    """Some value comes close to its bound, so that the formula says something."""
    codec = Codec(name)
    tensor = torch.rand(200_000, generator=torch.Generator().manual_seed(SEED)) * 2 - 1
    back = torch.empty_like(tensor)
    codec.decode(codec.encode(tensor), back)
    off = (back - tensor).abs().double()
    assert float((off / codec.bound(tensor)).max()) > share


@pytest.mark.parametrize(("name", "bits"), [("int8", 8.5), ("fp8", 8.5), ("nf4", 4.5)])
def test_the_size_is_as_stated(name: str, bits: float) -> None:
    """A code for each value and 4 bytes for each group of 64."""
    codec = Codec(name)
    tensor = torch.ones(GROUP * 1000)
    data = codec.encode(tensor)
    assert data.dtype is torch.uint8
    assert len(data) == codec.nbytes(tensor.numel(), tensor.dtype) == bits * len(tensor) / 8
    assert codec.nbytes(GROUP + 1, torch.float32) == 2 * codec.nbytes(1, torch.float32)


def test_levels_come_back_exactly() -> None:
    """What is representable is not changed: 0 and the largest magnitude of a group."""
    tensor = torch.tensor([0.0, 127.0, -127.0, 5.0])
    back = torch.empty_like(tensor)
    Codec("int8").decode(Codec("int8").encode(tensor), back)
    assert back.equal(tensor)
    for name in NAMES:
        Codec(name).decode(Codec(name).encode(tensor), back)
        assert back[:3].equal(tensor[:3])


def test_more_values_than_one_step_are_one_tensor() -> None:
    """Working in steps of a MiB changes nothing: each part is encoded as it would be alone."""
    tensor = torch.randn(2**20 + 130, generator=torch.Generator().manual_seed(SEED))
    for name in NAMES:
        codec = Codec(name)
        back, tail = torch.empty_like(tensor), torch.empty(130)
        codec.decode(codec.encode(tensor), back)
        codec.decode(codec.encode(tensor[-130:].clone()), tail)
        assert back[-130:].equal(tail)


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_quantised_is_not_taken(name: str) -> None:
    """Integers, booleans, complex and 8-bit floats, infinities, NaN and nothing at all."""
    codec = Codec(name)
    for dtype in (torch.int64, torch.bool, torch.complex64, torch.float8_e5m2):
        assert not codec.takes(torch.zeros(3).to(dtype))
    assert not codec.takes(torch.tensor([1.0, float("inf")]))
    assert not codec.takes(torch.tensor([1.0, float("nan")]))
    assert not codec.takes(torch.empty(0))


def test_an_unknown_codec_is_refused_by_name() -> None:
    """The nearest one that there is, is in the message."""
    with pytest.raises(UnknownName, match="did you mean 'int8'"):
        Codec("int9")
