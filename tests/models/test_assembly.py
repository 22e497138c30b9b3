"""Systems from files: a user's own machine, and every way to get one wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.errors import InputError, UnknownName
from tiermem.models.presets import System, system

MACHINE = """\
description = "mine"
[engine]
usable_fraction = 0.5
kv_block_tokens = 32
kv_blocks = 7
[[tier]]
name = "hbm"
hardware = "h100-80g-sxm"
count = 2
parallel_efficiency = 0.9
[tier.compute]
gemm_efficiency = 0.7
[[tier]]
name = "disk"
kind = "nvme"
capacity = "1 TB"
read_bytes_per_s = 2e9
write_bytes_per_s = 1e9
latency_ns = 100
count = 3
[[link]]
name = "up"
ends = ["hbm", "host"]
hardware = "pcie-gen5-x16"
setup_ns = 10
[[link]]
name = "down"
ends = ["host", "disk"]
bytes_per_s = 8e9
full_duplex = true
setup_ns = 0
[source.tier.disk]
count = { confidence = "chosen", source = "three were in the drawer" }
"""


def load(folder: Path, *changes: tuple[str, str]) -> System:
    text = MACHINE
    for before, after in changes:
        assert text.count(before) >= 1, before
        text = text.replace(before, after, 1)
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return system(path)


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    """Hardware by name with some numbers said anew, and a tier described in place."""
    machine = load(tmp_path)
    hbm, disk = machine.topology.tiers
    assert machine.name == "mine"
    assert hbm.capacity_bytes == 160 * 2**30
    assert hbm.compute is not None
    assert (hbm.compute.gemm_efficiency, hbm.compute.attention_efficiency) == (0.7, 0.58)
    assert (hbm.compute.devices, hbm.compute.parallel_efficiency) == (2, 0.9)
    assert (disk.kind, disk.capacity_bytes, disk.latency_ns) == ("nvme", 3 * 10**12, 100)
    assert (disk.read_bytes_per_s, disk.write_bytes_per_s, disk.compute) == (6e9, 3e9, None)
    assert machine.topology.time_ns("disk", "hbm", 6_000_000_000) == 10**9 + 100 + 10 + 500
    assert machine.engine.kv_blocks == 7
    assert machine.engine.kv_block_tokens == 32


def test_numbers_without_a_source_are_assumptions(tmp_path: Path) -> None:
    """A user's own numbers need no source, but are told as having none."""
    lines = load(tmp_path).assumptions
    assert "disk.read_bytes_per_s = 2e+09 (unstated: no source given)" in lines
    assert "disk.count = 3 (chosen: three were in the drawer)" in lines
    assert "up.setup_ns = 10 (unstated: no source given)" in lines
    assert not any(line.startswith("up.bytes_per_s") for line in lines)


