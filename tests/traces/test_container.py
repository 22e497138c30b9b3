"""Files as bytes: damage is one InputError, writing is all or nothing."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.traces import container, mooncake

LINE = {"timestamp": 1, "input_length": 1030, "output_length": 4, "hash_ids": [1, 2, 3]}
PLAIN = b"".join(json.dumps({**LINE, "timestamp": i}).encode() + b"\n" for i in range(40))
FILES = {
    suffix: container.compress(PLAIN, Path(f"t.jsonl{suffix}")) for suffix in ("", ".gz", ".zst")
}


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_truncated_file_is_refused(tmp_path: Path, suffix: str) -> None:
    """Half a compressed file is an error that names the file, at every length."""
    path = tmp_path / f"t.jsonl{suffix}"
    for size in range(5, len(FILES[suffix])):
        path.write_bytes(FILES[suffix][:size])
        with pytest.raises(InputError, match=r"t\.jsonl\.(gz|zst): (truncated|damaged)"):
            container.load(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_flipped_bit_is_never_data(tmp_path: Path, suffix: str) -> None:
    """The checksums of gzip and of the zstd files we write catch any changed bit of the data."""
    path = tmp_path / f"t.jsonl{suffix}"
    refused = 0
    for at in range(10, len(FILES[suffix])):
        damaged = bytearray(FILES[suffix])
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        try:
            assert container.load(path) == PLAIN
        except InputError:
            refused += 1
    assert refused > 0.95 * (len(FILES[suffix]) - 10)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_an_input_error_or_a_trace(
    tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    """Whatever bytes change, vanish or appear: one InputError line, or a whole trace."""
    content = bytearray(FILES[suffix])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        action = data.draw(st.sampled_from(["change", "delete", "insert", "cut"]))
        if action == "cut":
            del content[at:]
        else:
            content[at : at + (action != "insert")] = (
                b"" if action == "delete" else bytes([data.draw(st.integers(0, 255))])
            )
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    try:
        trace = mooncake.read(path)
    except InputError as error:
        line = str(error)
        assert line.startswith(str(path))
        assert "\n" not in line
        line.encode()
    else:
        assert 1 <= len(trace) <= 41


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "this is a folder"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
)
def test_what_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """A missing file, a folder and a circular link: one line with the path."""
    make(tmp_path / "t.jsonl")
    with pytest.raises(InputError, match=rf"t\.jsonl: {words}"):
        container.load(tmp_path / "t.jsonl")


def test_gzip_is_plain_gzip() -> None:
    """What we write others read, and it carries no time stamp."""
    assert gzip.decompress(FILES[".gz"]) == PLAIN
    assert FILES[".gz"][4:8] == bytes(4)


def test_zstd_is_plain_zstd(tmp_path: Path) -> None:
    """The frame with our checksum is one that pyarrow and the zstd program accept."""
    assert pa.input_stream(pa.py_buffer(FILES[".zst"]), compression="zstd").read() == PLAIN
    if program := shutil.which("zstd"):
        (tmp_path / "t.zst").write_bytes(FILES[".zst"])
        done = subprocess.run([program, "-dc", tmp_path / "t.zst"], capture_output=True, check=True)
        assert done.stdout == PLAIN


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    """When one file cannot be written, those before it keep their old content."""
    old, bad = tmp_path / "old", tmp_path / "missing" / "file"
    old.write_bytes(b"old")
    with pytest.raises(InputError, match="missing/file: cannot be written"):
        container.replace_all({old: b"new", bad: b"new"})
    assert old.read_bytes() == b"old"
    container.replace_all({old: b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_bytes() == b"new"
