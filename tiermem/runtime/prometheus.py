"""Counters for Prometheus: the text format, version 0.0.4, and a small server for it.

The names are the glossary's words: `tiermem_<word>_total{tier="..."}` counts blocks and
`tiermem_<word>_bytes_total` their bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import NamedTuple

from tiermem.errors import InputError
from tiermem.runtime.counters import WORDS, Count
from tiermem.runtime.status import Status, TierStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MEANING = {
    "offered": "blocks that somebody wanted to have in the tier: new ones, and ones from above",
    "admitted": "offered blocks that got room there",
    "refused": "offered blocks that got none, by why",
    "stored": "blocks whose bytes were written there and are whole",
    "looked_up": "blocks of filled leases that were looked for there, after the asked tier and"
    " the faster ones",
    "hit": "blocks of filled leases that came from there, counted when their load was done",
    "loaded": "blocks read from there into a faster tier, asked for or prefetched",
    "failed": "blocks that a move could not read from there or write there",
    "evicted": "blocks chosen to leave it",
    "demoted": "evicted blocks that are in a lower tier now",
    "promoted": "blocks that came up into it",
    "adopted": "blocks found there at the start",
    "dropped": "copies discarded there, by why",
}
"""Each word of the counters, for HELP lines and people."""


class Sample(NamedTuple):
    """One number with its labels."""

    labels: Mapping[str, str]
    value: float


def exposition(status: Status) -> str:
    """The whole text for one scrape."""
    return "".join(_families(status))


class Endpoint:
    """A running server: `port`, and `close`."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.host, self.port = str(server.server_address[0]), int(server.server_address[1])
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.name = "tiermem-metrics"
        self._thread.start()

    def close(self) -> None:
        """Stop serving and give the port back; once is enough."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(
    snapshot: Callable[[], Status], port: int = 0, host: str = "127.0.0.1"
) -> Endpoint:
    """Serve `snapshot()` at /metrics until `close`. Port 0 takes one that is free.

    Whoever can reach `host` can read the counters: there is no password. Raises `InputError`
    where the port cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self._answer(404, "only /metrics is here\n")
                return
            try:
                text = exposition(snapshot())
            except Exception as error:  # a scrape must not end the server
                self._answer(500, f"{type(error).__name__}: {error}\n")
                return
            self._answer(200, text)

        def _answer(self, status: int, text: str) -> None:
            body = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Scrapes are no news."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port} cannot be served: {error}", key="port") from error
    server.daemon_threads = True
    return Endpoint(server)


def _families(status: Status) -> Iterator[str]:
    info = {"version": version("tiermem"), "policy": status.policy or ""}
    yield _family(
        "tiermem_info", "gauge", "the version and policy of this runtime", [Sample(info, 1)]
    )
    totals = status.counters
    yield _family(
        "tiermem_leases_total", "counter", "leases that got their room", [Sample({}, totals.leases)]
    )
    yield from _counted("asked", "blocks of those leases", [({}, totals.asked)])
    missed = [({"why": why}, count) for why, count in sorted(totals.missed.items())]
    yield from _counted("missed", "asked blocks that were no hit, by why", missed)
    for word in WORDS:
        counts = [({"tier": t.name}, getattr(t.counters, word)) for t in status.tiers]
        yield from _counted(word, MEANING[word], counts)
    for word in ("refused", "dropped"):
        yield from _counted(word, MEANING[word], list(_by_why(status.tiers, word)))
    yield _family(
        "tiermem_faults_total",
        "counter",
        "blocks that failed, by kind of fault",
        [
            Sample({"tier": tier.name, "kind": kind}, blocks)
            for tier in status.tiers
            for kind, blocks in sorted(tier.counters.faults.items())
        ],
    )
    yield _family(
        "tiermem_load_seconds_total",
        "counter",
        "time during which something was being loaded from the tier",
        [Sample({"tier": tier.name}, tier.counters.load_s) for tier in status.tiers],
    )
    for name, meaning, value in _GAUGES:
        samples = [Sample({"tier": tier.name}, value(tier)) for tier in status.tiers]
        yield _family(f"tiermem_{name}", "gauge", meaning, samples)


_GAUGES: tuple[tuple[str, str, Callable[[TierStatus], float]], ...] = (
    ("held_blocks", "blocks that can be read there now", lambda tier: tier.counters.held.blocks),
    ("held_bytes", "what they are charged", lambda tier: tier.counters.held.nbytes),
    ("used_bytes", "bytes of the tier that are taken, files included", lambda t: t.used_bytes),
    ("capacity_bytes", "the limit, per process and directory", lambda tier: tier.capacity_bytes),
)


def _by_why(tiers: Iterable[TierStatus], word: str) -> Iterator[tuple[dict[str, str], Count]]:
    for tier in tiers:
        for why, count in sorted(getattr(tier.counters, word).items()):
            yield {"tier": tier.name, "why": why}, count


def _counted(word: str, meaning: str, counts: list[tuple[dict[str, str], Count]]) -> Iterator[str]:
    blocks = [Sample(labels, count.blocks) for labels, count in counts]
    nbytes = [Sample(labels, count.nbytes) for labels, count in counts]
    yield _family(f"tiermem_{word}_total", "counter", meaning, blocks)
    yield _family(f"tiermem_{word}_bytes_total", "counter", f"bytes: {meaning}", nbytes)


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    """The lines of one metric; a family without samples is announced all the same."""
    lines = [f"# HELP {name} {_escaped(meaning)}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inner = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inner}}} {_number(value)}" if inner else f"{name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
