"""Small traces and files that the trace tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem.traces.trace import Trace, intern

Row = dict[str, Any]


def _row(timestamp: float, prompt: int, ids: list[Any], output: int = 4) -> Row:
    return {
        "timestamp": timestamp,
        "input_length": prompt,
        "output_length": output,
        "hash_ids": ids,
    }


def _make(rows: list[Row], block_tokens: int = 10, synthetic: bool = False) -> Trace:
    stamps = [each["timestamp"] for each in rows]
    counts = [len(each["hash_ids"]) for each in rows]
    return Trace(
        name="made",
        block_tokens=block_tokens,
        arrival_ns=np.array([round((s - stamps[0]) * 1e6) for s in stamps], dtype=np.int64),
        prompt_tokens=np.array([each["input_length"] for each in rows], dtype=np.int64),
        output_tokens=np.array([each["output_length"] for each in rows], dtype=np.int64),
        block_ids=intern([name for each in rows for name in each["hash_ids"]]),
        block_offsets=np.array([0, *np.cumsum(counts)], dtype=np.int64),
        synthetic=synthetic,
    )


@pytest.fixture
def rows() -> list[Row]:
    """Five requests in blocks of 10 tokens: two sessions, one request again, one without id."""
    return [
        _row(1000, 25, ["a", "b", "t1"]),
        _row(1000, 20, ["a", "c"]),
        _row(4500, 38, ["a", "b", "d", "t2"]),
        _row(9000, 25, ["a", "b", "t1"]),
        _row(9001, 9, []),
    ]


@pytest.fixture(scope="session")
def row() -> Callable[..., Row]:
    """`row(timestamp, prompt, ids, output=4)`: one line of a file, as a dict."""
    return _row


@pytest.fixture(scope="session")
def make() -> Callable[..., Trace]:
    """`make(rows, block_tokens=10, synthetic=False)`: a trace of sorted rows, by no reader."""
    return _make


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """`jsonl(rows or text or bytes, name)`: such a file."""

    def put(content: list[Row] | str | bytes, name: str = "t.jsonl") -> Path:
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(json.dumps(each) + "\n" for each in content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
