"""Odd requests and small machines, end to end on the toy (see `toy`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tiermem.errors import DoesNotFit, InputError, UnknownName
from tiermem.models.presets import EngineRoom
from tiermem.models.topology import Topology
from tiermem.scenario import Scenario, capacities_for_kv, simulate


def states(run: Any) -> list[str]:
    return list(run.tables["requests"]["state"])


def test_lower_tiers_are_consulted_while_hbm_has_room(toy: Any) -> None:
    """Fault B30: a prefix was pushed out, HBM is nearly empty again (the pusher's output is gone),
    and still its bytes come from DRAM and not from the GPU's work."""
    system = toy.system(20, dram=100)
    run = toy.run(
        *(system, "lru:place=waterfall/ahead=0"),
        (0, toy.names("a", 4), 400, 1),
        (1, [], 50, 1945),
        (2, toy.names("a", 4), 400, 1),
    )
    occupancy = run.tables["occupancy"]
    free = 20 - occupancy[occupancy["time_ns"] < 2 * 10**9]["hbm"].iloc[-1] / toy.block_bytes
    assert free > 8
    assert toy.sources(run, 2) == {"dram": 399, "recompute": 1}


def test_what_cannot_be_served_is_rejected_and_the_rest_goes_on(toy: Any) -> None:
    """Above the context, and above HBM: both are counted, named, and booked under `rejected`."""
    run = toy.run(
        *(toy.system(20), "lru"),
        (0, toy.names("a", 10), 1000, 8000),
        (0, toy.names("b", 21), 2100, 1),
        (0, toy.names("c", 10), 1000, 5),
    )
    assert states(run) == ["rejected", "rejected", "completed"]
    assert toy.sources(run, 0) == {"rejected": 1000}
    assert toy.sources(run, 1) == {"rejected": 2100}
    assert "request 0 rejected: 9000 tokens > context of 8192" in run.warnings
    assert f"{toy.block_bytes} bytes more than hbm has" in run.warnings[1]


def test_when_all_are_rejected_the_tables_are_there(toy: Any) -> None:
    """Fault B34: the same columns, times that are missing rather than zero, and at most three
    warnings by name."""
    load = [(number, toy.names(f"r{number}", 30), 3000, 1) for number in range(6)]
    run = toy.run(toy.system(20), "lru", *load)
    rows = run.tables["requests"]
    assert states(run) == ["rejected"] * 6
    assert rows[["admitted_ns", "first_token_ns", "last_token_ns"]].isna().all(axis=None)
    assert len(run.warnings) == 4
    assert run.warnings[-1] == "3 more requests rejected"
    assert len(run.tables["steps"]) == len(run.tables["moves"]) == 0


def test_a_block_named_twice_ends_the_chain(toy: Any) -> None:
    """A prompt that names a block twice is no chain of prefixes past that point: those tokens take
    room and time, and have no identity."""
    odd = ["x", "y", "x", "z"]
    run = toy.run(toy.system(20), "lru", (0, odd, 400, 1), (1, odd, 400, 1))
    assert states(run) == ["completed"] * 2
    assert toy.sources(run, 1) == {"hbm": 200, "recompute": 200}
    assert run.tables["occupancy"]["hbm"].max() == 4 * toy.block_bytes
    assert run.tables["occupancy"]["hbm"].iloc[-1] == 2 * toy.block_bytes


def test_without_ids_nothing_is_reused(toy: Any) -> None:
    """Short prompts may have no id: they are computed each time and leave nothing."""
    run = toy.run(toy.system(20), "lru", (0, [], 90, 2), (1, [], 90, 2))
    assert toy.sources(run, 1) == {"recompute": 90}
    assert run.tables["occupancy"]["hbm"].iloc[-1] == 0


@pytest.mark.parametrize("output", [0, 1])
def test_short_answers(toy: Any, output: int) -> None:
    """An answer of none or of one token ends with the first token."""
    run = toy.run(toy.system(20), "lru", (0, toy.names("a", 3), 300, output))
    row = run.tables["requests"].iloc[0]
    assert row["state"] == "completed"
    assert row["first_token_ns"] == row["last_token_ns"]
    assert row["output_tokens"] == output


def test_partial_tails_and_answers_in_bytes(toy: Any) -> None:
    """250 prompt tokens and 11 of output are 260 times 256 bytes at the most, 250 afterwards."""
    run = toy.run(toy.system(20), "lru", (0, toy.names("a", 3), 250, 11))
    assert run.tables["occupancy"]["hbm"].max() == 260 * 256
    assert run.tables["occupancy"]["hbm"].iloc[-1] == 250 * 256


def test_all_blocks_hit_and_one_token_computed(toy: Any) -> None:
    """The whole prompt is there: its last token is computed, the others are booked to HBM."""
    load = [(number, toy.names("a", 3), 250, 1) for number in range(2)]
    run = toy.run(toy.system(20), "lru", *load)
    assert toy.sources(run, 1) == {"hbm": 249, "recompute": 1}
    assert run.tables["requests"]["prefix_hit_blocks"].tolist() == [0, 3]


def test_requests_wait_their_turn_for_room(toy: Any) -> None:
    """Four that need 11 of 20 blocks each: one runs after the other, in the order of arrival."""
    load = [(0, toy.names(letter, 10), 1000, 101) for letter in "abcd"]
    run = toy.run(toy.system(20, dram=100), "lru", *load)
    rows = run.tables["requests"]
    assert states(run) == ["completed"] * 4
    assert rows["admitted_ns"].is_monotonic_increasing
    assert (rows["admitted_ns"].iloc[1:].to_numpy() >= rows["last_token_ns"].iloc[:-1]).all()


def test_one_tier_is_a_machine_too(toy: Any) -> None:
    """Fault B45: with nothing below, eviction is dropping, and moves there are none."""
    load = [(number, toy.names(f"r{number}", 10), 1000, 1) for number in range(5)]
    run = toy.run(toy.system(20), "lru", *load)
    assert states(run) == ["completed"] * 5
    assert run.counters["dropped_evict_hbm_blocks"] == 30
    assert len(run.tables["moves"]) == 0


def test_two_policies_do_not_disturb_each_other(toy: Any) -> None:
    """Fault B50, B62: a run after another is as if it were the first."""
    load = [(n / 1000, toy.names("abc"[n % 3], 9), 900, 3) for n in range(12)]
    alone = toy.run(toy.system(20, dram=15), "lru", *load).tables["requests"]
    toy.run(toy.system(20, dram=15), "fifo", *load)
    again = toy.run(toy.system(20, dram=15), "lru", *load).tables["requests"]
    assert again.equals(alone)


def test_room_for_kv_is_reported_or_computed(toy: Any) -> None:
    """HBM has what the engine reported, or its usable share less the weights; other tiers have
    all of themselves."""
    told = toy.system(20, dram=30)
    assert capacities_for_kv(told, toy.llm) == {
        "hbm": 20 * toy.block_bytes,
        "dram": 30 * toy.block_bytes,
    }
    counted = dataclasses.replace(told, engine=EngineRoom(0.9, None, 100))
    weights = toy.llm.weight_bytes
    assert capacities_for_kv(counted, toy.llm)["hbm"] == 9 * 10**11 - weights


def test_wrong_scenarios_are_refused(toy: Any) -> None:
    """An unknown policy, weights that do not fit, and a first tier that cannot compute: before
    anything runs, with the name of what is wrong."""
    trace, system = toy.load((0, ["a"], 100, 1)), toy.system(20, dram=30)
    with pytest.raises(UnknownName, match="lru"):
        simulate(Scenario(trace, system, toy.llm, "lur"))
    huge = dataclasses.replace(toy.llm, layers=10**9)
    with pytest.raises(DoesNotFit):
        simulate(Scenario(trace, system, huge))
    top, *rest = system.topology.tiers
    dumb = Topology((dataclasses.replace(top, compute=None), *rest), system.topology.links)
    with pytest.raises(InputError, match="hbm cannot compute"):
        simulate(Scenario(trace, dataclasses.replace(system, topology=dumb), toy.llm))
