"""The description beside a trace file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.errors import InputError
from tiermem.traces import mooncake, sidecar
from tiermem.traces.trace import Trace

Make = Callable[..., Trace]
Rows = list[dict[str, Any]]


@pytest.fixture
def written(tmp_path: Path, make: Make, rows: Rows) -> Path:
    mooncake.write(make(rows, synthetic=True), tmp_path / "t.jsonl")
    return tmp_path / "t.jsonl"


def test_it_says_what_was_written(written: Path, make: Make, rows: Rows) -> None:
    """Flag, digest and block size of the trace are those of the sidecar."""
    found = sidecar.load(written)
    assert found == sidecar.Sidecar(True, make(rows).digest, 10, {})
    assert sidecar.load(written.with_name("other.jsonl")) is None


def test_a_file_that_changed_is_noticed(written: Path) -> None:
    """A sidecar of other content still makes the trace synthetic, and a notice says it differs."""
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join(lines[:3]))
    trace = mooncake.read(written, block_tokens=10)
    assert trace.synthetic
    assert "t.jsonl.meta.json describes other content than t.jsonl has now" in trace.notices


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("synthetic", "yes", "synthetic: 'yes' is not a bool"),
        ("digest", 5, "digest: 5 is not a str"),
        ("block_tokens", True, "block_tokens: True is not a int"),
        ("block_tokens", 0, "not a description that this version can read"),
        ("format", 99, "not a description that this version can read"),
        ("meta", None, "meta: None is not a dict"),
    ],
)
def test_a_wrong_description_is_an_error(
    written: Path, key: str, value: object, words: str
) -> None:
    """A sidecar that is not ours is refused with its own path and key."""
    path = sidecar.path_of(written)
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, key: value}))
    with pytest.raises(InputError) as error:
        mooncake.read(written, block_tokens=10)
    assert str(error.value) == f"{path}: {words}"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"meta": NaN}', "{}", "\xff"])
def test_a_broken_description_is_an_error(written: Path, text: str) -> None:
    """No text in the sidecar gets further than one InputError."""
    sidecar.path_of(written).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"t\.jsonl\.meta\.json: "):
        mooncake.read(written, block_tokens=10)