def test_hardware_by_path(tmp_path: Path) -> None:
    """A hardware file beside the system file, by a path from there."""
    (tmp_path / "ssd.toml").write_text(
        'description = "d"\n[tier]\nkind = "nvme"\ncapacity = "2 TB"\nread_bytes_per_s = 4e9\n'
        "write_bytes_per_s = 4e9\nlatency_ns = 5\n"
    )
    inline = MACHINE[MACHINE.index('kind = "nvme"') : MACHINE.index("count = 3")]
    disk = load(tmp_path, (inline, 'hardware = "ssd.toml"\n')).topology.tier("disk")
    assert disk.capacity_bytes == 6 * 10**12
    with pytest.raises(InputError, match=r"nosuch\.toml: no such file"):
        load(tmp_path, (inline, 'hardware = "nosuch.toml"\n'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("hardware = ", "hardwear = "), r":8: unknown key 'hardwear'; did you mean 'hardware'"),
        (("capacity = ", "capactiy = "), r":16: unknown key 'capactiy'; did you mean 'capacity'"),
        (("usable_fraction = ", "usable = "), r":3: unknown key 'usable'"),
        (("gemm_eff", "gem_eff"), r":12: unknown key 'gem_efficiency'; did you mean 'gemm_eff"),
        (("full_duplex", "fullduplex"), r":30: unknown key 'fullduplex'"),
        (("confidence", "confidense"), r":33: unknown key 'confidense'"),
        (("[source.tier", "[sources.tier"), r":32: unknown key 'sources'; did you mean 'source'"),
        (
            ("h100-80g-sxm", "h100-80g"),
            r":8: unknown hardware 'h100-80g'; did you mean 'h100-80g-s",
        ),
        (('["hbm", "host"]', '["hmb", "host"]'), r":23: unknown tier 'hmb'; did you mean 'hbm'"),
        (("[source.tier.disk]", "[source.tier.disc]"), r":32: unknown tier in \[source\] 'disc'"),
        (("count = {", "cuont = {"), r":33: unknown number in \[source\] 'cuont'.*'count'"),
        (('kind = "nvme"', 'kind = "ssd"'), r":15: tier\[1\]\.kind: .*'nvme'.* not 'ssd'"),
    ],
)
def test_wrong_names_are_refused_at_every_level(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """A key, hardware, tier or source that is not there: file, line and the nearest (fault 135)."""
    with pytest.raises(InputError, match=message):
        load(tmp_path, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("0.5", "1.5"), r":3: engine\.usable_fraction: .*less than or equal to 1"),
        (("= 7", "= 0"), r":5: engine\.kv_blocks: .*greater than or equal to 1"),
        (("count = 2", "count = 2.5"), r":9: tier\[0\]\.count: .*integer"),
        (("= 0.9", "= nan"), r":10: tier\[0\]\.parallel_efficiency: "),
        (("0.7", "-0.7"), r":12: tier\[0\]\.compute\.gemm_efficiency: .*greater than 0"),
        (('"1 TB"', '"0 TB"'), r":16: tier\[1\]\.capacity: .*at least one byte"),
        (("2e9", "inf"), r":17: tier\[1\]\.read_bytes_per_s: .*finite"),
        (("2e9", '"fast"'), r":17: tier\[1\]\.read_bytes_per_s: .*number, not 'fast'"),
        (("= 100", "= -100"), r":19: tier\[1\]\.latency_ns: .*greater than or equal to 0"),
        (('["hbm", "host"]', '["hbm"]'), r":21: link\[0\]: ends must name two different places"),
        (('name = "hbm"\n', ""), r":6: tier\[0\]\.name: is missing"),
        (("[engine]", "[engine"), r":2: not valid TOML"),
    ],
)
def test_bad_values_are_refused_with_their_line(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """Fractions, counts, rates, sizes and syntax: one line with file, line and key."""
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('capacity = "1 TB"\n', ""), r":13: tier\[1\]\.capacity: is missing, and no hardware"),
        (('kind = "nvme"\n', ""), r":13: tier\[1\]\.kind: is missing"),
        (("bytes_per_s = 8e9\n", ""), r":26: link\[1\]\.bytes_per_s: is missing"),
        (("parallel_efficiency = 0.9\n", ""), r":6: tier\[0\]\.parallel.*2 devices that compute"),
        (
            ("count = 3", "count = 3\nparallel_efficiency = 0.5"),
            r":21: .*this tier computes nothing",
        ),
        (
            ("count = 3", "count = 1\ncompute = { kernel_ns = 1 }"),
            r":21: .*flops_per_s: is missing",
        ),
        (("h100-80g-sxm", "pcie-gen5-x16"), r":8: .*'pcie-gen5-x16' describes no tier"),
        (("pcie-gen5-x16", "h100-80g-sxm"), r":24: .*'h100-80g-sxm' describes no link"),
        (("h100-80g-sxm", "ddr5-4800-8ch"), r"tier\[0\]\.capacity: is missing"),
        (('"disk"\nkind', '"hbm"\nkind'), r":14: tier\[1\]\.name: the name 'hbm' is used twice"),
        (('name = "up"', 'name = "disk"'), r":22: link\[0\]\.name: the name 'disk' is used twice"),
        (('"disk"\nkind', '"recompute"\nkind'), r":14: .*'recompute' means something else"),
        (('ends = ["host", "disk"]', 'ends = ["host", "hbm"]'), "no links lead from tier 'hbm'"),
        (
            ('"h100-80g-sxm"\n', '"h100-80g-sxm"\nkind = "dram"\n'),
            r":6: .*first tier must be a GPU",
        ),
    ],
)
def test_machines_that_make_no_sense_are_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """What is missing or contradicts, at the line that has to change."""
    with pytest.raises(InputError, match=message):
        load(tmp_path, change)


def test_errors_in_hardware_files_name_the_hardware_file(tmp_path: Path) -> None:
    """A typo in a hardware file is told where it is, not at the system that uses it."""
    (tmp_path / "ssd.toml").write_text('description = "d"\n[tier]\nkind = "nvme"\nlatencyns = 5\n')
    inline = MACHINE[MACHINE.index('kind = "nvme"') : MACHINE.index("count = 3")]
    with pytest.raises(UnknownName, match=r"ssd\.toml:4: unknown key 'latencyns'"):
        load(tmp_path, (inline, 'hardware = "ssd.toml"\n'))
    (tmp_path / "ssd.toml").write_text(
        'description = "d"\n[source.tier]\nlatency_ns = { confidence = "read", source = "s" }\n'
    )
    with pytest.raises(UnknownName, match=r"ssd\.toml:3: unknown number in \[source\]"):
        load(tmp_path, (inline, 'hardware = "ssd.toml"\n'))
