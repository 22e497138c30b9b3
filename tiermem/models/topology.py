"""The tiers and links of one machine as a graph, and the route that bytes take between two tiers.

It knows how long a transfer takes alone. Sharing is the simulator's work: a route names the
stations that flows share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tiermem.errors import InputError, UnknownName
from tiermem.models.link import HOST, Link
from tiermem.models.tier import Tier
from tiermem.units import transfer_ns


@dataclass(frozen=True, slots=True)
class Station:
    """Something flows share: a side of a tier, or a direction of a link.

    A half-duplex link is one station for both directions.
    """

    name: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Route:
    """The way from one tier to another.

    `stations` are indices into `Topology.stations`, in order. `setup_ns` adds the latency of every
    tier and the set-up of every link on the way; `bytes_per_s` is the slowest hop alone.
    """

    stations: tuple[int, ...]
    setup_ns: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine. `tiers` stand fastest first, which is the order in which blocks fall.

    A route reads its source, crosses the fewest links, and writes its target. Where the way leads
    through a third tier, its write and read sides are on it too: that is a bounce buffer.

    Raises `InputError` for two things of one name, a link to nowhere, or a tier that cannot be
    reached from every other.
    """

    tiers: tuple[Tier, ...]
    links: tuple[Link, ...] = ()
    stations: tuple[Station, ...] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _index: dict[str, int] = field(init=False, repr=False, compare=False)
    _routes: dict[tuple[str, str], Route] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = tuple(tier.name for tier in self.tiers)
        _check_names(names, self.links)
        put = object.__setattr__
        put(self, "names", names)
        put(self, "_index", {name: at for at, name in enumerate(names)})
        put(self, "stations", tuple(_stations(self.tiers, self.links)))
        put(self, "_routes", self._all_routes())

    def tier(self, name: str) -> Tier:
        """The tier called `name`; `UnknownName` if there is none."""
        return self.tiers[self.index(name)]

    def index(self, name: str) -> int:
        """The place of tier `name` in the order, 0 for the fastest."""
        if name not in self._index:
            raise UnknownName("tier", name, self.names)
        return self._index[name]

    def below(self, name: str) -> tuple[str, ...]:
        """The names of the tiers slower than `name`, fastest first."""
        return self.names[self.index(name) + 1 :]

    def route(self, source: str, target: str) -> Route:
        """The way from `source` to `target`, which are two different tiers."""
        if (source, target) not in self._routes:
            assert self.index(source) != self.index(target), f"a route from {source} to itself"
        return self._routes[source, target]

    def time_ns(self, source: str, target: str, nbytes: int) -> int:
        """How long one transfer of `nbytes` takes with the machine to itself."""
        assert nbytes >= 0, nbytes
        route = self.route(source, target)
        return route.setup_ns + transfer_ns(nbytes, route.bytes_per_s)

    def _all_routes(self) -> dict[tuple[str, str], Route]:
        at = {station.name: index for index, station in enumerate(self.stations)}
        routes = {}
        for source in self.names:
            ways = _ways(source, self.links)
            for target in self.names:
                if target == source:
                    continue
                if target not in ways:
                    raise InputError(f"no links lead from tier {source!r} to tier {target!r}")
                routes[source, target] = self._route(source, ways[target], at)
        return routes

    def _route(self, source: str, way: list[tuple[Link, str]], at: dict[str, int]) -> Route:
        first = self.tier(source)
        hops, setup_ns, place = [f"{source} read"], first.latency_ns, source
        for link, end in way:
            hops.append(_direction(link, place))
            setup_ns += link.setup_ns
            if end != HOST:
                hops.append(f"{end} write")
                setup_ns += self.tier(end).latency_ns
                if end != way[-1][1]:
                    hops.append(f"{end} read")
            place = end
        indices = tuple(at[hop] for hop in hops)
        slowest = min(self.stations[index].bytes_per_s for index in indices)
        return Route(indices, setup_ns, slowest)


def _direction(link: Link, origin: str) -> str:
    """The name of the station that a flow leaving `origin` over `link` holds."""
    if not link.full_duplex:
        return link.name
    target = link.ends[1] if link.ends[0] == origin else link.ends[0]
    return f"{link.name} {origin}-{target}"


def _stations(tiers: tuple[Tier, ...], links: tuple[Link, ...]) -> list[Station]:
    stations = []
    for tier in tiers:
        stations.append(Station(f"{tier.name} read", tier.read_bytes_per_s))
        stations.append(Station(f"{tier.name} write", tier.write_bytes_per_s))
    for link in links:
        for name in dict.fromkeys(_direction(link, end) for end in link.ends):
            stations.append(Station(name, link.bytes_per_s))
    return stations


def _check_names(names: tuple[str, ...], links: tuple[Link, ...]) -> None:
    if not names:
        raise InputError("a machine needs at least one tier")
    every = [*names, *(link.name for link in links)]
    for name in every:
        if every.count(name) > 1:
            raise InputError(f"the name {name!r} is used twice")
    for link in links:
        for end in link.ends:
            if end != HOST and end not in names:
                raise UnknownName(f"end of link {link.name!r}", end, [*names, HOST])


def _ways(source: str, links: tuple[Link, ...]) -> dict[str, list[tuple[Link, str]]]:
    """Every place reachable from `source`, with the fewest links to it and where each ends."""
    ways: dict[str, list[tuple[Link, str]]] = {source: []}
    queue = deque([source])
    while queue:
        place = queue.popleft()
        for link in links:
            if place in link.ends:
                end = link.ends[1] if link.ends[0] == place else link.ends[0]
                if end not in ways:
                    ways[end] = [*ways[place], (link, end)]
                    queue.append(end)
    return ways
