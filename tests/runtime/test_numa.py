"""Memory nodes, read from a tree like the kernel's and from the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.errors import TierUnavailable
from tiermem.runtime.numa import NumaNode, device_node, nodes, require_node

GIB = 2**20  # kB of it


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two sockets and a CXL expander, numbered as they come."""
    for node, cpus, total, free, cache in (
        (0, "0-3,8-11", 64, 1, 2),
        (1, "4-7,12", 64, 60, 0),
        (10, "", 128, 100, 0),
    ):
        place = tmp_path / f"node{node}"
        place.mkdir()
        (place / "cpulist").write_text(f"{cpus}\n", encoding="ascii")
        (place / "meminfo").write_text(
            f"Node {node} MemTotal:       {total * GIB} kB\n"
            f"Node {node} MemFree:        {free * GIB} kB\n"
            f"Node {node} Inactive(file): {cache * GIB} kB\n",
            encoding="ascii",
        )
    (tmp_path / "online").write_text("0-1,10\n", encoding="ascii")
    return tmp_path


def test_lists_memory_without_cpus(machine: Path) -> None:
    """The expander is a node of its own, marked; idle page cache counts as free."""
    found = nodes(machine)
    assert [node.id for node in found] == [0, 1, 10]
    assert [node.memory_only for node in found] == [False, False, True]
    assert found[0].cpus == (0, 1, 2, 3, 8, 9, 10, 11)
    assert found[0].free_bytes == 3 * 2**30
    assert str(found[2]) == "node 10 (memory only, 100 GiB of 128 GiB free)"


def test_a_node_that_is_there(machine: Path) -> None:
    """It is answered whole."""
    assert require_node(10, "tier 'cxl'", machine).memory_bytes == 128 * 2**30


@pytest.mark.parametrize("node", [2, -1, 64])
def test_a_node_that_is_not(machine: Path, node: int) -> None:
    """The tier is unavailable, and the line names every node there is."""
    with pytest.raises(TierUnavailable) as caught:
        require_node(node, "tier 'cxl'", machine)
    said = str(caught.value)
    assert said.startswith("tier 'cxl' is unavailable: ")
    assert "node 0 (8 CPUs, 3 GiB of 64 GiB free)" in said
    assert "node 10 (memory only" in said
    assert "\n" not in said


def test_minus_one_is_unknown_and_not_node_0(machine: Path, tmp_path: Path) -> None:
    """What the kernel does not know has to be asked for by its number."""
    with pytest.raises(TierUnavailable, match="node -1 means that the kernel does not know it"):
        require_node(-1, "tier 'cxl'", machine)
    device = tmp_path / "dax0.0"
    device.mkdir()
    assert device_node(device) is None
    (device / "numa_node").write_text("-1\n", encoding="ascii")
    assert device_node(device) is None
    (device / "numa_node").write_text("0\n", encoding="ascii")
    (device / "target_node").write_text("10\n", encoding="ascii")
    assert device_node(device) == 10


def test_a_device_that_is_no_memory_yet(machine: Path, tmp_path: Path) -> None:
    """CXL memory in device mode is no node: the line says how to make it one."""
    dax = tmp_path / "dax"
    for name, node, driver in (
        ("dax0.0", "10", "device_dax"),
        ("dax1.0", "-1", "device_dax"),
        ("dax2.0", "3", "kmem"),
    ):
        (dax / name).mkdir(parents=True)
        (dax / name / "target_node").write_text(f"{node}\n", encoding="ascii")
        (dax / name / "driver").symlink_to(tmp_path / driver)
    with pytest.raises(TierUnavailable) as caught:
        require_node(3, "tier 'cxl'", machine, dax)
    said = str(caught.value)
    assert "dax0.0 (to be node 10) is no system memory yet: daxctl reconfigure-device" in said
    assert "dax1.0 (its node is unknown" in said
    assert "dax2.0" not in said


def test_a_machine_that_does_not_say(tmp_path: Path) -> None:
    """No folder, no nodes; every node is missing then."""
    assert nodes(tmp_path / "none") == []
    with pytest.raises(TierUnavailable, match="none that the kernel lists"):
        require_node(0, "tier 'dram'", tmp_path / "none")


def test_this_machine() -> None:
    """Whatever is listed here has memory or CPUs."""
    assert all(isinstance(node, NumaNode) and (node.cpus or node.memory_bytes) for node in nodes())
