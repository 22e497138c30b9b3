"""A wire between two places: how fast, which ways at once, and what each transfer costs first.

A link does not know what it carries, nor how many flows share it.
"""

from __future__ import annotations

from dataclasses import dataclass

HOST = "host"
"""The one junction where links meet without a tier: the root complex of the machine."""


@dataclass(frozen=True, slots=True)
class Link:
    """A wire between `ends`, each a tier's name or the junction `"host"`.

    `bytes_per_s` is per direction. A full-duplex link has that much each way at once; a half-duplex
    one shares it between the directions, as the channels of a DIMM do. `setup_ns` is paid once by
    every transfer, so one of s bytes alone takes `setup_ns + s / bytes_per_s`.
    """

    name: str
    ends: tuple[str, str]
    bytes_per_s: float
    full_duplex: bool
    setup_ns: int

    def __post_init__(self) -> None:
        assert self.bytes_per_s > 0
        assert self.setup_ns >= 0
        assert self.ends[0] != self.ends[1], self.ends
