"""Quantised tiers, for those who ask: a tensor as 8 or 4 bits a value, with a scale for each group.

A group is 64 values in order; its scale s is kept beside the codes. m is the largest magnitude in
the group. What comes back differs from what went in by at most

    int8   s / 2                       with s = m / 127
    fp8    max(|x| / 16, s / 1024)     with s = m / 448    (e4m3: three bits of mantissa)
    nf4    0.1520 m                    with s = m          (half the widest gap between 16 levels)

plus the rounding of the arithmetic and of the dtype itself (`bound` adds both up). Values that are
not finite, and dtypes that are no ordinary floating ones, are stored as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import torch

from tiermem.errors import UnknownName

Tensor: TypeAlias = Any

GROUP = 64
"""Values that share a scale: 4 bytes of scale on 64 or 32 bytes of codes (8 for float64)."""

_STEP = GROUP * 16384  # values at a time, so that what is made on the way stays a few MiB
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_SLACK = 4 * 2.0**-23  # a few roundings of float32, as a share of the group's largest magnitude

# The 16 quantiles of a normal distribution of Dettmers et al., "QLoRA: Efficient Finetuning of
# Quantized LLMs", 2023, appendix E.
NF4_LEVELS = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)


class _Kind(Protocol):
    """How the values of a group, divided by their scale, become codes."""

    top: float  # the largest magnitude that a code stands for
    bits: int

    def codes(self, values: Tensor) -> Tensor:
        """Bytes of codes for `values`, shape (groups, 64), within -top and top."""
        ...

    def values(self, codes: Tensor, dtype: Any) -> Tensor:
        """The inverse, shape (groups, 64)."""
        ...

    def error(self, magnitude: Tensor, scale: Tensor) -> Tensor:
        """The most that a value of this magnitude may move, given its group's scale."""
        ...


class _Int8:
    top, bits = 127.0, 8

    def codes(self, values: Tensor) -> Tensor:
        return values.round().clamp_(-127, 127).to(torch.int8).view(torch.uint8)

    def values(self, codes: Tensor, dtype: Any) -> Tensor:
        return codes.view(torch.int8).to(dtype)

    def error(self, magnitude: Tensor, scale: Tensor) -> Tensor:
        return (scale / 2).expand_as(magnitude)


class _FP8:
    top, bits = 448.0, 8

    def codes(self, values: Tensor) -> Tensor:
        return values.clamp_(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)

    def values(self, codes: Tensor, dtype: Any) -> Tensor:
        return codes.view(torch.float8_e4m3fn).to(dtype)

    def error(self, magnitude: Tensor, scale: Tensor) -> Tensor:
        return torch.maximum(magnitude / 16, (scale / 1024).expand_as(magnitude))


class _NF4:
    top, bits = 1.0, 4

    def codes(self, values: Tensor) -> Tensor:
        levels = torch.tensor(NF4_LEVELS, dtype=values.dtype, device=values.device)
        nearest = torch.bucketize(values, (levels[1:] + levels[:-1]) / 2).to(torch.uint8)
        return nearest[:, 0::2] | nearest[:, 1::2] << 4

    def values(self, codes: Tensor, dtype: Any) -> Tensor:
        levels = torch.tensor(NF4_LEVELS, dtype=dtype, device=codes.device)
        pairs = torch.stack((codes & 15, codes >> 4), dim=-1)
        return levels[pairs.view(len(codes), -1).to(torch.int64)]

    def error(self, magnitude: Tensor, scale: Tensor) -> Tensor:
        gap = max(b - a for a, b in pairwise(NF4_LEVELS))
        return (scale * gap / 2).expand_as(magnitude)


_KINDS: dict[str, _Kind] = {"int8": _Int8(), "fp8": _FP8(), "nf4": _NF4()}


class Codec:
    """One way to keep a tensor in fewer bits: `int8`, `fp8` or `nf4`.

    The bytes are the scales of all groups, then the codes of all groups; the last group is filled
    up with zeros.
    """

    def __init__(self, name: str) -> None:
        if name not in _KINDS:
            raise UnknownName("codec", name, _KINDS)
        self.name = name
        self._kind = _KINDS[name]

    def takes(self, tensor: Tensor) -> bool:
        """Whether `tensor` is of an ordinary floating dtype, and every value of it finite."""
        if tensor.dtype not in _DTYPES or not tensor.numel():
            return False
        flat = tensor.reshape(-1)
        return all(bool(part.isfinite().all()) for part in flat.split(_STEP))

    def nbytes(self, count: int, dtype: Any) -> int:
        """Bytes of `count` encoded values."""
        groups = -(-count // GROUP)
        return groups * (int(_arithmetic(dtype).itemsize) + GROUP * self._kind.bits // 8)

    def encode(self, tensor: Tensor) -> Tensor:
        """The values of `tensor` in order, as `nbytes` of uint8 on its device."""
        flat = tensor.detach().reshape(-1)
        data = torch.empty(
            self.nbytes(len(flat), flat.dtype), dtype=torch.uint8, device=flat.device
        )
        for values, scales, codes in self._parts(flat, data):
            groups = _grouped(values)
            scale = self._scale(groups)
            scales.copy_(scale)
            codes.copy_(self._kind.codes(groups / scale[:, None]))
        return data

    def decode(self, data: Tensor, tensor: Tensor) -> None:
        """Fill `tensor`, contiguous, with what `encode` made of one of its size and dtype."""
        flat = tensor.view(-1)
        most = torch.finfo(_arithmetic(flat.dtype)).max
        for values, scales, codes in self._parts(flat, data):
            made = self._kind.values(codes, scales.dtype).mul_(scales[:, None])
            values.copy_(made.clamp_(-most, most).view(-1)[: len(values)])

    def bound(self, tensor: Tensor) -> Tensor:
        """How far each value of `tensor` may be off after `encode` and `decode`; float64."""
        flat = tensor.detach().reshape(-1)
        groups = _grouped(flat)
        scale = self._scale(groups).double()[:, None]
        magnitude = groups.abs().double()
        error = self._kind.error(magnitude, scale)
        own = torch.finfo(flat.dtype)
        error = error + scale * self._kind.top * _SLACK
        error = error + (magnitude + error) * own.eps / 2 + own.smallest_normal * own.eps / 2
        return error.view(-1)[: len(flat)].view(tensor.shape)

    def _scale(self, groups: Tensor) -> Tensor:
        """Per group; never so small that dividing by it would lose the values."""
        least = torch.finfo(groups.dtype).smallest_normal
        return (groups.abs().amax(dim=1) / self._kind.top).clamp_min_(least)

    def _parts(self, flat: Tensor, data: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Values, their scales, and the codes of their groups, as views, a few MiB at a time."""
        dtype, width = _arithmetic(flat.dtype), GROUP * self._kind.bits // 8
        groups = -(-len(flat) // GROUP)
        scales = data[: groups * dtype.itemsize].view(dtype)
        codes = data[groups * dtype.itemsize :].view(groups, width)
        for start in range(0, len(flat), _STEP):
            rows = slice(start // GROUP, min(groups, (start + _STEP) // GROUP))
            yield flat[start : start + _STEP], scales[rows], codes[rows]


def _arithmetic(dtype: Any) -> Any:
    return torch.float64 if dtype is torch.float64 else torch.float32


def _grouped(values: Tensor) -> Tensor:
    """A fresh copy in the dtype of the arithmetic, shape (groups, 64), zeros at the end."""
    groups = -(-len(values) // GROUP)
    made = values.new_zeros(groups * GROUP, dtype=_arithmetic(values.dtype))
    made[: len(values)] = values
    return made.view(groups, GROUP)
