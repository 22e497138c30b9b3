"""What a trace or a policy gets wrong is told, or set right, before it becomes a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.errors import InputError
from tiermem.models import presets
from tiermem.scenario import Scenario, Simulation, simulate
from tiermem.traces import mooncake

KV_BYTES = 131_072  # llama-3.1-8b, per token: 2 x 32 layers x 8 heads x 128 x 2 bytes


def scenario(path: Path, rows: list[str], policy: str = "lru", kv_blocks: int = 8) -> Scenario:
    """Rows as a trace of 512-token blocks, on one GPU with room for `kv_blocks` of them."""
    path.write_text("\n".join(rows) + "\n")
    system = presets.system("h100", kv_blocks=kv_blocks, kv_block_tokens=512)
    return Scenario(mooncake.read(path), system, presets.llm("llama-3.1-8b"), policy)


def row(at_ms: int, tokens: int, ids: list[int]) -> str:
    """One line of a trace, with one output token."""
    return (
        f'{{"timestamp": {at_ms}, "input_length": {tokens}, "output_length": 1, "hash_ids": {ids}}}'
    )


def test_a_short_tail_is_no_hit_for_the_whole_block(tmp_path: Path) -> None:
    """Id 2 is one token long in the first request and 512 in the second: nobody computed the
    other 511, so only block 1 is a hit."""
    rows = [row(0, 513, [1, 2]), row(60_000, 1536, [1, 2, 3])]
    requests = simulate(scenario(tmp_path / "t.jsonl", rows)).tables["requests"]
    assert requests["tokens_hbm"].tolist() == [0, 512]
    assert requests["tokens_recompute"].tolist() == [513, 1024]


def test_an_id_of_two_lengths_never_overfills_a_tier(tmp_path: Path) -> None:
    """INV-1: block 1 is whole first and a tail of one token later, and HBM is exactly full."""
    rows = [row(0, 512, [1]), row(60_000, 1025, [2, 3, 1])]
    run = simulate(scenario(tmp_path / "t.jsonl", rows, kv_blocks=3))
    assert run.tables["requests"]["state"].tolist() == ["completed", "completed"]
    assert run.tables["occupancy"]["hbm"].max() <= 3 * 512 * KV_BYTES


def test_a_tier_below_one_block_is_refused(tmp_path: Path) -> None:
    """`dram=64` is 64 bytes, a slip of the unit; the line says what a block takes."""
    path = tmp_path / "t.jsonl"
    path.write_text(row(0, 512, [1]) + "\n")
    system = presets.system("h100-ddr5-cxl-nvme", capacities={"dram": 64})
    made = Scenario(mooncake.read(path), system, presets.llm("llama-3.1-8b"), "lru")
    with pytest.raises(InputError, match=r"dram of 64 B holds no block.*64 MiB"):
        Simulation(made)


FAULTS = {
    "class P:\n    def __init__(self, capacity): pass\n    def victims(self): pass\n": "insert",
    "class P:\n    demote_ahead = 0.0\n    def __init__(self, capacities): capacities.clear()\n"
    "    def demote(self, *_): pass\n": "touch_order",
    "class P:\n    touch_order = 'sideways'\n    demote_ahead = 0.0\n"
    "    def __init__(self, capacities): pass\n"
    "    def evict(self, tier): return {}\n"
    "    admit = demote = reuse = site = prefetch = evict\n": "'sideways'",
    "class P:\n    touch_order = 'reverse'\n    demote_ahead = float('nan')\n"
    "    def __init__(self, capacities): pass\n"
    "    def evict(self, tier): return {}\n"
    "    admit = demote = reuse = site = prefetch = evict\n": "demote_ahead",
    "class P:\n    touch_order = 'reverse'\n    demote_ahead = 0.0\n"
    "    def __init__(self, capacities): pass\n"
    "    def evict(self, tier): raise RuntimeError('not today')\n"
    "    admit = demote = reuse = site = prefetch = evict\n": "not today",
}


@pytest.mark.parametrize("fault", FAULTS, ids=list(FAULTS.values()))
def test_a_half_written_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """One line says what it lacks, before anything is simulated."""
    monkeypatch.chdir(tmp_path)
    name = f"slip_{list(FAULTS).index(fault)}"
    (tmp_path / f"{name}.py").write_text(fault)
    made = scenario(tmp_path / "t.jsonl", [row(0, 512, [1])], f"{name}:P")
    with pytest.raises(InputError, match=FAULTS[fault]):
        Simulation(made)


def test_a_policy_without_victims_leaves_requests_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-11: nobody is lost; the warning says that there was something to evict."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.py").write_text(
        "from tiermem.policies.lru import LRU\n\n\n"
        "class P(LRU):\n    def victims(self):\n        while True:\n            yield -1\n"
    )
    rows = [row(0, 1024, [1, 2]), row(60_000, 1024, [3, 4])]
    run = simulate(scenario(tmp_path / "t.jsonl", rows, "none:P", kv_blocks=2))
    assert run.tables["requests"]["state"].tolist() == ["completed", "unfinished"]
    assert any("names no victim" in warning for warning in run.warnings)
