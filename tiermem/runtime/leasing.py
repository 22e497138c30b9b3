"""Leases that callers wait for: from the request to the grant, whoever gives up on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import count

from tiermem.core.controller import Controller
from tiermem.core.messages import Acquire, Action, Deny, Event, Ready, Release, Runs
from tiermem.core.table import ARRIVING
from tiermem.errors import Denied, InputError, TiermemError
from tiermem.runtime.grants import Grant
from tiermem.runtime.inventory import Inventory
from tiermem.runtime.sizes import charged_bytes
from tiermem.units import format_bytes


class Leasing:
    """Asks the core for leases and makes grants of its answers.

    `post_now` gives an event to the core on its own thread, `post` and `call` from any thread.
    """

    def __init__(
        self,
        controller: Controller,
        inventory: Inventory,
        *,
        post_now: Callable[[Event], None],
        post: Callable[[Event], None],
        call: Callable[[Callable[[], None]], None],
    ) -> None:
        self._controller = controller
        self._inventory = inventory
        self._post_now, self._post, self._call = post_now, post, call
        self._numbers = count(1)
        self._waiting: dict[int, Future[Grant]] = {}

    def ask(self, chain: tuple[int, ...], tier: str) -> Future[Grant]:
        """Ask for `chain` at `tier`; cancelling the future gives the request up. Any thread."""
        lease, names = next(self._numbers), self._inventory.names
        try:
            sizes = tuple(charged_bytes(names.nbytes(block)) for block in chain)
        except KeyError as error:
            raise _unnamed(error.args[0]) from None
        future: Future[Grant] = Future()

        def ask() -> None:
            gone = [block for block in chain if not names.named(block)]
            if gone and future.set_running_or_notify_cancel():  # forgotten since it was asked for
                self._waiting.pop(lease, None)
                future.set_exception(_unnamed(gone[0]))
            elif not future.cancelled():
                self._post_now(Acquire(lease, chain, sizes, tier))

        def give_up(ended: Future[Grant]) -> None:
            if ended.cancelled():
                self._call(lambda: self._give_up(lease))

        self._waiting[lease] = future  # before the call: should the core stop now, it is told
        try:
            self._call(ask)
        except TiermemError:
            self._waiting.pop(lease, None)
            raise
        future.add_done_callback(give_up)
        return future

    def tell(self, action: Action) -> None:
        """The core answered a lease; on its thread."""
        match action:
            case Ready(lease, hits):
                self._grant(lease, hits)
            case Deny(lease, missing_bytes):
                future = self._waiting.pop(lease, None)
                if future is not None and future.set_running_or_notify_cancel():
                    future.set_exception(self._denied(missing_bytes))

    def fail(self, error: TiermemError) -> None:
        """The core answers no more: whoever waits hears why."""
        for future in list(self._waiting.values()):
            if not future.done() and (future.running() or future.set_running_or_notify_cancel()):
                future.set_exception(error)
        self._waiting.clear()

    def _grant(self, lease: int, hits: Runs) -> None:
        future = self._waiting.get(lease)  # until it is answered: what follows may fail
        held = self._controller.leases[lease]
        if future is None or not future.set_running_or_notify_cancel():
            self._later(lambda: self._give_up(lease))
            return
        chain = zip(held.blocks, held.copies, strict=True)
        missing = frozenset(b for b, copy in chain if copy.state is ARRIVING and copy.moving < 0)
        fault = self._inventory.allocate(held.at, [b for b in held.blocks if b in missing])
        if fault is not None:  # only what hangs takes room that the core does not know of
            self._later(lambda: self._give_up(lease))
            stuck = format_bytes(self._inventory.stuck_bytes)
            self._waiting.pop(lease, None)
            future.set_exception(Denied(f"{fault.detail}: transfers that hang hold {stuck} of it"))
            return
        what = (lease, held.at, held.blocks, hits, missing)
        self._waiting.pop(lease, None)
        future.set_result(Grant(*what, inventory=self._inventory, post=self._post))

    def _later(self, what: Callable[[], None]) -> None:
        """After the answers of the event that is being handled."""
        self._call(what)

    def _give_up(self, lease: int) -> None:
        self._waiting.pop(lease, None)
        if lease in self._controller.leases:
            self._post_now(Release(lease))

    def _denied(self, missing_bytes: int) -> Denied:
        rooms = self._controller.table.rooms.values()
        sizes = ", ".join(f"{room.name} {format_bytes(room.capacity_bytes)}" for room in rooms)
        return Denied(
            f"does not fit: {format_bytes(missing_bytes)} more than the tier can offer ({sizes})"
        )


def _unnamed(block: int) -> InputError:
    return InputError(f"block {block} was forgotten, or never named: name it again by its key")
