"""Two windows of a call at a time, with the answers in order."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tiermem.runtime.file.cuts import WINDOW_BLOCKS, Block
from tiermem.runtime.file.helping import Hands
from tiermem.runtime.stores import Fault, FaultKind


def window(number: int, blocks: int = WINDOW_BLOCKS) -> list[Block]:
    return [Block(bytes(16), number, np.zeros(1, np.uint8))] * blocks


def answer(blocks: list[Block]) -> list[Fault | None]:
    return [Fault(FaultKind.IO, str(block.nbytes)) for block in blocks]


def test_answers_are_in_order() -> None:
    """Whoever did which window."""
    hands = Hands()
    windows = [*(window(number) for number in range(20)), window(20, 3)]
    answers = hands.overlapped(iter(windows), answer)
    assert [fault.detail for fault in answers if fault] == [
        str(block.nbytes) for each in windows for block in each
    ]
    assert hands.overlapped(iter([]), answer) == []
    hands.close()


def test_two_are_at_work_at_a_time() -> None:
    """Never one after the other only, never three."""
    hands = Hands()
    both = threading.Barrier(2, timeout=10)

    def move(blocks: list[Block]) -> list[Fault | None]:
        both.wait()
        return [None] * len(blocks)

    assert not any(hands.overlapped(iter([window(n) for n in range(4)]), move))
    hands.close()


def test_a_short_call_stays_in_its_thread() -> None:
    """One window is moved by the caller."""
    hands = Hands()
    threads = []

    def move(blocks: list[Block]) -> list[Fault | None]:
        threads.append(threading.current_thread())
        return [None] * len(blocks)

    hands.overlapped(iter([window(1, 5)]), move)
    assert threads == [threading.current_thread()]
    hands.close()


def test_a_mistake_reaches_the_caller() -> None:
    """In whichever thread it was made."""
    hands = Hands()
    caller = threading.current_thread()

    def move(blocks: list[Block]) -> list[Fault | None]:
        if threading.current_thread() is not caller:
            raise AssertionError("a mistake")
        done.wait(10)
        return [None] * len(blocks)

    done = threading.Event()
    threading.Timer(0.1, done.set).start()
    with pytest.raises(AssertionError, match="a mistake"):
        hands.overlapped(iter([window(n) for n in range(2)]), move)
    hands.close()
