"""Results stay and are told of, whatever becomes of figures, streams and readers."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.cli.runs import rejections
from tiermem.report.plots import figures

MACHINE = ["--system", "laptop-nvme", "--llm", "qwen3-4b", "--policy", "lru"]
TIERMEM = [sys.executable, "-m", "tiermem"]


@pytest.fixture
def words(tmp_path: Path, tiermem: Callable[..., Any]) -> list[str]:
    """A short simulation into the folder `out`, of requests that can all be served."""
    path = tmp_path / "few.jsonl"
    synth = ["--kind", "uniform", "--requests", 5, "--prompt-tokens", 900, "--output-tokens", 3]
    assert tiermem("trace", "synth", *synth, "--rate", 1, "--out", path).status == 0
    return ["simulate", str(path), *MACHINE, "--out", str(tmp_path / "out")]


def drawn(out: Path) -> int:
    assert (out / "results.json").is_file()
    return len(list(out.glob("*.png")))


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError("odd"), 1, "odd"),
        (MemoryError(), 1, "not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_figures_that_cannot_be_drawn(
    error: BaseException,
    status: int,
    reason: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiermem: Callable[..., Any],
) -> None:
    """One line says that the results are safe, where, and why there is no figure."""

    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr(figures, "draw", fails)
    ended = tiermem(*words)
    said = f"results are saved in {tmp_path / 'out'}; figures are missing: {reason}"
    assert (ended.status, ended.stderr) == (status, f"tiermem: error: {said}\n")
    assert drawn(tmp_path / "out") == 0


def test_ctrl_c_while_drawing(words: list[str], tmp_path: Path) -> None:
    """The real signal to the real command, once the results are there."""
    with subprocess.Popen([*TIERMEM, *words], stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 120
        while not (tmp_path / "out" / "results.json").exists():
            assert time.monotonic() < until
            time.sleep(0.005)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        said = running.stderr.read()
    assert running.returncode == 130
    assert said.startswith(f"tiermem: error: results are saved in {tmp_path / 'out'}; figures")
    assert said.count("\n") == 1


def test_a_limit_on_the_size_of_files(words: list[str], tmp_path: Path) -> None:
    """Data below the limit are kept when a figure is above it."""
    limit = 20_000
    ended = subprocess.run(
        [*TIERMEM, *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "figures are missing: File too large" in ended.stderr
    assert drawn(tmp_path / "out") == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_nowhere_to_print(words: list[str], tmp_path: Path) -> None:
    """A full disk behind stdout costs the table, not the results or the figures."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*TIERMEM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
        listed = subprocess.run(
            [*TIERMEM, "list", "llms"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 1
    assert ended.stderr == (
        f"tiermem: error: results are saved in {tmp_path / 'out'}; figures too, but not all was "
        "printed: No space left on device\n"
    )
    assert drawn(tmp_path / "out") == 5
    assert listed.returncode == 1
    assert listed.stderr == "tiermem: error: No space left on device\n"


def test_a_reader_that_went_away(words: list[str], tmp_path: Path) -> None:
    """`| head -1` ends a command quietly, with the status of a broken pipe and every figure."""
    for command in (words, ["list", "llms"], ["list", "llms", "--json"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        ended = subprocess.run(
            [*TIERMEM, *command], stdout=write, stderr=subprocess.PIPE, text=True
        )
        os.close(write)
        assert (ended.returncode, ended.stderr) == (141, ""), command
    assert drawn(tmp_path / "out") == 5


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_that_are_closed(closed: str) -> None:
    """Without stdout or stderr a command does its work and says nothing there."""
    line = f'"{sys.executable}" -m tiermem list llms {closed}'
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("qwen3-4b" in ended.stdout) == (closed == "2>&-")


def test_some_rejected_requests_are_told(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A request that is not served is named on stderr, though the command succeeds."""
    rows = [
        {"timestamp": 0, "input_length": 512 * n, "output_length": 1, "hash_ids": list(range(n))}
        for n in (2, 100)  # 51,200 tokens are more than the 40,960 of the model
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    ended = tiermem("simulate", path, *MACHINE, "--out", tmp_path / "out")
    assert ended.status == 0
    assert ended.stderr.startswith(
        "tiermem: warning: lru: 1 of 2 requests were rejected (request 1"
    )
    assert ended.stderr.count("\n") == 1


def test_rejections_are_told_once_for_all_policies() -> None:
    """Policies that reject the same share a line; none and all are no warnings."""
    assert rejections([]) == []
    counts = {"lru": 1, "fifo": 1, "lfu": 0, "all": 4}
    runs = [
        {
            "policy": name,
            "requests": {"generated": 4, "rejected": count},
            "warnings": ["request 3 rejected: too long"] * bool(count),
        }
        for name, count in counts.items()
    ]
    assert rejections(runs) == [
        "lru, fifo: 1 of 4 requests were rejected (request 3 rejected: too long)"
    ]
