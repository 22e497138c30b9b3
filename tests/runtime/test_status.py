"""The status of real stores: strict JSON, nothing unknown without a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tiermem.runtime.counters import NONE, Count, Counters, TierCounters
from tiermem.runtime.host import HostArena
from tiermem.runtime.status import status_of

PAGE = 4096


class Report:
    """As much of a file store's report as a status tells."""

    directory, io_path = "somewhere", "posix_direct"
    used_bytes, directory_bytes, found_blocks = 3 * PAGE, 9 * PAGE, 0
    cold: str | None = "cold: no segment was made for 'model B'"

    class _Ignored:
        name, reason = "0-00000.blocks", "made for 'model A', and this is 'model B'"

    ignored = (_Ignored,)


def test_a_tier_of_each_kind(arena: Callable[..., HostArena], dict_store: Any) -> None:
    """Capacity, what is in use, io path, disk against the limit, ignored files, warnings."""
    dram, nvme = arena(8 * PAGE, name="dram"), dict_store(64 * PAGE)
    dram.warnings.append("1 MiB of pinned host memory could not be had")
    nvme.report = lambda: Report
    dram.allocate(PAGE)
    held = {"dram": TierCounters(held=Count(1, PAGE)), "nvme": TierCounters()}
    status = status_of(
        {"dram": dram, "nvme": nvme},
        Counters(held, asked=Count(1, PAGE), missed={"new": Count(1)}),
        policy="lru",
    )
    document = json.loads(json.dumps(status.document(), allow_nan=False))
    assert document["policy"] == "lru"
    assert document["recompute_s"] is None
    assert "nobody" in document["recompute_s_reason"]
    upper, lower = document["tiers"]
    assert (upper["capacity_bytes"], upper["used_bytes"]) == (8 * PAGE, PAGE)
    assert upper["files"] is None
    assert upper["files_reason"] == "a host tier reports none"
    assert upper["warnings"] == ["1 MiB of pinned host memory could not be had"]
    assert lower["files"]["io_path"] == "posix_direct"
    assert lower["files"]["limit_is"] == "per process, per directory"
    assert lower["used_bytes"] == lower["files"]["disk_bytes"] == 3 * PAGE
    assert lower["files"]["directory_bytes"] == 9 * PAGE
    assert lower["files"]["ignored_files"][0]["reason"].startswith("made for 'model A'")
    assert document["why"].endswith(
        "nvme was cold at the start: no segment was made for 'model B'."
    )


def test_a_store_that_reports_nothing(dict_store: Any) -> None:
    """What it holds is then known from the log alone, and its files are null with a reason."""
    counters = Counters({"nvme": TierCounters(held=Count(2, 2 * PAGE))})
    tier = status_of({"nvme": dict_store(8 * PAGE)}, counters).document()["tiers"][0]
    assert tier["used_bytes"] == 2 * PAGE
    assert tier["files_reason"] == "a file tier reports none"
    assert tier["why_no_hit"].startswith("nvme: ")


def test_costly_hits_are_a_warning(dict_store: Any) -> None:
    """Seconds of loading against the estimate of whoever has one."""
    counters = Counters({"nvme": TierCounters(hit=Count(5, 5), load_s=40.0)}, asked=Count(5, 5))
    status = status_of(
        {"nvme": dict_store(PAGE)}, counters, recompute_s=0.9, warnings=["disk is slow"]
    )
    assert status.warnings[0] == "disk is slow"
    assert "hits cost more than they save" in status.warnings[1]
    document = status.document()
    assert (document["load_s"], document["recompute_s"]) == (40.0, 0.9)
    assert "recompute_s_reason" not in document
    assert document["policy_reason"]
    assert status_of({"nvme": dict_store(PAGE)}, counters).warnings == ()
    assert counters["nvme"].offered == NONE
