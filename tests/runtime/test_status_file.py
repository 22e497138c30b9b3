"""The status file: whole at any moment, an entry for each runtime, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tiermem.errors import InputError
from tiermem.runtime import status_file
from tiermem.runtime.file.folder import STATUS_NAME
from tiermem.runtime.status_file import StatusFile, StatusWriter, read_status


def runtimes(directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_status(directory)["runtimes"]
    return found


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """With who wrote it, when, and that it runs; a second write replaces the first."""
    file = StatusFile(tmp_path)
    file.write({"why": "first"})
    file.write({"why": "second"})
    (entry,) = runtimes(tmp_path)
    assert entry["why"] == "second"
    assert entry["pid"] == os.getpid()
    assert entry["running"]
    assert 0 <= entry["age_s"] < 60
    file.write({"why": "last"}, closed=True)
    assert not runtimes(tmp_path)[0]["running"]
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_NAME]


def test_runtimes_share_a_directory(tmp_path: Path) -> None:
    """Each has its entry, also two of one process; one that closed goes when another writes."""
    first, second = StatusFile(tmp_path), StatusFile(tmp_path)
    first.write({"why": "a"})
    second.write({"why": "b"})
    assert [entry["why"] for entry in runtimes(tmp_path)] == ["a", "b"]
    first.write({"why": "a"}, closed=True)
    second.write({"why": "c"})
    assert [entry["why"] for entry in runtimes(tmp_path)] == ["c"]


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    """Its entry is there for whoever asks, as not running; a later writer drops it."""
    code = (
        "import os, sys; from pathlib import Path;"
        "from tiermem.runtime.status_file import StatusFile;"
        "StatusFile(Path(sys.argv[1])).write({'why': 'mine'}); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (entry,) = runtimes(tmp_path)
    assert (entry["why"], entry["running"]) == ("mine", False)
    own = StatusFile(tmp_path)
    own.write({"why": "own"})
    assert len(runtimes(tmp_path)) == 2  # it may only be out of sight
    path = tmp_path / STATUS_NAME
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["runtimes"][0]["written_unix_s"] -= 3600
    path.write_text(json.dumps(whole), encoding="utf-8")
    own.write({"why": "own"})
    assert [entry["why"] for entry in runtimes(tmp_path)] == ["own"]


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    """Many writers at once: every read is whole, and at the end every writer has its entry."""
    files = [StatusFile(tmp_path) for _ in range(4)]
    files[0].write({"why": "x" * 5000})

    def write(file: StatusFile) -> None:
        for _ in range(25):
            file.write({"why": "x" * 5000})

    threads = [threading.Thread(target=write, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert all(len(entry["why"]) == 5000 for entry in runtimes(tmp_path))
    for thread in threads:
        thread.join()
    assert len(runtimes(tmp_path)) == 4


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """No directory, no file, no JSON, another schema: which, and where."""
    path = tmp_path / STATUS_NAME
    cases = [(tmp_path / "none", "is no directory"), (tmp_path, f"no {STATUS_NAME} here")]
    for directory, said in cases:
        with pytest.raises(InputError, match=said):
            read_status(directory)
    for text, said in (("{", "not a status"), ("[]", "schema None"), ('{"schema": 9}', "schema 9")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said) as caught:
            read_status(tmp_path)
        assert "\n" not in str(caught.value)
    StatusFile(tmp_path).write({"why": "over it"})
    assert runtimes(tmp_path)[0]["why"] == "over it"


def test_a_writer_writes_first_and_last(tmp_path: Path) -> None:
    """At once, as time goes by, and with `closed` at the end."""
    count = [0]

    def document() -> dict[str, Any]:
        count[0] += 1
        return {"why": str(count[0])}

    writer = StatusWriter(tmp_path, document, every_s=0.02)
    deadline = time.monotonic() + 20
    while count[0] < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    writer.close()
    (entry,) = runtimes(tmp_path)
    assert entry["closed"]
    assert entry["why"] == str(count[0])
    writer.close()


def test_a_writer_that_cannot_write_is_no_fault_of_the_runtime(tmp_path: Path) -> None:
    """The reason is kept; no draft is left behind."""
    writer = StatusWriter(tmp_path / "none", dict, every_s=60)
    writer.close()
    assert writer.fault is not None
    assert "FileNotFoundError" in writer.fault
    broken = StatusWriter(tmp_path, lambda: {"load_s": float("nan")}, every_s=60)
    broken.close()
    assert broken.fault is not None
    assert list(tmp_path.iterdir()) == []


def test_a_failed_draft_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the old status, and nothing else."""
    file = StatusFile(tmp_path)
    file.write({"why": "old"})

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(status_file.Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        file.write({"why": "new"})
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_NAME]
    assert runtimes(tmp_path)[0]["why"] == "old"


def test_a_number_that_is_used_again_is_another_process() -> None:
    """A process is known by when it began too."""
    own = status_file._start_ticks(os.getpid())
    assert own is not None
    assert status_file._runs({"pid": os.getpid(), "pid_start_ticks": own})
    assert not status_file._runs({"pid": os.getpid(), "pid_start_ticks": own - 1})
    assert not status_file._runs({"pid": 2**22 + 1, "pid_start_ticks": None})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": 1, "limit_is": "", "runtimes": [{"pid": "x"}]}', "runtimes"),
        ('{"schema": 1, "limit_is": "", "runtimes": 5}', "runtimes is not a list"),
        ('{"schema": 1}', "has no runtimes"),
        ('{"schema": NaN}', "NaN is not a number"),
    ],
)
def test_a_damaged_status_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """For who reads it; who writes it replaces it."""
    path = tmp_path / STATUS_NAME
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        read_status(tmp_path)
    assert str(path) in str(caught.value)
    StatusFile(tmp_path).write({"why": "anew"})
    assert [entry["why"] for entry in runtimes(tmp_path)] == ["anew"]


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    """Neither by who reads nor by the thread that writes."""
    os.mkfifo(tmp_path / STATUS_NAME)
    with pytest.raises(InputError, match="not a regular file"):
        read_status(tmp_path)
    writer = StatusWriter(tmp_path, lambda: {"why": "here"})
    writer.close()
    assert not [each for each in threading.enumerate() if each.name == "tiermem-status"]
    assert [entry["why"] for entry in runtimes(tmp_path)] == ["here"]
