"""A grant: the right to read some blocks at one tier, and to write those that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tiermem.core.messages import Commit, Event, Release, Runs

if TYPE_CHECKING:
    from tiermem.runtime.inventory import Inventory


class Grant:
    """What `Runtime.acquire` gives. A context manager: leaving it releases.

    `blocks` is what was asked for; the first `ready_blocks` of them are there, by the tier they
    came from in `hits`. `missing` are the holder's to write before `commit`; without one they
    vanish at the release. The bytes may be looked at until then and no longer.
    """

    def __init__(
        self,
        lease: int,
        at: str,
        blocks: tuple[int, ...],
        hits: Runs,
        missing: frozenset[int],
        *,
        inventory: Inventory,
        post: Callable[[Event], None],
    ) -> None:
        self.lease = lease
        self.at = at
        self.blocks = blocks
        self.hits = hits
        self.missing = missing
        self.ready_blocks = next(
            (index for index, block in enumerate(blocks) if block in missing), len(blocks)
        )
        self._inventory = inventory
        self._post = post
        self._open = True

    def views(self, block: int) -> Sequence[Any]:
        """The bytes of one of its blocks where they lie: arrays of uint8 in host memory, tensors
        on a device; several where the room was scattered."""
        assert self._open, "the grant was released"
        return self._inventory.views(self.at, block)

    def commit(self, rewritten: Sequence[int] = ()) -> None:
        """The missing blocks are written. Those `rewritten` were there and were changed in place:
        copies of them in other tiers are stale."""
        assert self._open, "the grant was released"
        self._fence()
        self._post(Commit(self.lease, tuple(rewritten)))

    def release(self) -> None:
        """Give the right back; once is enough."""
        if self._open:
            self._open = False
            self._fence()
            self._post(Release(self.lease))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _fence(self) -> None:
        """On a device: whatever was started on these bytes comes before what the core does next."""
        store: Any = self._inventory.memory[self.at]
        if store.kind == "device":
            for block in self.blocks:
                store.fence(self._inventory.extent(self.at, block))
