"""Tables as Parquet: nothing lost, nothing that changes between equal runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tiermem.report import parquet


def test_a_table_comes_back_as_it_was(tmp_path: Path, large: Callable[..., Any]) -> None:
    """Values, whole numbers and missing times survive; the policy is a column in front."""
    run = large("lru")
    run.tables["requests"].loc[3, ["first_token_ns", "last_token_ns"]] = pd.NA
    parquet.write(parquet.run_table("requests", [run]), tmp_path / "t.parquet")
    found = parquet.read(tmp_path / "t.parquet")
    assert found.columns[0] == "policy"
    assert found["first_token_ns"].isna().tolist().index(True) == 3
    expected = run.tables["requests"]
    for name in expected.columns:
        assert found[name].tolist() == expected[name].tolist() or name.endswith("token_ns")
    assert found["prompt_tokens"].dtype == "int64"


@pytest.mark.parametrize("kind", parquet.RUN_KINDS)
def test_equal_tables_are_equal_bytes(tmp_path: Path, large: Callable[..., Any], kind: str) -> None:
    """No pandas metadata and no time is in a file, so equal runs write equal files."""
    for name in ("a", "b"):
        table = parquet.run_table(kind, [large("lru"), large("fifo", reuse=0.1)])
        parquet.write(table, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pq.read_metadata(tmp_path / "a").metadata is None


def test_occupancy_keeps_change_points_only(tmp_path: Path, small: Callable[..., Any]) -> None:
    """Long form: one row per tier and change, the first instant included."""
    used = pd.DataFrame({"time_ns": [0, 1, 2, 3], "hbm": [0, 5, 5, 5], "nvme": [0, 0, 0, 7]})
    run = small([{"tokens_hbm": 1}], tables={"occupancy": used})
    parquet.write(parquet.run_table("occupancy", [run]), tmp_path / "t")
    found = parquet.read(tmp_path / "t")[["tier", "time_ns", "used_bytes"]]
    assert found.values.tolist() == [["hbm", 0, 0], ["hbm", 1, 5], ["nvme", 0, 0], ["nvme", 3, 7]]


def test_an_infinite_cache_has_no_capacity(tmp_path: Path, hit_counts: Callable[..., Any]) -> None:
    """`capacity_blocks` of the infinite cache is null, not a large number."""
    parquet.write(parquet.hits_table(hit_counts(["lru"])), tmp_path / "t")
    found = parquet.read(tmp_path / "t")
    endless = found[found["capacity_blocks"].isna()]
    assert endless["policy"].tolist() == ["infinite"]


def test_no_rows_is_the_same_schema(tmp_path: Path) -> None:
    """Hit counts of a trace without blocks: an empty table with every column."""
    parquet.write(parquet.hits_table([]), tmp_path / "t")
    found = parquet.read(tmp_path / "t")
    assert len(found) == 0
    assert list(found.columns)[:2] == ["policy", "capacity_blocks"]
