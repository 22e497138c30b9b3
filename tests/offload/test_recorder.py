"""The log of real requests: whole lines, whatever happens to the process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tiermem.errors import InputError
from tiermem.offload import recorder as module
from tiermem.offload.cache import TieredCache
from tiermem.offload.keys import prefix_keys
from tiermem.offload.memory import TieredMemory
from tiermem.offload.recorder import Recorder, machine
from tiermem.traces import record

SEED = b"0123456789abcdef"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The hands of both clocks: `clock[0] += 1` is a second later."""
    hands = [1_700_000_000.0]
    monkeypatch.setattr(module.time, "time", lambda: hands[0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: hands[0] - 1e9)
    return hands


def test_a_request_is_a_line(tmp_path: Path, clock: list[float]) -> None:
    """Arrived 2 s before it was begun, first token after 1 s, two more at half a second each."""
    log = Recorder(tmp_path / "log", "tiny", SEED, block_tokens=4, about={"tokenizer": "none"})
    with log.request("a", turn=3, kind="chat", arrival_s=clock[0] - 2) as entry:
        entry.put(torch.tensor([[5, 6, 7, 8, 9]]))
        for pause in (1.0, 0.5, 0.5):
            clock[0] += pause
            entry.put(torch.tensor([1]))
        entry.end()
        entry.loaded_tokens = 4
    log.close()
    run, request = lines(tmp_path / "log")
    assert run == {"run": {"machine": machine(), "tokenizer": "none"}}
    assert request == {
        "session": "a",
        "turn": 3,
        "kind": "chat",
        "arrival_s": 1_699_999_998.0,
        "prompt_tokens": 5,
        "output_tokens": 3,
        "loaded_tokens": 4,
        "queued_s": 2.0,
        "ttft_s": 3.0,
        "total_s": 4.0,
        "model": "tiny",
        "block_tokens": 4,
        "blocks": [prefix_keys(SEED, [5, 6, 7, 8, 9], 4)[0].hex()],
    }
    assert set(request) == set(record.COLUMNS)


def test_what_failed_is_not_written(tmp_path: Path) -> None:
    """Only requests that were answered are in the log; one that nobody saw is an error."""
    log = Recorder(tmp_path / "log", "tiny", SEED)

    def fail() -> None:
        with log.request("a", turn=1, kind="chat") as entry:
            entry.put([1, 2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(InputError, match="streamer="), log.request("a", turn=1, kind="chat"):
        pass
    log.close()
    assert len(lines(tmp_path / "log")) == 1


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    """Half a line at the end is cut off by the next run, which goes on behind it."""
    path = tmp_path / "log"
    for session in ("a", "b"):
        log = Recorder(path, "tiny", SEED)
        with log.request(session, turn=1, kind="chat") as entry:
            entry.put([1, 2, 3])
        log.close()
        with path.open("ab") as file:
            file.write(b'{"session":"x","tu')
    assert len(record.read(path)) == 2
    Recorder(path, "tiny", SEED).close()
    assert [line.get("session") for line in lines(path)] == [None, "a", None, "b", None]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A folder in the place of the log, and a block of nothing, are named."""
    with pytest.raises(InputError, match="cannot be written"):
        Recorder(tmp_path, "tiny", SEED)
    with pytest.raises(InputError, match="block of 0 tokens"):
        Recorder(tmp_path / "log", "tiny", SEED, block_tokens=0)


def test_generate_fills_it_in(
    tmp_path: Path, make: Callable[..., TieredMemory], tiny: Callable[..., Any]
) -> None:
    """Two turns through TieredCache; the second reuses the first, in the trace as in the cache."""
    cache = TieredCache(tiny(), make("1 MiB"), block_tokens=16)
    log = Recorder(tmp_path / "log", "tiny", cache.layout.seed)
    ids = torch.arange(1, 41)[None]
    for turn in (1, 2):
        with log.request("a", turn=turn, kind="chat") as entry:
            ids = cache.generate(ids, max_new_tokens=5, do_sample=False, streamer=entry)
            entry.loaded_tokens = cache.loaded_tokens
    trace = record.read(tmp_path / "log")
    assert trace.prompt_tokens.tolist() == [40, 45]
    assert trace.output_tokens.tolist() == [5, 5]
    assert trace.block_ids.tolist() == [0, 1, 0, 1]
    assert trace.meta["recorded"]["loaded_tokens"] == 32
