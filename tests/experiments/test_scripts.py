"""Scripts in experiments/ run with --quick, write a PNG and a table that add up; and the chats."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tiermem.report import folder

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "experiments"
# Those that compare and draw; record_chats.py plays to a real model for half an hour.
DRAWING = sorted(path.name for path in SCRIPTS.glob("*.py") if path.name != "record_chats.py")
PNG = b"\x89PNG\r\n\x1a\n"


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """One script in a process of its own, with warnings as errors."""
    command = [sys.executable, "-W", "error", SCRIPTS / name, *arguments]
    root = str(SCRIPTS.parent)
    environment = os.environ | {"PYTHONPATH": root}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", DRAWING)
def test_each_script_is_quick_and_draws(tmp_path: Path, name: str) -> None:
    """--quick ends in seconds with a table and at least one PNG file."""
    done = run(name, "--quick", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    figures = list((tmp_path / "out").rglob("*.png"))
    assert figures
    assert all(path.read_bytes().startswith(PNG) for path in figures)
    assert (tmp_path / "out/table.md").read_text().count("|") > 20


def test_policies_of_one_comparison_saw_the_same_trace(tmp_path: Path) -> None:
    """compare_policies: four policies, all requests, sources that sum to the same total."""
    done = run("compare_policies.py", "--quick", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = folder.load(tmp_path / "out")
    assert [entry["policy"] for entry in found.runs] == ["lru", "fifo", "lfu", "s3fifo"]
    totals = {sum(entry["prompt_tokens_by_source"].values()) for entry in found.runs}
    assert totals == {found.results["trace"]["prompt_tokens"]}
    assert all(move["bytes"] > 0 for entry in found.runs for move in entry["moves"])
    assert "Of the LRU-to-Belady gap" in done.stdout


def test_a_larger_tier_never_hits_less_under_lru(tmp_path: Path) -> None:
    """size_tiers: hit share rises with capacity, and the table is the sweep that was asked for."""
    sizes = "1GiB,4GiB,64GiB"
    arguments = ("--policy", "lru", "--sizes", sizes, "--out", tmp_path / "out")
    done = run("size_tiers.py", "--quick", *arguments)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(tmp_path / "out/table.parquet")
    assert table["capacity_bytes"].tolist() == [2**30, 2**32, 2**36]
    shares = table["hit_share"].tolist()
    assert shares == sorted(shares)
    assert shares[-1] > shares[0]
    assert (table["ttft_p99_s"] >= table["ttft_p50_s"]).all()
    assert "of dram with lru is within 5%" in done.stdout
    mean = table["ttft_mean_s"]
    assert ("try larger" in done.stdout) == (mean[2] < mean[:2].min() / 1.01)
    one = run(
        "size_tiers.py", "--quick", "--policy", "lru", "--sizes", "4GiB", "--out", tmp_path / "1"
    )
    assert "The largest size tried is the best: try larger." in one.stdout


@pytest.mark.parametrize("name", DRAWING)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    """An unknown system: one line with the nearest name, no traceback, no folder."""
    done = run(name, "--quick", "--system", "h100-ddr5-cxl-nvmee", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "did you mean 'h100-ddr5-cxl-nvme'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_chats_are_enough_and_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """record_chats: over 100 sessions of 2 to 6 turns that open differently, over system prompts
    that are shared, with results of tools; the same ones for the same seed."""
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    module: Any = importlib.import_module("record_chats")
    one, again = (module.sessions(105, random.Random(1)) for _ in range(2))
    assert one == again != module.sessions(105, random.Random(2))
    assert len({messages[0][1] for _, messages in one}) == 105
    assert len({who["system"] for who, _ in one}) == 9
    assert {len(messages) for _, messages in one} == {2, 3, 4, 5, 6}
    assert {who["kind"] for who, _ in one} == {"chat", "tools", "document"}
    assert all(
        [each[0] for each in messages].count("tool") == (who["kind"] == "tools")
        for who, messages in one
    )
