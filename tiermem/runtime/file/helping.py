"""Two windows of one call at work at a time.

While the transfers of one window are under way the next one is made ready, so the Python work on
small blocks costs no time of the device. A helper that is busy with another call is not waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tiermem.runtime.file.cuts import WINDOW_BLOCKS, Block
from tiermem.runtime.stores import Fault

Answer = Fault | None

_HELPERS = 2


class Hands:
    """A few threads that lend a hand to whoever has more than one window."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_HELPERS, "tiermem-file-help")

    def overlapped(
        self, windows: Iterator[list[Block]], move: Callable[[list[Block]], list[Answer]]
    ) -> list[Answer]:
        """`move` each window; the answers in the order of the blocks."""
        lock = threading.Lock()
        answers: list[list[Answer]] = []

        def work() -> None:
            while True:
                with lock:
                    window = next(windows, None)
                    if window is None:
                        return
                    mine = len(answers)
                    answers.append([])
                answers[mine] = move(window)

        first = next(windows, None)
        if first is None:
            return []
        answers.append([])
        hand = self._executor.submit(work) if len(first) == WINDOW_BLOCKS else None
        answers[0] = move(first)
        work()
        if hand is not None and not hand.cancel():
            hand.result()
        return [answer for each in answers for answer in each]

    def close(self) -> None:
        """End the threads."""
        self._executor.shutdown()
