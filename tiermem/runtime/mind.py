"""The thread that the core lives on: events from any thread in, one serial history out.

Callers put what they want on the executor's queue and wait; this thread alone hands events and
completions to the core, and the core's actions to the executor.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from tiermem.core.driver import Brain, Driver, Tap
from tiermem.core.messages import Event
from tiermem.errors import RuntimeFault, TiermemError, TimedOut
from tiermem.runtime.executor import RuntimeExecutor

Ended = Callable[[], bool]
"""Asked on the core's thread after everything that happens, until it is true."""


class Mind:
    """Joins a brain and an executor. `fail(error)` is called once, should the core stop."""

    def __init__(
        self,
        brain: Brain,
        executor: RuntimeExecutor,
        taps: Sequence[Tap],
        fail: Callable[[TiermemError], None],
    ) -> None:
        self._executor = executor
        self._driver = Driver(brain, executor, taps)
        self._fail = fail
        self._watches: list[tuple[Ended, Future[None]]] = []
        self._asking: set[Future[None]] = set()
        self._broken: TiermemError | None = None
        self._closing = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="tiermem-core", daemon=True)

    def start(self) -> None:
        """Begin to serve; before this, `post_now` is the caller's to use."""
        self._thread.start()

    def post_now(self, event: Event) -> None:
        """Give `event` to the core; on the core's thread."""
        self._driver.post(event)

    def post(self, event: Event) -> None:
        """Give `event` to the core when its turn comes; from any thread."""
        self.call(lambda: self._driver.post(event))

    def call(self, what: Callable[[], None]) -> None:
        """Have `what` called on the core's thread. Raises `RuntimeFault` when nobody would."""
        self.check()
        self._executor.call(what)

    def ask(self, what: Callable[[], Ended | None], wait_s: float, otherwise: str) -> None:
        """Have `what` called on the core's thread, and wait until what it answers is true.

        Raises `TimedOut` with the line `otherwise` after `wait_s`."""
        done: Future[None] = Future()

        def begin() -> None:
            ended = what()
            self._watches.append((ended or (lambda: True), done))

        self._asking.add(done)  # before the call: should the core stop in between, it is told
        try:
            self.call(begin)
            done.result(wait_s)
        except FutureTimeout:
            done.cancel()
            raise TimedOut(f"{otherwise} within {wait_s:g} s") from None
        finally:
            self._asking.discard(done)

    def check(self) -> None:
        """Raise what everybody hears who calls a runtime that cannot be used any more."""
        if os.getpid() != self._pid:
            raise RuntimeFault(
                "this process was forked from the one that made the runtime, which threads do not"
                " survive: make a runtime here, or start the process with spawn"
            )
        if self._broken is not None:
            raise self._broken
        if self._closing:
            raise RuntimeFault("the runtime is closed")

    @property
    def usable(self) -> bool:
        """Whether `call` would be heard."""
        return not self._closing and self._broken is None and os.getpid() == self._pid

    def end(self, wait_s: float) -> None:
        """Take nothing more, let what is under way end for at most `wait_s`, and stop."""
        if not self._closing:
            self._closing = True
            self._executor.call(lambda: None)
        self._thread.join(timeout=wait_s)

    def _serve(self) -> None:
        error: TiermemError = RuntimeFault("the runtime is closed")
        try:
            while not self._closing or self._executor.outstanding:
                self._executor.deliver()
                if self._watches:
                    self._watches = [pair for pair in self._watches if not _settled(*pair)]
        except TiermemError as stopped:
            error = self._broken = stopped
        except BaseException as stopped:  # a policy's, or ours: nobody may wait for ever
            error = RuntimeFault(f"the core stopped: {type(stopped).__name__}: {stopped}")
            self._broken = error
        for done in list(self._asking):
            if not done.done() and done.set_running_or_notify_cancel():
                done.set_exception(error)
        self._fail(error)


def _settled(ended: Ended, done: Future[None]) -> bool:
    if done.cancelled():
        return True
    if ended() and done.set_running_or_notify_cancel():
        done.set_result(None)
    return done.done()
