"""`tiermem simulate` and `tiermem compare`, from the command line to the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiermem as package
from tiermem.errors import Unfinished

SYSTEM = ["--system", "laptop-nvme", "--llm", "qwen3-4b"]


@pytest.fixture
def trace(tmp_path: Path, tiermem: Callable[..., Any]) -> Path:
    """Forty requests of chat."""
    out = tmp_path / "chat.jsonl"
    made = tiermem("trace", "synth", "--kind", "chat", "--requests", 40, "--seed", 2, "--out", out)
    assert made.status == 0
    return out


def test_simulate_leaves_a_folder(trace: Path, tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """One policy: a table on stdout, and a folder whose sources sum to the trace's tokens."""
    out = tmp_path / "out"
    ended = tiermem("simulate", trace, *SYSTEM, "--policy", "lru", "--out", out)
    assert ended.status == 0
    assert "lru" in ended.stdout
    assert "synthetic" in ended.stdout
    assert str(out) in ended.stdout
    results = json.loads((out / "results.json").read_text())
    [run] = results["runs"]
    assert run["policy"] == "lru"
    counts = run["requests"]
    assert counts["generated"] == 40
    assert counts["completed"] + counts["rejected"] + counts["unfinished"] == 40
    asked = tiermem("trace", "info", trace, "--json").document["prompt_tokens"]["total"]
    assert sum(run["prompt_tokens_by_source"].values()) == asked
    assert len(package.load(out).frame()) == 40


def test_compare_keeps_the_order_of_the_policies(
    trace: Path, tmp_path: Path, tiermem: Callable[..., Any]
) -> None:
    """Policies stand in the order asked for, with their parameters in their names."""
    out = tmp_path / "out"
    policies = ["s3fifo:small=0.2", "lru", "lfu"]
    words = [trace, *SYSTEM, "--policy", ",".join(policies), "--out", out]
    assert tiermem("compare", *words).status == 0
    runs = json.loads((out / "results.json").read_text())["runs"]
    assert [run["policy"] for run in runs] == policies


def test_capacities_and_reported_blocks_are_in_force(
    trace: Path, tmp_path: Path, tiermem: Callable[..., Any]
) -> None:
    """What was given wins over the system's own, and what is in force is written down.

    The engine reported 2,000 blocks of 16 tokens, each of 147,456 bytes.
    """
    out = tmp_path / "out"
    tiers = ["--capacity", "dram=3GiB", "--capacity", "nvme=5GB"]
    engine = ["--kv-blocks", 2000, "--kv-block-tokens", 16]
    words = ["simulate", trace, *SYSTEM, "--policy", "lru", *tiers, *engine, "--out", out]
    assert tiermem(*words).status == 0
    config = json.loads((out / "config.json").read_text())
    assert config["kv_capacities_bytes"] == {
        "hbm": 2000 * 16 * 147_456,
        "dram": 3 * 2**30,
        "nvme": 5 * 10**9,
    }


def test_overwrite_replaces_the_run(
    trace: Path, tmp_path: Path, tiermem: Callable[..., Any]
) -> None:
    """A run folder is refused the second time, and replaced whole when that is asked for."""
    out = tmp_path / "out"
    words = ["simulate", trace, *SYSTEM, "--out", out]
    assert tiermem(*words, "--policy", "lru").status == 0
    before = (out / "results.json").read_bytes()
    refused = tiermem(*words, "--policy", "fifo")
    assert refused.status == 1
    assert "not empty" in refused.stderr
    assert (out / "results.json").read_bytes() == before
    assert tiermem(*words, "--policy", "fifo", "--overwrite").status == 0
    [run] = json.loads((out / "results.json").read_text())["runs"]
    assert run["policy"] == "fifo"


def test_nobody_served_is_no_success(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """When every request is rejected the folder is there, the reason too, and the status is 1."""
    trace, out = tmp_path / "long.jsonl", tmp_path / "out"
    synth = ["--kind", "uniform", "--requests", 3, "--prompt-tokens", 50_000]
    more = ["--output-tokens", 5, "--rate", 1, "--out", trace]
    assert tiermem("trace", "synth", *synth, *more).status == 0
    ended = tiermem("simulate", trace, *SYSTEM, "--policy", "lru", "--out", out)
    assert ended.status == 1
    assert "every request was rejected" in ended.stderr
    [run] = json.loads((out / "results.json").read_text())["runs"]
    assert run["requests"] == {"generated": 3, "completed": 0, "rejected": 3, "unfinished": 0}
    assert run["prompt_tokens_by_source"]["rejected"] == 150_000
    assert run["ttft_s"]["mean"] is None
    assert run["ttft_s"]["n"] == 0


def test_unfinished_requests_exit_with_three(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiermem: Callable[..., Any]
) -> None:
    """What was left over is said, and the status is 3."""

    def left_over(**_: object) -> None:
        raise Unfinished("lru: 2 requests unfinished")

    monkeypatch.setattr("tiermem.experiment.compare", left_over)
    ended = tiermem("compare", "--out", tmp_path / "out")
    assert (ended.status, ended.stderr) == (3, "tiermem: error: lru: 2 requests unfinished\n")


def test_a_policy_that_raises(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """Faults A28 and F137: the failing policy is named, the others are reported, status 1."""
    (tmp_path / "broken_policy.py").write_text(
        "from tiermem.policies.lru import LRU\n\n\n"
        "class Broken(LRU):\n"
        "    def touch(self, block):\n"
        "        raise RuntimeError('no idea what to do')\n"
    )
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    words = ["--policy", "lru,broken_policy:Broken", "--out", out]
    ended = tiermem("compare", trace, *SYSTEM, *words)
    assert ended.status == 1
    assert "broken_policy:Broken" in ended.stderr
    assert "no idea what to do" in ended.stderr
    assert ended.stderr.count("\n") == 1
    results = json.loads((out / "results.json").read_text())
    assert [run["policy"] for run in results["runs"]] == ["lru"]
    assert [failure["policy"] for failure in results["failed"]] == ["broken_policy:Broken"]
