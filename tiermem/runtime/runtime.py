"""The runtime: one machine's tiers, one policy, and the thread that joins them.

Callers post events and wait for grants; a single thread hands events and completions to the core
and its actions to the executor. Whatever the threads do, the core sees one serial history.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Self

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.core.driver import Tap
from tiermem.core.messages import (
    Action,
    Adopt,
    Forget,
    Hint,
    Move,
    Save,
)
from tiermem.core.policy import Policy
from tiermem.errors import InputError, TiermemError, TimedOut, UnknownName
from tiermem.models.topology import Topology
from tiermem.runtime.counters import Counters
from tiermem.runtime.executor import RuntimeExecutor
from tiermem.runtime.grants import Grant
from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.leasing import Leasing
from tiermem.runtime.machine import topology_of
from tiermem.runtime.mind import Mind
from tiermem.runtime.mover import Lost
from tiermem.runtime.observer import Observer
from tiermem.runtime.prometheus import Endpoint
from tiermem.runtime.saving import Saving
from tiermem.runtime.sizes import charged_bytes
from tiermem.runtime.status import Status
from tiermem.runtime.stores import Store


class Runtime:
    """Blocks of bytes over `stores`, fastest first, under `policy`.

    `policy` is a name, `module:Class` or an object, as in `tiermem simulate`. `timeout_s` is how
    long a call waits before it raises `TimedOut`. `taps` see every event with its actions. Any
    thread may call anything. What the file tiers hold from earlier processes is found at once.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        policy: str | Policy = "lru",
        *,
        timeout_s: float = 30.0,
        taps: Sequence[Tap] = (),
        topology: Topology | None = None,
    ) -> None:
        if not stores:
            raise InputError("a runtime needs a tier", key="stores")
        self.names = Names()
        self.inventory = Inventory(stores, self.names)
        self.timeout_s = timeout_s
        self.tiers = tuple(stores)
        if self.tiers[0] not in self.inventory.memory:
            raise InputError(f"tier {self.tiers[0]!r} is the fastest and holds files, not memory")
        self.capacities_bytes = {tier: self.inventory.capacity_bytes(tier) for tier in stores}
        kinds = {tier: store.kind for tier, store in stores.items()}
        self.topology = topology or topology_of(kinds, self.capacities_bytes)
        self.observer = Observer(stores, policy if isinstance(policy, str) else None)
        if isinstance(policy, str):
            policy = make_policy(policy, self.capacities_bytes)
        self.policy = policy
        self.controller = Controller(self.topology, self.capacities_bytes, policy)
        self._lost: set[int] = set()  # blocks of failed moves since the last flush began
        self._executor = RuntimeExecutor(self.inventory, blame=self._blame, tell=self._tell)
        self._mind = Mind(self.controller, self._executor, (self.observer, *taps), self._fail)
        self._leasing = Leasing(
            self.controller,
            self.inventory,
            post_now=self._mind.post_now,
            post=self._mind.post,
            call=self._mind.call,
        )
        self._closed, self._pid = False, os.getpid()
        self._adopt()
        self._mind.start()
        self.observer.watch()
        atexit.register(self.close)

    # -- blocks ---------------------------------------------------------------------------------

    def block(self, key: bytes, nbytes: int, *, keep: bool = True) -> int:
        """The block whose content is called `key`: the same number for the same key. `keep`: it
        is to be found by later processes."""
        return self.names.block(key, nbytes, keep=keep)

    def known(self, keys: Iterable[bytes]) -> int:
        """How many leading `keys` are in some tier, after all that was posted before. They may
        leave at any time."""
        found = 0

        def count_them() -> None:
            nonlocal found
            rooms = self.controller.table.rooms.values()
            for key in keys:
                block = self.names.find(key)
                if block is None or not any(room.readable(block) for room in rooms):
                    break
                found += 1

        self._mind.ask(count_them, self.timeout_s, "the core did not answer")
        return found

    def acquire(
        self, blocks: Sequence[int], *, at: str | None = None, timeout_s: float | None = None
    ) -> Grant:
        """Wait for the right to use `blocks`, a chain in prefix order, at the tier `at` (the
        fastest by default).

        Raises `Denied` when they can never fit there, `TimedOut` when they did not get their room
        in time, `RuntimeFault` when the runtime is closed or was forked.
        """
        wait_s = self.timeout_s if timeout_s is None else timeout_s
        future = self.acquire_soon(blocks, at=at)
        try:
            return future.result(wait_s)
        except FutureTimeout:
            future.cancel()
        except BaseException:
            future.cancel()
            raise
        if not future.cancelled():
            return future.result()  # it came just now
        held = len(self.controller.leases)
        raise TimedOut(
            f"no room for {len(blocks)} blocks in tier {at or self.tiers[0]!r} within {wait_s:g} s;"
            f" {held} leases are held or wait: release some, or give the tier more memory"
        )

    def acquire_soon(self, blocks: Sequence[int], *, at: str | None = None) -> Future[Grant]:
        """As `acquire`, without waiting. Cancelling the future gives the request up."""
        tier, chain = self._memory_tier(at), tuple(blocks)
        if len(set(chain)) != len(chain):
            raise InputError("a chain names each block once")
        return self._leasing.ask(chain, tier)

    def hint(self, blocks: Sequence[int], *, at: str | None = None) -> None:
        """`blocks` may be wanted soon; the policy decides whether to bring them."""
        self._mind.post(Hint(tuple(blocks), self._memory_tier(at)))

    def forget(self, blocks: Iterable[int]) -> None:
        """Delete `blocks` from every tier; who holds them reads on. Who asks later finds none,
        and has to name the block again."""
        chain = tuple(blocks)
        self.names.expect_no_more(chain)

        def forget() -> None:
            self._mind.post_now(Forget(chain))
            rooms = self.controller.table.rooms.values()
            leases = self.controller.leases.values()
            held = {block for lease in leases for block in lease.blocks}
            for block in chain:
                if block not in held and not any(block in room.copies for room in rooms):
                    self.names.discard(block)

        self._mind.call(forget)

    def clear(self, tier: str | None = None) -> None:
        """Delete everything, from `tier` or from all of them. Returns when it is gone, save for
        what is held by leases, which goes with them."""
        if tier is not None and tier not in self.tiers:
            raise UnknownName("tier", tier, self.tiers)

        table, names = self.controller.table.rooms, self.tiers if tier is None else (tier,)
        rooms = [table[name] for name in names]

        def forget() -> Callable[[], bool]:
            blocks = dict.fromkeys(block for room in rooms for block in room.copies)
            self._mind.post_now(Forget(tuple(blocks), tier))
            return gone

        def gone() -> bool:
            held = {block for lease in self.controller.leases.values() for block in lease.blocks}
            return all(room.doomed.keys() <= held for room in rooms)

        self._mind.ask(forget, self.timeout_s, "what is moving did not end")

    def flush(self, timeout_s: float | None = None) -> int:
        """Copy every kept block that is in memory only to the first file tier, and make all of
        that durable. Returns how many blocks are not; at least 1 where a device refused to."""
        files = self.inventory.files
        if not files:
            return 0
        tier = next(iter(files))
        saving = Saving(self.controller, self.names, tier)
        self._lost.clear()

        def save() -> Callable[[], bool]:
            self._mind.post_now(Save(saving.wanted(), tier))
            return lambda: saving.done(self._lost)

        wait_s = self.timeout_s if timeout_s is None else timeout_s
        self._mind.ask(save, wait_s, f"tier {tier!r} did not take everything")
        faults = [fault for store in files.values() if (fault := store.sync()) is not None]
        return saving.failed(self._lost, synced=not faults)

    def counters(self) -> Counters:
        """What became of the blocks of each tier so far; the words are the glossary's."""
        return self.observer.counters()

    def status(self) -> Status:
        """The counters with what they mean, as `tiermem status` shows them."""
        return self.observer.status()

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> Endpoint:
        """Serve the counters to Prometheus until `close`; port 0 takes a free one, in `.port`."""
        return self.observer.serve(port, host)

    # -- life -----------------------------------------------------------------------------------

    def close(self, *, flush: bool = True) -> None:
        """Finish what is under way, keep what is to be kept (`flush`), and let every store go.
        Closing twice is closing once; in a forked child it does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            if flush and self._mind.usable:
                self.flush()
        finally:
            self._mind.end(self.timeout_s)
            self.observer.close()
            self._executor.close()
            self.inventory.close()
            atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """What file tiers hold already is known to the core before anybody asks."""
        for tier, store in self.inventory.files.items():
            found = store.keys()
            blocks = tuple(self.names.block(key, nbytes) for key, nbytes in found)
            sizes = tuple(charged_bytes(nbytes) for _, nbytes in found)
            if blocks:
                self._mind.post_now(Adopt(blocks, sizes, tier))

    def _tell(self, action: Action) -> None:
        self._leasing.tell(action)

    def _fail(self, error: TiermemError) -> None:
        self._leasing.fail(error)

    def _blame(self, move: Move, lost: Lost) -> None:
        self.observer.blame(move, lost)
        self._lost.update(lost)

    def _memory_tier(self, tier: str | None) -> str:
        name = self.tiers[0] if tier is None else tier
        if name not in self.inventory.memory:
            raise UnknownName("memory tier", name, self.inventory.memory)
        return name
