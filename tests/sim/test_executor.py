"""The virtual body: each timed action is answered once, at the nanosecond that its model says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiermem.core.messages import Action, Cut, Done, Drop, Move, Ready, Run, Wake
from tiermem.models.link import Link
from tiermem.models.operators import Step
from tiermem.models.roofline import Lines
from tiermem.models.tier import Tier
from tiermem.models.topology import Topology
from tiermem.sim.executor import SimExecutor

MACHINE = Topology(
    (Tier("hbm", "hbm", 10**9, 1e12, 1e12, 0), Tier("dram", "dram", 10**9, 1e12, 1e12, 30)),
    (Link("wire", ("hbm", "dram"), 1e9, True, 70),),
)
FIVE = Step(3, 300, (), 5)


class Clockwork:
    """Every pass takes 100 ns."""

    def times(self, step: Step) -> Lines:
        return Lines(0, (100.0, 0.0), (0.0, 0.0))


class Answers:
    """A body, and what it answered when."""

    def __init__(self) -> None:
        self.body = SimExecutor(MACHINE, Clockwork())
        self.seen: list[tuple[int, int, object]] = []

    def submit(self, action: Action) -> None:
        self.body.submit(action, self.note)

    def note(self, done: Done) -> None:
        assert done.ok
        self.seen.append((self.body.now(), done.id, done.result))

    def at(self, when: int, act: Callable[[], None]) -> None:
        self.body.submit(Wake(-1, when), lambda done: act())

    def run(self) -> list[tuple[int, int, object]]:
        self.body.run(lambda: False)
        return self.seen


def test_a_move_takes_its_route() -> None:
    """30 + 70 ns of latency and set-up, then 1,000 bytes at one byte per nanosecond."""
    answers = Answers()
    answers.submit(Move(1, (5,), "dram", "hbm", 1000, "fetch"))
    assert answers.run() == [(1100, 1, None)]


def test_a_run_takes_its_passes() -> None:
    """Five passes of 100 ns; the result is how many were made."""
    answers = Answers()
    answers.submit(Run(1, FIVE, "hbm"))
    assert answers.run() == [(500, 1, 5)]


@pytest.mark.parametrize(
    ("until", "end", "passes"),
    [(1, 100, 1), (201, 300, 3), (300, 300, 3), (301, 400, 4), (500, 500, 5), (9999, 500, 5)],
)
def test_a_run_ends_at_the_first_boundary_after_until(until: int, end: int, passes: int) -> None:
    """The pass under way at `until` is made whole and is the last."""
    answers = Answers()
    answers.submit(Run(1, FIVE, "hbm", until))
    assert answers.run() == [(end, 1, passes)]


@pytest.mark.parametrize(("when", "end"), [(0, 100), (120, 200), (200, 200), (499, 500)])
def test_a_cut_ends_a_run_at_its_next_boundary(when: int, end: int) -> None:
    """INV-5: cut short, a run is still answered once."""
    answers = Answers()
    answers.submit(Run(1, FIVE, "hbm"))
    answers.at(when, lambda: answers.submit(Cut(1)))
    assert answers.run() == [(end, 1, end // 100)]


def test_a_run_may_be_cut_twice() -> None:
    """The earlier boundary holds; a later cut changes nothing any more."""
    answers = Answers()
    answers.submit(Run(1, FIVE, "hbm", 350))
    answers.at(110, lambda: answers.submit(Cut(1)))
    answers.at(150, lambda: answers.submit(Cut(1)))
    assert answers.run() == [(200, 1, 2)]


def test_a_cut_after_the_end_is_nothing() -> None:
    """A run that is over, or never was, cannot be shortened; the next one is not touched."""
    answers = Answers()
    answers.submit(Run(1, FIVE, "hbm"))
    answers.at(600, lambda: answers.submit(Cut(1)))
    answers.at(610, lambda: answers.submit(Run(2, FIVE, "hbm")))
    answers.at(620, lambda: answers.submit(Cut(99)))
    assert answers.run() == [(500, 1, 5), (1110, 2, 5)]


def test_a_wake_comes_at_its_time() -> None:
    """At the time asked for; at once when that is past; equal times in the order asked."""
    answers = Answers()
    for number, when in ((1, 400), (2, 100), (3, 100), (4, 0)):
        answers.submit(Wake(number, when))
    assert answers.run() == [(0, 4, None), (100, 2, None), (100, 3, None), (400, 1, None)]
    answers.submit(Wake(5, 50))
    assert answers.run()[-1] == (400, 5, None)


def test_notices_take_no_time() -> None:
    """Nobody answers a notice, and it schedules nothing."""
    answers = Answers()
    for notice in (Ready(1, ()), Drop((1,), "hbm", "evict")):
        answers.submit(notice)
    assert answers.run() == []
    assert answers.body.scheduled_events == 0
    assert answers.body.now() == 0


def test_run_until_stops_between_answers() -> None:
    """The body stands still where it was told to stop, and goes on from there."""
    answers = Answers()
    for number in (1, 2, 3):
        answers.submit(Wake(number, number * 100))
    answers.body.run(lambda: len(answers.seen) == 2)
    assert answers.body.now() == 200
    assert [number for _, number, _ in answers.run()] == [1, 2, 3]


def test_moves_contend_while_runs_go_on() -> None:
    """Two moves share the wire; a run beside them takes the time it takes."""
    answers = Answers()
    for number in (1, 2):
        answers.submit(Move(number, (number,), "dram", "hbm", 1000, "fetch"))
    answers.submit(Run(3, FIVE, "hbm"))
    assert sorted(answers.run()) == [(500, 3, 5), (2200, 1, None), (2200, 2, None)]


def test_events_are_counted() -> None:
    """One for a wake, one for a run, one for a move alone."""
    answers = Answers()
    answers.submit(Wake(1, 10))
    answers.submit(Run(2, FIVE, "hbm"))
    answers.submit(Move(3, (1,), "dram", "hbm", 1000, "fetch"))
    answers.run()
    assert answers.body.scheduled_events == 3
