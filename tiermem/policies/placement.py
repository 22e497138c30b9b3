"""Where victims go, and when bringing a block back beats computing it again."""

from __future__ import annotations

from collections.abc import Sequence

from tiermem.core.messages import Hint
from tiermem.core.policy import Found, View
from tiermem.errors import InputError


class Waterfall:
    """Write back: a victim goes to the next tier below, and every block found is fetched.

    `write_through=true` also copies what is written to the first tier below at once. `ahead` is
    the share of a tier that is demoted beyond need (see `Place.demote_ahead`).
    """

    def __init__(self, write_through: bool = False, ahead: float = 1 / 64) -> None:
        if not isinstance(write_through, bool):
            raise InputError(f"{write_through!r} is neither true nor false", key="write_through")
        if isinstance(ahead, bool) or not isinstance(ahead, int | float) or not 0 <= ahead < 1:
            raise InputError(f"{ahead!r} is not a share, at least 0 and below 1", key="ahead")
        self._write_through = write_through
        self.demote_ahead = float(ahead)

    def admit(self, blocks: Sequence[int], at: str, view: View) -> Sequence[str]:
        """The first tier below when writing through."""
        return view.topology.below(at)[:1] if self._write_through else ()

    def demote(self, blocks: Sequence[int], tier: str, view: View) -> Sequence[str | None]:
        """The next tier below; out of the last one a block is dropped."""
        below = view.topology.below(tier)
        return [below[0] if below else None] * len(blocks)

    def reuse(self, found: Sequence[Found], total_bytes: int, at: str, view: View) -> int:
        """All of them."""
        return sum(run.blocks for run in found)

    def site(self, tiers: Sequence[str], view: View) -> str:
        """The fastest."""
        return tiers[0]


class Cheapest(Waterfall):
    """As `Waterfall`, but the tail of a prefix is computed again where fetching it, on idle
    links, would take longer."""

    def reuse(self, found: Sequence[Found], total_bytes: int, at: str, view: View) -> int:
        """The number of leading blocks with the least estimated time to have everything at `at`."""
        blocks, here_bytes, fetch_ns = 0, 0, 0
        best: tuple[int, int] | None = None
        rest = view.recompute_ns(0, total_bytes)
        if rest is None:
            return super().reuse(found, total_bytes, at, view)
        for run in found:
            if run.tier != at:
                best = min(best or (fetch_ns + rest, -blocks), (fetch_ns + rest, -blocks))
                fetch_ns += view.topology.time_ns(run.tier, at, run.nbytes)
            blocks += run.blocks
            here_bytes += run.nbytes
            rest = view.recompute_ns(here_bytes, total_bytes - here_bytes) or 0
        last = (fetch_ns + rest, -blocks)
        return -min(best or last, last)[1]


class NoPrefetch:
    """Nothing is brought before it is asked for."""

    def prefetch(self, hint: Hint, view: View) -> Sequence[int]:
        """Nothing."""
        return ()


class Obey:
    """Whatever is hinted at is brought, as far as room is free."""

    def prefetch(self, hint: Hint, view: View) -> Sequence[int]:
        """All of it."""
        return hint.blocks
