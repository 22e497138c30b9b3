"""What holds bytes, and what computes beside them: `Tier` and `Compute`.

Frozen values. No time passes here, and a tier knows neither its links nor its contents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["hbm", "dram", "cxl", "cxl_pim", "nvme", "csd"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Compute:
    """A group of equal devices that run operators over the bytes of their tier.

    Peaks are of one device, dense, BF16. The three rates below are of the whole group and carry
    every efficiency, so a step takes `max(bytes / memory_bytes_per_s, flops / gemm_flops_per_s)`
    plus `kernel_ns` for each kernel. `parallel_efficiency` slows the rates of a tensor-parallel
    group only: the kernels of its devices run side by side.
    """

    flops_per_s: float
    bytes_per_s: float
    devices: int
    gemm_efficiency: float
    attention_efficiency: float
    bandwidth_efficiency: float
    kernel_ns: int
    parallel_efficiency: float

    def __post_init__(self) -> None:
        shares = (
            self.gemm_efficiency,
            self.attention_efficiency,
            self.bandwidth_efficiency,
            self.parallel_efficiency,
        )
        assert all(0 < share <= 1 for share in shares), shares
        assert min(self.flops_per_s, self.bytes_per_s) > 0
        assert self.devices >= 1
        assert self.kernel_ns >= 0

    @property
    def gemm_flops_per_s(self) -> float:
        """FLOP/s that the group reaches in matrix products."""
        return self._group(self.flops_per_s * self.gemm_efficiency)

    @property
    def attention_flops_per_s(self) -> float:
        """FLOP/s that the group reaches in attention."""
        return self._group(self.flops_per_s * self.attention_efficiency)

    @property
    def memory_bytes_per_s(self) -> float:
        """Bytes per second that the group reaches when it streams its own memory."""
        return self._group(self.bytes_per_s * self.bandwidth_efficiency)

    def _group(self, rate: float) -> float:
        return rate * self.devices * self.parallel_efficiency


@dataclass(frozen=True, slots=True)
class Tier:
    """A place that holds bytes: all of its devices as one.

    `read_bytes_per_s` and `write_bytes_per_s` are what leaves and what enters over its ports, and
    `latency_ns` is the first access of a transfer from or to it. What `compute` reads inside the
    device does not pass these sides.
    """

    name: str
    kind: Kind
    capacity_bytes: int
    read_bytes_per_s: float
    write_bytes_per_s: float
    latency_ns: int
    compute: Compute | None = None

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind
        assert self.capacity_bytes >= 1
        assert self.latency_ns >= 0
        assert min(self.read_bytes_per_s, self.write_bytes_per_s) > 0
