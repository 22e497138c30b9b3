"""Bytes on shared wires: flows that take a route's stations together and share them fairly.

Every station divides its bandwidth among the flows on it, max-min fair, and a flow goes as fast
as its slowest hop lets it. A transfer's set-up time keeps its stations busy at the flow's own
pace, as one more stretch of bytes. Rates change only when a flow starts or ends, so that is all
there are events for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from tiermem.models.topology import Route, Station
from tiermem.units import NS_PER_S


class Flow:
    """One transfer on its way. Work is in bytes, rates in bytes per nanosecond."""

    __slots__ = ("finish_ns", "finished", "rate", "since_ns", "stations", "work")

    def __init__(self, route: Route, work: float, finished: Callable[[], None]) -> None:
        self.stations = route.stations
        self.work = work
        self.finished = finished
        self.rate = 0.0
        self.since_ns = 0
        self.finish_ns = 0


class Fabric:
    """All the flows of one machine."""

    def __init__(self, environment: simpy.Environment, stations: Sequence[Station]) -> None:
        self._environment = environment
        self._rates = [station.bytes_per_s / NS_PER_S for station in stations]
        self.events = 0  # scheduled so far
        self._on: list[dict[Flow, None]] = [{} for _ in stations]
        self._flows: dict[Flow, None] = {}
        self._alarm_ns = -1  # when the next event is due; -1 for none

    def start(self, route: Route, nbytes: int, finished: Callable[[], None]) -> None:
        """Send `nbytes` along `route`; `finished` is called when the last one is there."""
        alone = route.bytes_per_s / NS_PER_S
        flow = Flow(route, nbytes + route.setup_ns * alone, finished)
        flow.since_ns = int(self._environment.now)
        self._flows[flow] = None
        busy = False
        for station in flow.stations:
            busy = busy or bool(self._on[station])
            self._on[station][flow] = None
        if busy:
            self._share(self._neighbourhood(flow))
        else:
            self._pace(flow, alone)
        self._set_alarm()

    def _alarm(self, due_ns: int) -> None:
        if due_ns != self._alarm_ns:
            return  # an earlier one took its place
        self._alarm_ns = -1
        ended = [flow for flow in self._flows if flow.finish_ns <= due_ns]
        for flow in ended:
            self._end(flow)
        self._set_alarm()
        for flow in ended:
            flow.finished()

    def _end(self, flow: Flow) -> None:
        """The flow leaves its stations; those that shared them speed up."""
        del self._flows[flow]
        alone = max(len(self._on[station]) for station in flow.stations) == 1
        neighbours = [] if alone else self._neighbourhood(flow)
        for station in flow.stations:
            del self._on[station][flow]
        if neighbours:
            neighbours.remove(flow)
            self._share(neighbours)

    def _neighbourhood(self, flow: Flow) -> list[Flow]:
        """Every flow that `flow` can slow down, directly or by way of others, itself included."""
        seen = {flow: None}
        stations: set[int] = set()
        todo = [flow]
        while todo:
            for station in todo.pop().stations:
                if station in stations:
                    continue
                stations.add(station)
                for other in self._on[station]:
                    if other not in seen:
                        seen[other] = None
                        todo.append(other)
        return list(seen)

    def _share(self, flows: list[Flow]) -> None:
        """Max-min fair rates: fill all flows evenly, and fix those whose station is full."""
        left: dict[int, float] = {}
        count: dict[int, int] = {}
        for flow in flows:
            for station in flow.stations:
                left[station] = self._rates[station]
                count[station] = count.get(station, 0) + 1
        unfixed = dict.fromkeys(flows)
        while unfixed:
            full = min((station for station in count), key=lambda at: left[at] / count[at])
            rate = left[full] / count[full]
            for flow in [flow for flow in unfixed if full in flow.stations]:
                del unfixed[flow]
                for station in flow.stations:
                    left[station] = max(0.0, left[station] - rate)
                    count[station] -= 1
                    if not count[station]:
                        del count[station]
                self._pace(flow, rate)

    def _pace(self, flow: Flow, rate: float) -> None:
        """From now on `flow` moves `rate` bytes per nanosecond."""
        now = int(self._environment.now)
        flow.work = max(0.0, flow.work - flow.rate * (now - flow.since_ns))
        flow.since_ns = now
        flow.rate = rate
        flow.finish_ns = now + max(0, round(flow.work / rate))

    def _set_alarm(self) -> None:
        """One event for the next flow to end. Where all slow down the old one rings too early,
        and is set again."""
        if not self._flows:
            return
        due_ns = min([flow.finish_ns for flow in self._flows])
        if 0 <= self._alarm_ns <= due_ns:
            return
        self._alarm_ns = due_ns
        self.events += 1
        timeout = simpy.Timeout(self._environment, due_ns - int(self._environment.now))
        timeout.callbacks.append(lambda _: self._alarm(due_ns))
