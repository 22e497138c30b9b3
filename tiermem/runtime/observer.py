"""Everything a runtime counts and tells: its tally, its status, its status files, its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiermem.core.messages import Action, Event, Move
from tiermem.errors import RuntimeFault
from tiermem.runtime.counters import Counters
from tiermem.runtime.prometheus import Endpoint, serve_metrics
from tiermem.runtime.status import Status, status_of
from tiermem.runtime.status_file import StatusWriter
from tiermem.runtime.stores import Fault, Store
from tiermem.runtime.tally import Tally


class Observer:
    """A tap of one runtime over `stores`. `policy` is the name it was asked for by, if it has one.

    Until `close` each directory of a file tier has a status file that is at most a few seconds old.
    """

    def __init__(self, stores: Mapping[str, Store], policy: str | None = None) -> None:
        self.recompute_s: Callable[[], float | None] = lambda: None
        """Set by who can estimate what the loaded blocks would have taken to compute."""
        self.warnings: list[str] = []
        self._stores = dict(stores)
        self._policy = policy
        self._tally = Tally(tuple(stores))
        self._writers: list[StatusWriter] = []
        self._endpoints: list[Endpoint] = []
        self._closed = False

    def __call__(self, now: int, event: Event, actions: Sequence[Action]) -> None:
        """Count one event with its answer."""
        self._tally(now, event, actions)

    def blame(self, move: Move, lost: Mapping[int, Fault]) -> None:
        """Count what a move lost, by kind: at the tier that was read, if it is one of files, else
        at the one that was to be written."""
        reads = not hasattr(self._stores[move.source], "allocate")
        tier = move.source if reads else move.target
        for fault in lost.values():
            self._tally.failed(tier, fault.kind.value)

    def counters(self) -> Counters:
        """What was counted so far."""
        return self._tally.snapshot()

    def status(self) -> Status:
        """The runtime now."""
        return status_of(
            self._stores,
            self.counters(),
            policy=self._policy,
            recompute_s=self.recompute_s(),
            warnings=self.warnings,
        )

    def watch(self) -> None:
        """Begin to keep the status files."""
        for store in self._stores.values():
            directory = _directory(store)
            if directory is not None and not getattr(store, "read_only", False):
                self._writers.append(StatusWriter(directory, self._document))

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> Endpoint:
        """Serve the counters to Prometheus until `close`; RuntimeFault after it."""
        if self._closed:
            raise RuntimeFault("the runtime is closed and serves no counters; make a new one")
        endpoint = serve_metrics(self.status, port, host)
        self._endpoints.append(endpoint)
        return endpoint

    def close(self) -> None:
        """Write the last status and end every server. The stores are still open then."""
        self._closed = True
        for endpoint in self._endpoints:
            endpoint.close()
        for writer in self._writers:
            writer.close()
        self._endpoints, self._writers = [], []

    def _document(self) -> dict[str, Any]:
        return self.status().document()


def _directory(store: Any) -> Path | None:
    """Where a store keeps its files; None for memory, and for stores that have no directory."""
    directory = getattr(store, "directory", None)
    return None if directory is None else Path(directory)
