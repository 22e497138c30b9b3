"""Reading and writing the Mooncake format as whole files."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tiermem.errors import InputError
from tiermem.traces import mooncake
from tiermem.traces.trace import Trace

Put = Callable[..., Path]
Make = Callable[..., Trace]
Rows = list[dict[str, Any]]


def text_of(rows: Rows) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in rows).encode()


def test_reads_what_the_file_says(jsonl: Put, make: Make, rows: Rows) -> None:
    """ms become ns from the first arrival, lengths are tokens, ids keep their identity."""
    trace = mooncake.read(jsonl(rows, "conversation.jsonl"), block_tokens=10)
    assert trace.digest == make(rows).digest
    assert trace.arrival_ns.tolist() == [0, 0, 3_500_000_000, 8_000_000_000, 8_001_000_000]
    assert (trace.name, trace.synthetic, trace.block_tokens) == ("conversation", False, 10)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.rstrip(b"\n"),
        lambda data: b"\n \t\n" + data.replace(b"\n", b"\n\n\r\n"),
        gzip.compress,
        lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
        lambda data: pa.compress(data, codec="zstd", asbytes=True),
        lambda data: gzip.compress(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")),
    ],
    ids=["bom", "crlf", "no-end", "blank", "gzip", "two-gzip", "zstd", "gzip-bom-crlf"],
)
def test_the_same_content_is_the_same_trace(
    jsonl: Put, rows: Rows, change: Callable[[bytes], bytes]
) -> None:
    """Byte-order mark, CRLF, blank lines, a missing last newline and compression change nothing."""
    trace = mooncake.read(jsonl(change(text_of(rows)), "t.dat"), block_tokens=10)
    plain = mooncake.read(jsonl(rows), block_tokens=10)
    assert (trace.digest, trace.notices) == (plain.digest, plain.notices)


def test_big_ids_survive(jsonl: Put, row: Callable[..., Any]) -> None:
    """Ids beyond 2^53, 2^64 and any size, as numbers and as texts, stay distinct."""
    ids = [72057594038135102, 72057594038135103, 2**64 - 1, 2**64, 2**64 + 1, 10**30, -5]
    both: list[int | str] = [*ids, *map(str, ids)]
    trace = mooncake.read(jsonl([row(0, 140, both), row(1, 140, both)]), block_tokens=10)
    assert trace.block_ids.tolist() == [*range(14), *range(14)]


def test_shuffled_lines_are_sorted(jsonl: Put, row: Callable[..., Any]) -> None:
    """A shuffled file gives the trace of the sorted one, and says how many lines were late."""
    rows = [row(ms, 10, [ms % 7]) for ms in range(50, 150, 3)]
    straight = mooncake.read(jsonl(rows), block_tokens=10)
    swapped = [rows[1], rows[0], *rows[2:]]
    once = mooncake.read(jsonl(swapped), block_tokens=10)
    assert once.digest == straight.digest
    assert any(note.startswith("1 of 34 lines") for note in once.notices)
    random.Random(1).shuffle(rows)
    assert mooncake.read(jsonl(rows), block_tokens=10).digest == straight.digest
    assert not straight.notices


def test_ties_keep_the_order_of_the_file(jsonl: Put, row: Callable[..., Any]) -> None:
    """Requests of one instant stay in file order, also when the file has to be sorted."""
    rows = [row(6000, 10 + i, [i, -1]) for i in range(1, 9)] + [
        row(3000, 10 + i, [i, -1]) for i in range(1, 9)
    ]
    trace = mooncake.read(jsonl(rows), block_tokens=10)
    assert trace.prompt_tokens.tolist() == [10 + i for i in range(1, 9)] * 2
    assert "16 of 16 requests (100.0%) share their arrival time" in " ".join(trace.notices)


def test_fractions_of_ms_and_late_origins(jsonl: Put, row: Callable[..., Any]) -> None:
    """Epoch times are rebased exactly; whole floats are fine; fractions are kept to the ns."""
    start = 1_700_000_000_000
    exact = [row(start, 9, []), row(start + 1, 9, []), row(start + 10**9, 9, [])]
    assert mooncake.read(jsonl(exact)).arrival_ns.tolist() == [0, 10**6, 10**15]
    floats = [row(27482.0, 9, []), row(27482.000001, 9, []), row(27483.25, 9, [])]
    assert mooncake.read(jsonl(floats)).arrival_ns.tolist() == [0, 1, 1_250_000]


def test_block_size_comes_from_the_caller(jsonl: Put, row: Callable[..., Any]) -> None:
    """Ids that fit another block size are refused with the size that fits every line."""
    path = jsonl([row(0, 20, [0, 1]), row(1, 33, [0, 2, 3]), row(2, 512, list(range(40, 72)))])
    with pytest.raises(InputError) as error:
        mooncake.read(path)
    assert str(error.value) == (
        f"{path}:1: hash_ids: 2 ids for 20 tokens, which are 1 blocks of 512; "
        "3 of 3 lines do not fit, a block size of 16 tokens fits every line"
    )
    assert mooncake.read(path, block_tokens=16).unique_blocks == 36


def test_full_blocks_only_and_short_prompts(jsonl: Put, row: Callable[..., Any]) -> None:
    """Files with ids for full blocks only are read; a prompt below one block has none."""
    trace = mooncake.read(
        jsonl([row(0, 130, [1, 2]), row(1, 63, []), row(2, 64, [1])]), block_tokens=64
    )
    assert np.diff(trace.block_offsets).tolist() == [2, 0, 1]


def test_unusual_content_is_noticed(jsonl: Put, row: Callable[..., Any]) -> None:
    """Extra columns, repeated ids, ids of contents and zero outputs are read and said."""
    rows = [{**row(0, 20, [1, 1], output=0), "chat_id": 3, "type": "text"}, row(1000, 20, [2, 1])]
    notices = "\n".join(mooncake.read(jsonl(rows), block_tokens=10).notices)
    assert "ignored columns: 'chat_id, type'" in notices
    assert "1 block references repeat an id within one request" in notices
    assert "2 of 4 block references follow another block" in notices
    assert "1 requests ask for no output token" in notices


@pytest.mark.parametrize(("step", "rate"), [(0.001, "1e+06"), (10_000_000, "0.0001")])
def test_a_mistaken_time_unit_is_noticed(
    jsonl: Put, row: Callable[..., Any], step: float, rate: str
) -> None:
    """An arrival rate that no engine ever saw is named, with a question about the unit."""
    trace = mooncake.read(jsonl([row(i * step, 9, []) for i in range(20)]))
    assert any(rate in note and "time unit" in note for note in trace.notices)


def test_synthetic_survives_a_round_trip(tmp_path: Path, make: Make, rows: Rows) -> None:
    """The flag and the metadata are read back from the sidecar; without it the name decides."""
    mooncake.write(make(rows, synthetic=True), tmp_path / "plain.jsonl")
    assert mooncake.read(tmp_path / "plain.jsonl", block_tokens=10).synthetic
    (tmp_path / "plain.jsonl.meta.json").unlink()
    assert not mooncake.read(tmp_path / "plain.jsonl", block_tokens=10).synthetic
    (tmp_path / "plain.jsonl").rename(tmp_path / "my-Synthetic.jsonl")
    assert mooncake.read(tmp_path / "my-Synthetic.jsonl", block_tokens=10).synthetic


@pytest.mark.parametrize("suffix", mooncake.SUFFIXES)
def test_equal_traces_give_equal_bytes(tmp_path: Path, make: Make, rows: Rows, suffix: str) -> None:
    """Writing knows no clock: two files of one trace are equal, and nothing else is left behind."""
    one, two = tmp_path / f"a{suffix}", tmp_path / "later" / f"a{suffix}"
    two.parent.mkdir()
    mooncake.write(make(rows), one)
    time.sleep(0.01)
    mooncake.write(make(rows), two)
    assert one.read_bytes() == two.read_bytes()
    assert {path.name for path in two.parent.iterdir()} == {f"a{suffix}", f"a{suffix}.meta.json"}
    assert mooncake.read(one, block_tokens=10).digest == make(rows).digest


def test_whole_ms_are_written_whole(tmp_path: Path, make: Make, rows: Rows) -> None:
    """A written file is a Mooncake file: its times are integers where they are whole ms."""
    trace = make(rows)
    mooncake.write(trace, tmp_path / "t.jsonl")
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[2])
    assert first == {
        "timestamp": 3500,
        "input_length": 38,
        "output_length": 4,
        "hash_ids": [0, 1, 4, 5],
    }
    odd = trace.stretched(1 / 3)
    mooncake.write(odd, tmp_path / "odd.jsonl")
    again = mooncake.read(tmp_path / "odd.jsonl", block_tokens=10)
    assert again.arrival_ns.tolist() == odd.arrival_ns.tolist()


def test_writing_refuses_cleanly(tmp_path: Path, make: Make, rows: Rows) -> None:
    """A strange suffix, a missing folder and a folder in the way: one line, and no file."""
    (tmp_path / "dir.jsonl").mkdir()
    for name, words in [
        ("t.csv", r"ends in one of \.jsonl"),
        ("no/t.jsonl", "cannot be written"),
        ("dir.jsonl", "this is a folder"),
    ]:
        with pytest.raises(InputError, match=words):
            mooncake.write(make(rows), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["dir.jsonl"]


@pytest.mark.parametrize(
    ("name", "requests", "prompt_tokens"),
    [
        ("conversation_trace.first40min", 7851, 97_571_920),
        ("synthetic_trace", 3993, 61_194_628),
    ],
)
def test_recorded_files(
    shared: Path, reference_values: dict[str, Any], name: str, requests: int, prompt_tokens: int
) -> None:
    """Every request of the recorded files is there; references and blocks are as counted."""
    file = f"mooncake/{name}.jsonl.gz"
    trace = mooncake.read(shared / "traces" / file)
    expected = reference_values[file]
    assert (len(trace), int(trace.prompt_tokens.sum())) == (requests, prompt_tokens)
    assert trace.references == expected["references"]
    assert trace.unique_blocks == expected["unique"]
    assert trace.synthetic == ("synthetic" in name)
    assert len(trace.notices) == 1  # ties


@pytest.mark.parametrize("block_tokens", [0, -1, 2**31, 10**30])
def test_block_sizes_out_of_range_are_refused(
    jsonl: Callable[..., Path], rows: list[Any], block_tokens: int
) -> None:
    """A block has at least one token, and no more than a prompt can have."""
    with pytest.raises(InputError, match=r"block_tokens: .* 1 to 2,147,483,647"):
        mooncake.read(jsonl(rows), block_tokens=block_tokens)
