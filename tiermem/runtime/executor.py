"""RuntimeExecutor: actions in real time, on worker threads, with one queue of completions.

Only `run` calls back into the core, and only one thread calls `run`: the core needs no lock, and
every run is a serial history that can be replayed.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tiermem.core.messages import Action, Done, Drop, Move, Run, Wake
from tiermem.runtime.inventory import Inventory
from tiermem.runtime.mover import Lost, Mover
from tiermem.runtime.stores import Fault, FaultKind

Answer = Callable[[Done], None]
Kernel = Callable[[Run], Any]
Blame = Callable[[Move, Lost], None]

WORKERS = 4
"""Moves under way at once; what each of them has in flight is the store's business."""


class RuntimeExecutor:
    """A body made of threads; see `tiermem.core.driver.Executor`.

    `kernels` run a `Run` at a tier, by the tier's name. `blame(move, lost)` hears of every move
    that failed and `tell(action)` of every other notice, on the thread that runs the core.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        workers: int = WORKERS,
        kernels: Mapping[str, Kernel] | None = None,
        blame: Blame | None = None,
        tell: Callable[[Action], None] | None = None,
    ) -> None:
        self._inventory = inventory
        self._mover = Mover(inventory)
        self._kernels = dict(kernels or {})
        self._blame = blame
        self._tell = tell
        self._start_ns = time.monotonic_ns()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._wakes: list[tuple[int, int, Callable[[], None]]] = []
        self._outstanding = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"tiermem-mover-{index}", daemon=True)
            for index in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    # -- what the driver asks ------------------------------------------------------------------

    def now(self) -> int:
        """Nanoseconds since this body began."""
        return time.monotonic_ns() - self._start_ns

    def submit(self, action: Action, done: Answer) -> None:
        """Start `action`; called on the thread that calls `run`."""
        match action:
            case Move():
                self._submit_move(action, done)
            case Run():
                self._start(lambda: self._run_kernel(action, done))
            case Wake():
                self._outstanding += 1
                heapq.heappush(
                    self._wakes, (action.when, action.id, lambda: self._end(done, Done(action.id)))
                )
            case Drop(blocks, tier, _):
                self._inventory.free(tier, blocks)
            case _ if self._tell is not None:
                self._tell(action)

    def run(self, until: Callable[[], bool]) -> None:
        """Deliver completions until `until()` is true or nothing is outstanding."""
        while not until() and (self._outstanding or not self._inbox.empty()):
            self.deliver()

    # -- what the owner of the thread asks ------------------------------------------------------

    def call(self, what: Callable[[], None]) -> None:
        """Have `what` called on the thread that delivers; from any thread."""
        self._inbox.put(what)

    def deliver(self) -> None:
        """Wait for the next completion, call or wake, and deliver it."""
        if self._wakes:
            wait_s = (self._wakes[0][0] - self.now()) / 1e9
            try:
                call = self._inbox.get(timeout=max(0.0, wait_s)) if wait_s > 0 else None
            except queue.Empty:
                call = None
            if call is None:
                call = heapq.heappop(self._wakes)[2]
        else:
            call = self._inbox.get()
        if call is not None:
            call()

    @property
    def outstanding(self) -> int:
        """Moves, runs and wakes that are not answered."""
        return self._outstanding

    def close(self) -> None:
        """End the workers; those that hang in a device are left behind."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=1.0)

    # -- moves and runs -------------------------------------------------------------------------

    def _submit_move(self, move: Move, done: Answer) -> None:
        fault = self._inventory.allocate(move.target, move.blocks)
        if fault is not None:
            lost = dict.fromkeys(move.blocks, fault)
            self._outstanding += 1
            self._inbox.put(lambda: self._moved(move, lost, done))
            return
        self._start(lambda: self._carry(move, done))

    def _start(self, job: Callable[[], None]) -> None:
        self._outstanding += 1
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _carry(self, move: Move, done: Answer) -> None:
        try:
            lost = self._mover.move(move.blocks, move.source, move.target)
        except Exception as error:  # whatever it is, the core must hear of the move's end
            fault = Fault(FaultKind.IO, f"{type(error).__name__}: {error}")
            lost = dict.fromkeys(move.blocks, fault)
        self._inbox.put(lambda: self._moved(move, lost, done))

    def _moved(self, move: Move, lost: Lost, done: Answer) -> None:
        if not lost:
            self._end(done, Done(move.id))
            return
        late = [block for block, fault in lost.items() if fault.kind is FaultKind.TIMEOUT]
        self._inventory.strand(move.target, late)
        self._inventory.free(move.target, [block for block in lost if block not in set(late)])
        if self._blame is not None:
            self._blame(move, lost)
        self._end(done, Done(move.id, False, tuple(lost)))

    def _run_kernel(self, run: Run, done: Answer) -> None:
        try:
            answer = Done(run.id, True, self._kernels[run.at](run))
        except Exception as error:  # as above
            answer = Done(run.id, False, f"{type(error).__name__}: {error}")
        self._inbox.put(lambda: self._end(done, answer))

    def _end(self, done: Answer, answer: Done) -> None:
        self._outstanding -= 1
        done(answer)
