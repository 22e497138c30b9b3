"""The text format, read by a parser of its own, and the server."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tiermem.errors import InputError
from tiermem.runtime.counters import WORDS, Count, Counters, TierCounters
from tiermem.runtime.prometheus import CONTENT_TYPE, MEANING, exposition, serve_metrics
from tiermem.runtime.status import Status, TierStatus

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(,|$)')
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
Parsed = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parse(text: str) -> tuple[Parsed, dict[str, str]]:
    """Samples by name and labels, and the type of each name; strict about the format."""
    assert text.endswith("\n")
    samples: Parsed = {}
    types: dict[str, str] = {}
    helped = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped, said = re.fullmatch(rf"# HELP ({NAME}) (.+)", line).groups()  # type: ignore[union-attr]
            assert said
            assert helped not in types, "one family, one HELP"
        elif line.startswith("# TYPE "):
            name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line).groups()  # type: ignore[union-attr]
            assert name == helped, "HELP and TYPE of one family stand together"
            types[name] = kind
        else:
            match = re.fullmatch(rf"({NAME})(?:\{{(.*)\}})? (\S+)", line)
            assert match, line
            assert match[1] == helped, "samples stand below their family"
            labels = tuple(labels_of(match[2] or ""))
            family = samples.setdefault(match[1], {})
            assert labels not in family, "one sample for each set of labels"
            family[labels] = float(match[3])
    return samples, types


def labels_of(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, f"labels end strangely: {text[at:]}"
        yield match[1], re.sub(r"\\.", lambda each: UNESCAPED[each[0]], match[2])
        at = match.end()


def status(name: str = "nvme", policy: str | None = "lru") -> Status:
    tier = TierCounters(
        offered=Count(7, 700),
        hit=Count(3, 300),
        refused={"policy": Count(2, 200), "no_room": Count(1, 100)},
        dropped={"evict": Count(5, 500)},
        faults={"checksum": 4},
        held=Count(2, 200),
        load_s=1.25,
    )
    counters = Counters({name: tier}, 6, Count(9, 900), {"new": Count(6, 600)})
    return Status(counters, (TierStatus(name, "file", 1 << 40, 4096, tier),), policy)


def test_every_word_is_a_counter_of_blocks_and_one_of_bytes() -> None:
    """The names are the glossary's words; counters end in _total, and each has its HELP."""
    samples, types = parse(exposition(status()))
    for word in WORDS:
        for name in (f"tiermem_{word}_total", f"tiermem_{word}_bytes_total"):
            assert types[name] == "counter"
            assert set(samples[name]) == {(("tier", "nvme"),)}
    assert samples["tiermem_hit_total"] == {(("tier", "nvme"),): 3}
    assert samples["tiermem_hit_bytes_total"] == {(("tier", "nvme"),): 300}
    assert samples["tiermem_refused_total"] == {
        (("tier", "nvme"), ("why", "policy")): 2,
        (("tier", "nvme"), ("why", "no_room")): 1,
    }
    assert samples["tiermem_faults_total"] == {(("tier", "nvme"), ("kind", "checksum")): 4}
    assert samples["tiermem_missed_total"] == {(("why", "new"),): 6}
    assert samples["tiermem_leases_total"] == {(): 6}
    assert samples["tiermem_load_seconds_total"] == {(("tier", "nvme"),): 1.25}
    assert samples["tiermem_capacity_bytes"] == {(("tier", "nvme"),): 1 << 40}
    assert types["tiermem_held_bytes"] == "gauge"
    assert all(kind == "gauge" or name.endswith("_total") for name, kind in types.items())
    assert set(WORDS) < set(MEANING)


def test_labels_may_hold_anything() -> None:
    """Quotes, backslashes and new lines come back as they were."""
    odd = 'a "tier" \\ of\nmany {names},\\n'
    samples, _ = parse(exposition(status(odd, policy=odd)))
    assert samples["tiermem_hit_total"] == {(("tier", odd),): 3}
    ((labels, value),) = samples["tiermem_info"].items()
    assert (dict(labels)["policy"], value) == (odd, 1)
    parse(exposition(replace(status(), policy=None)))


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_a_server_tells_what_is_counted_now() -> None:
    """Each scrape takes its own snapshot; other paths are not found."""
    names = iter(["first", "second"])
    endpoint = serve_metrics(lambda: status(next(names)))
    url = f"http://127.0.0.1:{endpoint.port}"
    try:
        code, content_type, text = get(f"{url}/metrics")
        assert (code, content_type) == (200, CONTENT_TYPE)
        assert (("tier", "first"),) in parse(text)[0]["tiermem_hit_total"]
        assert (("tier", "second"),) in parse(get(f"{url}/metrics?x=1")[2])[0]["tiermem_hit_total"]
        assert get(f"{url}/else")[0] == 404
        code, _, text = get(f"{url}/metrics")  # there is no third
        assert code == 500
        assert "StopIteration" in text
    finally:
        endpoint.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/metrics", timeout=10)


def test_close_gives_port_and_thread_back() -> None:
    """The same port can be had again; a port in use is one clear line."""
    first = serve_metrics(status)
    with pytest.raises(InputError, match=rf"port: 127.0.0.1:{first.port} cannot be served"):
        serve_metrics(status, first.port)
    first.close()
    again = serve_metrics(status, first.port)
    again.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "tiermem-metrics"]
    with pytest.raises(InputError, match="cannot be served"):
        serve_metrics(status, 99_999)
