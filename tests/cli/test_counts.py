"""`tiermem hits` and `tiermem list`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COLUMNS = [
    *("policy", "capacity_blocks", "order", "references", "block_hits", "prefix_hits"),
]

ORDERS = ("reverse", "forward", "either")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three requests over blocks a b c, a d, a b c: worked out by hand in the tests."""
    path = tmp_path / "small.jsonl"
    path.write_text(
        "\n".join(
            json.dumps(
                {"timestamp": at, "input_length": 512 * n, "output_length": 1, "hash_ids": ids}
            )
            for at, ids in enumerate(([0, 1, 2], [0, 3], [0, 1, 2]))
            for n in [len(ids)]
        )
    )
    return path


def test_hits_by_hand(trace: Path, tiermem: Callable[..., Any]) -> None:
    """LRU of 3 blocks, tail before head.

    a b c miss and are used c, b, a. Then a hits and d misses; d enters first and pushes c out, then
    a is used: b, d, a. Then a and b hit and c misses. Never forgetting: a, then a b c.
    """
    words = ["--policy", "lru,infinite", "--capacity", "3,9", "--json"]
    ended = tiermem("hits", trace, *words)
    assert (ended.status, ended.stderr) == (0, "")
    rows = ended.document["rows"]
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert [list(row.values()) for row in rows] == [
        ["lru", 3, "reverse", 8, 3, 3],
        ["lru", 9, "reverse", 8, 4, 4],
        ["infinite", None, "reverse", 8, 4, 4],
    ]


def test_every_policy_and_bound_is_counted(trace: Path, tiermem: Callable[..., Any]) -> None:
    """The names that scripts rely on, each with one row for each capacity."""
    names = ["lru", "fifo", "lfu", "s3fifo", "belady", "belady-bypass"]
    ended = tiermem("hits", trace, "--policy", ",".join(names), "--capacity", "2,4", "--json")
    rows = ended.document["rows"]
    assert [(row["policy"], row["capacity_blocks"]) for row in rows] == [
        (name, capacity) for name in names for capacity in (2, 4)
    ]
    assert all(row["prefix_hits"] <= row["block_hits"] <= 4 for row in rows)


@pytest.mark.parametrize(
    ("given", "orders"),
    [
        ([], {"reverse"}),
        (["--order", "forward"], {"forward"}),
        (["--order", "forward,reverse"], {"forward", "reverse"}),
    ],
)
def test_orders(
    given: list[str], orders: set[str], trace: Path, tiermem: Callable[..., Any]
) -> None:
    """JSON has the order asked for, reverse by default; people see both."""
    words = ["hits", trace, "--policy", "lru", "--capacity", "3"]
    rows = tiermem(*words, *given, "--json").document["rows"]
    assert {row["order"] for row in rows} == orders
    assert len(rows) == len(orders)
    shown = tiermem(*words).stdout
    assert "reverse" in shown
    assert "forward" in shown
    assert "the table has both, --json has reverse" in " ".join(
        tiermem("hits", "--help").stdout.replace("│", " ").split()
    )
    wrong = tiermem(*words, "--order", "backward", "--json")
    assert wrong.status == 1
    assert "forward" in wrong.stderr


def test_an_order_without_an_effect_is_one_row(trace: Path, tiermem: Callable[..., Any]) -> None:
    """What both orders count alike is shown once; what they do not, twice.

    LRU of 3 blocks hits 3 times tail before head (see above). Head before tail: a b c enter, a hits
    and d pushes b out, a hits again, b pushes c out and c pushes d: 2 hits.
    """
    words = ["--policy", "lru,infinite", "--capacity", "3"]
    lines = tiermem("hits", trace, *words).stdout.splitlines()
    shown = [line.replace("│", " ").split() for line in lines if "lru" in line or "inf" in line]
    assert [(row[0], [word for word in row if word in ORDERS]) for row in shown] == [
        ("lru", ["reverse"]),
        ("infinite", ["either"]),
        ("lru", ["forward"]),
    ]
    assert "3 (37.50%)" in " ".join(shown[0])
    assert "2 (25.00%)" in " ".join(shown[2])


def test_a_policy_of_the_desk(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """`module:Class` names a file here; a copy of FIFO counts as FIFO does."""
    (tmp_path / "desk_fifo.py").write_text("from tiermem.policies.fifo import FIFO as Mine\n")
    monkeypatch.chdir(tmp_path)
    words = ["--policy", "fifo,desk_fifo:Mine", "--capacity", "3", "--json"]
    built_in, mine = tiermem("hits", trace, *words).document["rows"]
    assert mine["policy"] == "desk_fifo:Mine"
    assert {**mine, "policy": "fifo"} == built_in


@pytest.mark.parametrize(
    ("shelf", "names"),
    [
        (
            "systems",
            {
                *("h100-ddr5-cxl-nvme", "h100x4-ddr5-cxl-nvme", "h100-cxlpim-csd"),
                *("h200-ddr5-nvme", "a100-ddr5-nvme", "laptop-nvme"),
            },
        ),
        ("llms", {"llama-3.1-8b", "llama-3.1-70b", "deepseek-v3", "qwen3-4b"}),
        ("policies", {"lru", "fifo", "lfu", "s3fifo", "belady", "belady-bypass", "infinite"}),
        ("traces", {"smollm2-chat", "synthetic-chat"}),
    ],
)
def test_lists(shelf: str, names: set[str], tiermem: Callable[..., Any]) -> None:
    """Every name that can be said elsewhere is listed, for programs and for people."""
    rows = tiermem("list", shelf, "--json").document["rows"]
    assert names <= {row["name"] for row in rows}
    assert [row["name"] for row in rows] == list(dict.fromkeys(row["name"] for row in rows))
    shown = tiermem("list", shelf)
    assert (shown.status, shown.stderr) == (0, "")
    assert all(name[:12] in shown.stdout for name in names)
