"""SimExecutor: actions in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy

from tiermem.core.messages import Action, Cut, Done, Move, Run, Wake
from tiermem.models.roofline import StepCost, StepTimes
from tiermem.models.topology import Topology
from tiermem.sim.fabric import Fabric

Answer = Callable[[Done], None]


class Running:
    """A run under way."""

    __slots__ = ("done", "passes", "run", "start_ns", "times")

    def __init__(self, run: Run, start_ns: int, times: StepTimes, done: Answer) -> None:
        self.run = run
        self.start_ns = start_ns
        self.times = times
        self.done = done
        self.passes = 0


class SimExecutor:
    """A body made of SimPy events; see `tiermem.core.driver.Executor`.

    Moves share the machine's stations, runs last as `cost` says, one at a time per tier (the
    engine sees to that). Notices take no time and change nothing here.
    """

    def __init__(self, topology: Topology, cost: StepCost) -> None:
        self._environment = simpy.Environment()
        self._topology = topology
        self._cost = cost
        self._fabric = Fabric(self._environment, topology.stations)
        self._runs: dict[int, Running] = {}
        self._events = 0
        self._start: dict[type, Callable[[Any, Answer], None]] = {
            Move: self._move,
            Run: self._run,
            Wake: self._wake,
            Cut: self._cut,
        }

    def now(self) -> int:
        """Virtual nanoseconds."""
        return int(self._environment.now)

    @property
    def scheduled_events(self) -> int:
        """SimPy events scheduled so far, those that were overtaken included."""
        return self._events + self._fabric.events

    def submit(self, action: Action, done: Answer) -> None:
        """Start `action`; notices are ignored."""
        start = self._start.get(type(action))
        if start is not None:
            start(action, done)

    def run(self, until: Callable[[], bool]) -> None:
        """Deliver completions until `until()` is true or none is outstanding."""
        step = self._environment.step
        try:
            while not until():
                step()
        except simpy.core.EmptySchedule:
            return

    def _after(self, delay_ns: int, callback: Callable[[Any], None]) -> None:
        self._events += 1
        timeout = simpy.Timeout(self._environment, delay_ns)
        timeout.callbacks.append(callback)

    def _move(self, move: Move, done: Answer) -> None:
        route = self._topology.route(move.source, move.target)
        self._fabric.start(route, move.nbytes, lambda: done(Done(move.id)))

    def _wake(self, wake: Wake, done: Answer) -> None:
        self._after(max(0, wake.when - self.now()), lambda _: done(Done(wake.id)))

    def _run(self, run: Run, done: Answer) -> None:
        now = int(self._environment.now)
        times = self._cost.times(run.operator)
        passes = run.operator.steps
        if run.until is not None:
            passes = times.passes_until(run.until - now, passes)
        self._end_at(Running(run, now, times, done), passes)

    def _cut(self, cut: Cut, done: Answer) -> None:
        """The pass under way is made whole, and is the last."""
        running = self._runs.get(cut.id)
        if running is None:
            return
        elapsed = self.now() - running.start_ns
        passes = running.times.passes_until(elapsed, running.passes)
        if passes < running.passes:
            self._end_at(running, passes)

    def _end_at(self, running: Running, passes: int) -> None:
        running.passes = passes
        self._runs[running.run.id] = running
        delay = running.start_ns + running.times.end_ns(passes) - self.now()
        self._after(delay, lambda _: self._ended(running, passes))

    def _ended(self, running: Running, passes: int) -> None:
        if running.passes != passes:
            return  # it was cut short
        del self._runs[running.run.id]
        running.done(Done(running.run.id, True, passes))
