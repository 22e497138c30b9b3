"""A log of real requests becomes a trace, or is wrong at a line and a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiermem.errors import InputError
from tiermem.traces import mooncake, record
from tiermem.traces.catalog import open_trace

RUN = {"run": {"machine": "a laptop", "tokenizer": "its own"}}


def request(session: str, arrival_s: float, blocks: str, **changes: Any) -> dict[str, Any]:
    """A line; `blocks` has a letter per block of 16 tokens, and there is a tail of 3."""
    return {
        "session": session,
        "turn": 1,
        "kind": "chat",
        "arrival_s": arrival_s,
        "prompt_tokens": 16 * len(blocks) + 3,
        "output_tokens": 7,
        "loaded_tokens": 0,
        "queued_s": 0.25,
        "ttft_s": 1.0,
        "total_s": 2.0,
        "model": "tiny",
        "block_tokens": 16,
        "blocks": [letter * 32 for letter in blocks],
        **changes,
    }


LINES = [
    RUN,
    request("a", 1000.5, "ab"),
    request("b", 1002.0004, "acd", kind="tools"),
    request("a", 1001.25, "abe", turn=2, loaded_tokens=32),
]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_requests_come_in_the_order_of_arrival(tmp_path: Path) -> None:
    """Sorted, in ms after the first, equal prefixes equal ids, and marked as recorded."""
    trace = record.read(write(tmp_path / "chat.log.jsonl", LINES))
    assert (trace.name, trace.synthetic, trace.block_tokens) == ("chat", False, 16)
    assert trace.arrival_ns.tolist() == [0, 750_000_000, 1_500_000_000]
    assert trace.prompt_tokens.tolist() == [35, 51, 51]
    assert [trace.blocks_of(i).tolist() for i in range(3)] == [[0, 1], [0, 1, 2], [0, 3, 4]]
    about = trace.meta["recorded"]
    assert about["machine"] == "a laptop"
    assert (about["model"], about["sessions"], about["kinds"]) == (
        "tiny",
        2,
        {"chat": 2, "tools": 1},
    )
    assert (about["loaded_tokens"], about["loaded_share"]) == (32, round(32 / 137, 4))
    assert about["ttft_s"] == {"mean": 1.0, "p50": 1.0, "p95": 1.0, "p99": 1.0, "n": 3}


def test_equal_logs_give_equal_bytes(tmp_path: Path) -> None:
    """Written twice it is the same file, and it is read as what it was."""
    log = write(tmp_path / "chat.log.jsonl", LINES)
    files = [tmp_path / "one.jsonl.gz", tmp_path / "two.jsonl.gz"]
    for file in files:
        mooncake.write(record.read(log), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    again = open_trace(files[0])
    assert again.digest == record.read(log).digest
    assert not again.synthetic
    assert again.meta["recorded"]["tokenizer"] == "its own"


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    """As a killed process leaves it; anywhere else it is an error."""
    log = write(tmp_path / "log", LINES)
    whole = log.read_text(encoding="utf-8")
    log.write_text(whole + '{"session": "c", "tur', encoding="utf-8")
    trace = record.read(log)
    assert (len(trace), len(trace.notices)) == (3, 1)
    log.write_text('{"session": "c", "tur\n' + whole, encoding="utf-8")
    with pytest.raises(InputError, match=r"log:1: not JSON"):
        record.read(log)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"turn": 0}, "turn: 0 is not in 1"),
        ({"turn": True}, "turn: True is not a whole number"),
        ({"kind": 5}, "kind: 5 is not a text"),
        ({"arrival_s": "now"}, "arrival_s: 'now' is not a number"),
        ({"arrival_s": float("nan")}, "arrival_s: nan is not a number"),
        ({"arrival_s": -1.0}, "arrival_s: -1.0 is not a time"),
        ({"prompt_tokens": 0}, "prompt_tokens: 0 is not in 1"),
        ({"output_tokens": -1}, "output_tokens: -1 is not in 0"),
        ({"loaded_tokens": 35}, "loaded_tokens: 35 of 35 tokens"),
        ({"queued_s": -0.5}, "queued_s: -0.5 s, before 0.0 s"),
        ({"ttft_s": 0.1}, "ttft_s: 0.1 s, before 0.25 s"),
        ({"total_s": 0.9}, "total_s: 0.9 s, before 1.0 s"),
        ({"model": "other"}, "model: 'other', where the log began with 'tiny'"),
        ({"blocks": ["a"]}, "blocks: 2 texts are expected, one per full block; 1 found"),
        ({"blocks": [1, 2]}, "blocks: 2 texts are expected"),
        ({"blocks": "ab"}, "blocks: 'ab' is not a list"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """`file:line: key: ` and what is wrong with it."""
    log = write(tmp_path / "log", [*LINES, {**request("a", 1003.0, "ab"), **changes}])
    with pytest.raises(InputError) as caught:
        record.read(log)
    assert f"log:5: {said}" in str(caught.value)


def test_what_is_no_log(tmp_path: Path) -> None:
    """A missing file, an empty one, a list, a line without a column."""
    with pytest.raises(InputError, match="cannot be read"):
        record.read(tmp_path / "none")
    with pytest.raises(InputError, match="no request in this log"):
        record.read(write(tmp_path / "log", [RUN]))
    with pytest.raises(InputError, match=r"log:1: .* is not a JSON object"):
        record.read(write(tmp_path / "log", [[1, 2]]))
    with pytest.raises(InputError, match=r"log:1: session: is missing"):
        record.read(write(tmp_path / "log", [{"turn": 1}]))


@pytest.mark.parametrize("key", ["arrival_s", "queued_s", "ttft_s", "total_s"])
def test_a_number_beyond_all_arithmetic_is_named(tmp_path: Path, key: str) -> None:
    """A whole number of 400 digits is no time."""
    log = write(tmp_path / "log", [*LINES, {**request("c", 1003.0, "ab"), key: 10**400}])
    with pytest.raises(InputError, match=rf"log:5: {key}: 1000.*\.\.\. is not a number"):
        record.read(log)


@pytest.mark.parametrize("header", [None, "x", -1, []])
def test_a_header_that_is_no_object_is_named(tmp_path: Path, header: object) -> None:
    """What a run says of itself has names."""
    log = write(tmp_path / "log", [{"run": header}, *LINES])
    with pytest.raises(InputError, match=r"log:1: run: .* is not a JSON object"):
        record.read(log)


def test_a_line_nested_too_deeply_is_named(tmp_path: Path) -> None:
    """And does not end the reader."""
    log = write(tmp_path / "log", LINES)
    log.write_text(log.read_text(encoding="utf-8") + "[" * 100_000, encoding="utf-8")
    with pytest.raises(InputError, match=r"log:5: nested too deeply"):
        record.read(log)


def test_a_turn_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """A log that was copied behind itself would double its hits."""
    log = write(tmp_path / "log", [*LINES, request("b", 1010.0, "ab")])
    with pytest.raises(InputError, match=r"log:5: turn: turn 1 of session 'b' is in line 3"):
        record.read(log)
