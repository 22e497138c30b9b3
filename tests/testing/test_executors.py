"""The two bodies for tests: one is instant, one does as it is told."""

from __future__ import annotations

import pytest

from tiermem.core.messages import Cut, Done, Drop, Move, Ready, Run, Wake
from tiermem.models.operators import Step
from tiermem.testing.executors import InstantExecutor, ScriptedExecutor

MOVE = Move(1, (5,), "dram", "hbm", 10, "fetch")
RUN = Run(2, Step(1, 10, (), 7), "hbm")
NOTICES = (Ready(1, ()), Drop((1,), "hbm", "evict"))


def test_instant_answers_in_order_and_in_no_time() -> None:
    """Moves and runs end where they began; a run makes all its passes."""
    body, seen = InstantExecutor(), list[tuple[int, Done]]()
    for action in (MOVE, RUN, *NOTICES):
        body.submit(action, lambda done: seen.append((body.now(), done)))
    assert seen == []
    body.run(lambda: False)
    assert seen == [(0, Done(1, True, None)), (0, Done(2, True, 7))]


def test_instant_time_moves_for_wakes_only() -> None:
    """Wakes come after what takes no time, in the order of their times; time never goes back."""
    body, seen = InstantExecutor(), list[tuple[int, int]]()
    for action in (Wake(3, 50), Wake(4, 20), MOVE):
        body.submit(action, lambda done: seen.append((body.now(), done.id)))
    body.run(lambda: False)
    assert seen == [(0, 1), (20, 4), (50, 3)]
    body.submit(Wake(5, 10), lambda done: seen.append((body.now(), done.id)))
    body.run(lambda: False)
    assert seen[-1] == (50, 5)


def test_instant_stops_where_it_is_told() -> None:
    """`until` is asked before each answer; answers may submit more."""
    body, seen = InstantExecutor(), list[int]()

    def again(done: Done) -> None:
        seen.append(done.id)
        body.submit(Wake(done.id + 1, 0), again)

    body.submit(Wake(1, 0), again)
    body.run(lambda: len(seen) == 4)
    assert seen == [1, 2, 3, 4]


def test_scripted_does_nothing_by_itself() -> None:
    """What takes time is pending, the rest is noted, and a Cut is neither."""
    body, seen = ScriptedExecutor(), list[Done]()
    for action in (MOVE, RUN, Cut(2), *NOTICES):
        body.submit(action, seen.append)
    assert (list(body.pending), body.notices, seen) == ([1, 2], list(NOTICES), [])


def test_scripted_answers_as_told() -> None:
    """In any order, with success or failure and any result, at the time the test has reached."""
    body, seen = ScriptedExecutor(), list[tuple[int, Done]]()
    for action in (MOVE, RUN):
        body.submit(action, lambda done: seen.append((body.now(), done)))
    body.advance(30)
    body.finish(2, result=4)
    body.advance(45)
    body.finish(1, ok=False)
    assert seen == [(30, Done(2, True, 4)), (45, Done(1, False, None))]
    assert body.pending == {}


def test_scripted_refuses_nonsense() -> None:
    """INV-5, INV-7: no action is answered twice, no id used twice, and time goes forward."""
    body = ScriptedExecutor()
    body.submit(MOVE, lambda done: None)
    with pytest.raises(AssertionError, match="INV-5"):
        body.submit(MOVE, lambda done: None)
    body.finish(1)
    with pytest.raises(KeyError):
        body.finish(1)
    body.advance(10)
    with pytest.raises(AssertionError, match="INV-7"):
        body.advance(9)


def test_scripted_can_finish_the_rest() -> None:
    """`run` lets everything that is left succeed, oldest first, wakes at their times."""
    body, seen = ScriptedExecutor(), list[tuple[int, int, object]]()
    for action in (MOVE, Wake(3, 40), RUN):
        body.submit(action, lambda done: seen.append((body.now(), done.id, done.result)))
    body.run(lambda: len(seen) == 2)
    assert seen == [(0, 1, None), (40, 3, None)]
    body.run(lambda: False)
    assert seen[-1] == (40, 2, 7)
