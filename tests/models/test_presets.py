"""Machines and models by name: what ships, what callers may change, what fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tiermem import shipped
from tiermem.errors import DoesNotFit, InputError, UnknownName
from tiermem.models.presets import kv_room_bytes, llm, llm_rows, system, system_rows

GIB = 2**30
TIERS = {
    "a100-ddr5-nvme": ("hbm", "dram", "nvme"),
    "epyc-core-nvme": ("hbm", "nvme"),
    "h100": ("hbm",),
    "h100-cxlpim-csd": ("hbm", "cxl_pim", "csd"),
    "h100-ddr5-cxl-nvme": ("hbm", "dram", "cxl", "nvme"),
    "h100-share-ddr5-cxl-nvme": ("hbm", "dram", "cxl", "nvme"),
    "h100x4-ddr5-cxl-nvme": ("hbm", "dram", "cxl", "nvme"),
    "h200-ddr5-nvme": ("hbm", "dram", "nvme"),
    "laptop-nvme": ("hbm", "dram", "nvme"),
}


def test_the_systems_that_ship() -> None:
    """By these names, with these tiers, fastest first, each with a capacity (known fault 145)."""
    rows = {row["name"]: row for row in system_rows()}
    assert {name: tuple(t["name"] for t in row["tiers"]) for name, row in rows.items()} == TIERS
    assert all(t["capacity_bytes"] > 0 for row in rows.values() for t in row["tiers"])
    assert rows["h100x4-ddr5-cxl-nvme"]["gpus"] == 4


@pytest.mark.parametrize("name", TIERS)
def test_each_system_falls_from_fast_to_slow(name: str) -> None:
    """Every tier is read no faster than the one above it, seen from where the GPU stands."""
    topology = system(name).topology
    hbm, *lower = topology.names
    times = [topology.time_ns(tier, hbm, 10**9) for tier in lower]
    assert times == sorted(times)
    compute = topology.tiers[0].compute
    assert compute is not None
    assert all(10**9 / compute.memory_bytes_per_s * 1e9 < time for time in times)


@pytest.mark.parametrize("name", [name for name in TIERS if len(TIERS[name]) > 2])
def test_traffic_of_all_lower_tiers_shares_the_gpu_wire(name: str) -> None:
    """One station lies on every route to HBM besides its write side, and on no other route."""
    topology = system(name).topology
    hbm, *lower = topology.names
    routes = [set(topology.route(tier, hbm).stations) for tier in lower]
    shared = {topology.stations[at].name for at in set.intersection(*routes)}
    assert shared == {"pcie host-hbm", "hbm write"}
    for source in lower:
        for target in set(lower) - {source}:
            held = {topology.stations[at].name for at in topology.route(source, target).stations}
            assert not any(station.startswith("pcie") for station in held)


def test_four_gpus_are_an_ideal_fourfold() -> None:
    """Capacity, peaks and host links are four times those of one GPU; set-up is not."""
    one, four = system("h100-ddr5-cxl-nvme").topology, system("h100x4-ddr5-cxl-nvme").topology
    assert four.tier("hbm").capacity_bytes == 4 * one.tier("hbm").capacity_bytes == 320 * GIB
    assert four.tier("hbm").read_bytes_per_s == 4 * one.tier("hbm").read_bytes_per_s
    before, after = one.tier("hbm").compute, four.tier("hbm").compute
    assert before is not None
    assert after is not None
    assert after.gemm_flops_per_s == pytest.approx(4 * 0.886 * before.gemm_flops_per_s)
    assert after.kernel_ns == before.kernel_ns == 3000
    assert four.links[0].bytes_per_s == 4 * one.links[0].bytes_per_s == 4 * 51.5e9
    assert four.links[0].setup_ns == one.links[0].setup_ns == 3600


def test_the_parallel_efficiency_follows_from_its_measurement() -> None:
    """0.886 from the run its source names: 70B on four H100, 5 requests a second (M1)."""
    ttft_s, end_to_end_s, prompt, output, rate = 0.0534, 4.33286, 593.49, 247, 5
    decode_s = end_to_end_s - ttft_s
    step_s = decode_s / (output - 1)
    launch_s = 80 * 10 * 3e-6
    weights = llm("llama-2-70b").weights_read_bytes(21)
    cache = rate * decode_s * (prompt + output / 2) * 327_680
    ideal_s = (weights + cache) / (4 * 3.35e12 * 0.8)
    compute = system("h100x4-ddr5-cxl-nvme").topology.tier("hbm").compute
    assert compute is not None
    assert ideal_s / (step_s - launch_s) == pytest.approx(compute.parallel_efficiency, abs=5e-4)
    assert (weights + cache) / compute.memory_bytes_per_s + launch_s == pytest.approx(step_s, 1e-3)


def test_one_gpu_comes_out_as_measured() -> None:
    """Llama-2-7B on one H100 at 5 requests a second: the step within 2 percent (M1)."""
    decode_s, prompt, output, rate = 1.81032 - 0.02504, 591.63, 247, 5
    model, compute = llm("llama-2-7b"), system("h100").topology.tier("hbm").compute
    assert compute is not None
    cache = rate * decode_s * (prompt + output / 2) * 524_288
    launch_s = model.layers * model.kernels_per_layer * compute.kernel_ns / 1e9
    step_s = (model.weights_read_bytes(9) + cache) / compute.memory_bytes_per_s + launch_s
    assert step_s == pytest.approx(decode_s / (output - 1), rel=0.02)


def test_capacities_are_of_whole_tiers() -> None:
    """`--capacity dram=64GiB` makes the tier 64 GiB, however many sockets it has, and no other."""
    plain = system("h100x4-ddr5-cxl-nvme")
    small = system("h100x4-ddr5-cxl-nvme", capacities={"dram": 64 * GIB})
    assert small.topology.tier("dram").capacity_bytes == 64 * GIB
    assert small.topology.tier("cxl") == plain.topology.tier("cxl")
    assert small.topology.route("dram", "hbm") == plain.topology.route("dram", "hbm")
    assert any(line.startswith("dram.capacity = 512 GiB") for line in plain.assumptions)
    assert not any(line.startswith("dram.capacity") for line in small.assumptions)
    given = {n.key: n.value for n in small.numbers if n.confidence == "given"}
    assert given == {"dram.capacity_bytes": 64 * GIB}


@pytest.mark.parametrize("nbytes", [0, -1, True, 1.5, float("nan"), "64GiB", 2**63])
def test_bad_capacities_are_refused(nbytes: object) -> None:
    """A capacity is a whole number of at least one byte, and one that int64 can count."""
    with pytest.raises(InputError, match="capacity of tier dram"):
        system("h100-ddr5-cxl-nvme", capacities={"dram": nbytes})  # type: ignore[dict-item]


def test_names_that_are_not_there() -> None:
    """An unknown system, model or tier is answered with the nearest; nothing is substituted."""
    with pytest.raises(UnknownName, match="unknown system 'h100x4-ddr5-cxl'; did you mean 'h100"):
        system("h100x4-ddr5-cxl")
    with pytest.raises(UnknownName, match=r"unknown LLM 'llama-3-8b'; did you mean 'llama-3\.1-8b"):
        llm("llama-3-8b")
    with pytest.raises(UnknownName, match="unknown tier 'drma'; did you mean 'dram'"):
        system("h100-ddr5-cxl-nvme", capacities={"drma": GIB})
    with pytest.raises(InputError, match=r"mine\.toml: no such file"):
        system("mine.toml")
    with pytest.raises(InputError, match="no such folder"):
        llm("llama-3.1-8b", models_dir=Path("nowhere"))
    with pytest.raises(UnknownName, match="unknown system ''"):
        system("")


def test_room_is_what_the_weights_leave() -> None:
    """0.9 x 80 GiB less 16,060,522,496 bytes for Llama-3.1-8B on one H100."""
    room = kv_room_bytes(system("h100"), llm("llama-3.1-8b"))
    assert room == int(0.9 * 80 * GIB) - 16_060_522_496


def test_weights_that_do_not_fit_are_refused_with_the_arithmetic() -> None:
    """One line with both sides of the comparison (known fault 31); four GPUs hold them."""
    big = llm("llama-3.1-70b")
    with pytest.raises(DoesNotFit) as caught:
        kv_room_bytes(system("h100-ddr5-cxl-nvme"), big)
    assert str(caught.value) == (
        "llama-3.1-70b does not fit h100-ddr5-cxl-nvme: weights 131 GiB > "
        "0.9 x 80 GiB = 72 GiB usable HBM of tier hbm"
    )
    with pytest.raises(DoesNotFit, match="weights 131 GiB"):
        kv_room_bytes(system("h100-ddr5-cxl-nvme", kv_blocks=1), big)
    assert kv_room_bytes(system("h100x4-ddr5-cxl-nvme"), big) == int(288 * GIB) - big.weight_bytes


def test_reported_blocks_win() -> None:
    """10,768 blocks of 16 tokens of 327,680 bytes, whatever the computed room is."""
    machine = system("h100x4-ddr5-cxl-nvme", kv_blocks=10_768)
    assert kv_room_bytes(machine, llm("llama-3.1-70b")) == 10_768 * 16 * 327_680
    wider = system("h100x4-ddr5-cxl-nvme", kv_blocks=10_768, kv_block_tokens=32)
    assert kv_room_bytes(wider, llm("llama-3.1-70b")) == 10_768 * 32 * 327_680
    assert {n.key for n in wider.numbers if n.confidence == "given"} == {
        "engine.kv_blocks",
        "engine.kv_block_tokens",
    }


def test_reported_blocks_cannot_exceed_the_memory() -> None:
    """Blocks and weights above the whole tier are refused (known fault 142)."""
    machine = system("h100", kv_blocks=100_000)
    with pytest.raises(DoesNotFit, match=r"100000 KV blocks x 16 tokens x 131072 B = 195 GiB > 80"):
        kv_room_bytes(machine, llm("llama-3.1-8b"))
    for bad in (0, -1, True):
        with pytest.raises(InputError, match="kv_blocks"):
            system("h100", kv_blocks=bad)
        with pytest.raises(InputError, match="kv_block_tokens"):
            system("h100", kv_block_tokens=bad)


def test_weights_that_fill_everything_leave_no_room() -> None:
    """Weights that fit without a single block are refused too."""
    model = replace(llm("llama-3.1-8b"), name="snug")
    capacity = -(-model.weight_bytes * 10 // 9) + 1000
    with pytest.raises(DoesNotFit, match=r"\+ one KV block of 16 tokens 2 MiB >"):
        kv_room_bytes(system("h100", capacities={"hbm": capacity}), model)


def test_model_rows() -> None:
    """Rows of `list llms`: the sizes that decide what fits."""
    rows = {row["name"]: row for row in llm_rows()}
    assert rows["llama-3.1-8b"] == {
        "name": "llama-3.1-8b",
        "kv_bytes_per_token": 131_072,
        "weight_bytes": 16_060_522_496,
        "max_context_tokens": 131_072,
        "params_total": 8_030_261_248,
        "params_active": 8_030_261_248,
    }


def test_a_folder_of_ones_own_is_searched_first(tmp_path: Path) -> None:
    """Own systems may use shipped hardware, and own names hide shipped ones."""
    text = (shipped.folder("models") / "systems" / "h100.toml").read_text()
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "h100.toml").write_text(text.replace("h100-80g-sxm", "a100-80g-sxm"))
    mine = system("h100", models_dir=tmp_path).topology.tier("hbm")
    assert mine.read_bytes_per_s == 2.039e12
    assert system("a100-ddr5-nvme", models_dir=tmp_path) == system("a100-ddr5-nvme")
    assert [row["name"] for row in system_rows(tmp_path)] == sorted(TIERS)
    with pytest.raises(UnknownName, match="did you mean 'h100'"):
        system("h1000", models_dir=tmp_path)
