"""The memory there is: the machine's, and that of control groups of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.errors import DoesNotFit
from tiermem.runtime.limits import Limit, memory_limits, require_memory

MEMINFO = "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  600 kB\n"
KIB = 1024


def machine(root: Path, files: dict[str, str]) -> Path:
    """A file system that says this of its memory."""
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


def test_this_machine_has_memory() -> None:
    """The real files are understood: some memory, no more left than there is."""
    first = memory_limits()[0]
    assert first.what == "this machine"
    assert 0 < first.available_bytes <= first.total_bytes


def test_a_group_of_version_2(tmp_path: Path) -> None:
    """Each group up to the mount counts; idle page cache is as good as free."""
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/task\n",
            "sys/fs/cgroup/job/memory.max": "400000\n",
            "sys/fs/cgroup/job/memory.current": "350000\n",
            "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 50000\n",
            "sys/fs/cgroup/job/task/memory.max": "max\n",
            "sys/fs/cgroup/job/task/memory.current": "5\n",
        },
    )
    assert memory_limits(root) == [
        Limit("this machine", 1000 * KIB, 600 * KIB),
        Limit(f"the control group {root}/sys/fs/cgroup/job", 400000, 100000),
    ]


def test_a_group_of_version_1(tmp_path: Path) -> None:
    """The memory controller's own hierarchy; its huge number means that there is no limit."""
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "9:cpu:/x\n4:memory,other:/outside/path\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "300000",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "100000",
            "sys/fs/cgroup/memory/outside/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/outside/memory.usage_in_bytes": "7",
        },
    )
    assert memory_limits(root)[1:] == [
        Limit(f"the control group {root}/sys/fs/cgroup/memory", 300000, 200000)
    ]


def test_what_cannot_be_read_sets_no_limit(tmp_path: Path) -> None:
    """Without /proc nothing is known, and nothing refused."""
    assert memory_limits(tmp_path) == []
    require_memory(2**50, "tier 'dram'", tmp_path)


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [
        (1000 * KIB + 1, r"1,024,001 bytes\) asked for, but this machine has .*1,024,000 bytes"),
        (300_001, r"300,001 bytes\) asked for, but the control group .* has .*300,000 bytes"),
        (200_001, r"200,001 bytes\) asked for, but .*200,000 bytes\) left of 293 KiB"),
    ],
)
def test_refused_with_both_numbers(tmp_path: Path, nbytes: int, said: str) -> None:
    """More than there is, more than the group may have, more than is left of it."""
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "300000\n",
            "sys/fs/cgroup/memory.current": "100000\n",
        },
    )
    require_memory(200_000, "tier 'dram'", root)
    with pytest.raises(DoesNotFit, match=f"tier 'dram': .*{said}"):
        require_memory(nbytes, "tier 'dram'", root)
