"""`tiermem status`: the counters in order, the sentence, and directories that are none of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiermem.runtime.counters import Count, Counters, TierCounters
from tiermem.runtime.status import Files, Status, TierStatus
from tiermem.runtime.status_file import StatusFile
from tiermem.runtime.why import why_tier

MIB = 1 << 20
IGNORED = tuple((name, "not ours") for name in "abcdefghijklmnopqrstuvwxyz")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What a runtime left that never had a hit."""
    dram = TierCounters(
        offered=Count(8, 8 * MIB),
        admitted=Count(8, 8 * MIB),
        stored=Count(8, 8 * MIB),
        looked_up=Count(9, 9 * MIB),
        evicted=Count(5, 5 * MIB),
        dropped={"evict": Count(5, 5 * MIB)},
    )
    nvme = TierCounters(
        offered=Count(5, 5 * MIB),
        refused={"policy": Count(5, 5 * MIB)},
        looked_up=Count(9, 9 * MIB),
        faults={"checksum": 2},
    )
    counters = Counters(
        {"dram": dram, "nvme": nvme},
        9,
        Count(9, 9 * MIB),
        {"new": Count(4, 4 * MIB), "evict": Count(5, 5 * MIB)},
    )
    files = Files("x", "posix_direct", 2 * MIB, 3 * MIB, 0, "no file here", IGNORED)
    tiers = (
        TierStatus("dram", "host", 4 * MIB, 3 * MIB, dram, None, ("pinned host memory",), None),
        TierStatus(
            "nvme",
            "file",
            64 * MIB,
            2 * MIB,
            nvme,
            files,
            (),
            why_tier("nvme", nvme, fastest=False),
        ),
    )
    status = Status(counters, tiers, "lru", 0.1, ("hits cost more than they save",))
    StatusFile(tmp_path).write(status.document())
    return tmp_path


def test_people_read_the_counters_in_order(tiermem: Any, directory: Path) -> None:
    """A row a word in the order of a block's way, reasons below; then why, then room."""
    ended = tiermem("status", directory)
    assert (ended.status, ended.stderr) == (0, "")
    lines = [line for line in ended.stdout.splitlines() if line.startswith("│")]
    words = ["offered", "admitted", "refused", "policy", "stored", "looked up", "hit", "loaded"]
    places = [next(n for n, line in enumerate(lines) if f" {word} " in line) for word in words]
    assert places == sorted(places)
    text = " ".join(ended.stdout.split())
    for part in (
        "policy lru",
        "Hit rate 0: 8 blocks were stored and 9 looked up (5 evict, 4 new).",
        "nvme refused 5 policy (the policy let them go instead)",
        "nvme: 5 blocks were offered, none admitted",
        "2 MiB on disk of 64 MiB (per process, per directory; the whole directory has 3 MiB)",
        "io path posix_direct",
        "cold: no file here",
        "ignored a: not ours",
        "ignored t: not ours",
        "ignored 6 files more",
        "checksum",
        "warning: dram: pinned host memory",
        "warning: hits cost more than they save",
        "(running)",
    ):
        assert part in text


def test_programs_get_strict_json(tiermem: Any, directory: Path) -> None:
    """The document that was written, with what is known now: running, age."""
    document = tiermem("status", directory, "--json").document
    (runtime,) = document["runtimes"]
    assert document["limit_is"] == "per process, per directory"
    assert runtime["tiers"][1]["files"]["io_path"] == "posix_direct"
    assert runtime["hit_rate"] == 0
    assert runtime["running"] is True
    assert runtime["tiers"][1]["counters"]["refused"]["policy"]["blocks"] == 5


def test_a_directory_without_a_runtime_is_one_line(tiermem: Any, tmp_path: Path) -> None:
    """Empty, missing, or with a file that is none of ours: status 1 and the reason."""
    (tmp_path / "tiermem-status.json").write_text("nonsense", encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, said in (
        (empty, "no runtime with a file tier has used this directory yet"),
        (tmp_path / "none", "is no directory"),
        (tmp_path, "is not a status of ours"),
    ):
        ended = tiermem("status", place)
        assert (ended.status, ended.stdout) == (1, "")
        assert said in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_an_entry_that_cannot_be_printed_is_one_line(tiermem: Any, directory: Path) -> None:
    """No table of half of it."""
    path = directory / "tiermem-status.json"
    text = path.read_text(encoding="utf-8").replace('"leases": 9', '"leases": "many"')
    path.write_text(text, encoding="utf-8")
    ended = tiermem("status", directory)
    assert (ended.status, ended.stdout) == (1, "")
    assert f"{path}: is not a status of ours: runtimes[0].leases is not a number" in ended.stderr


def test_an_empty_path_is_refused(tiermem: Any) -> None:
    """It is not the directory that happens to be the current one."""
    for command in ("status", "doctor"):
        ended = tiermem(command, "")
        assert ended.status != 0
        assert "an empty path" in ended.stderr
