"""End to end within 1 %: the whole simulator against `Roofline` and `Topology` used by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tiermem import registry
from tiermem.models.operators import Step
from tiermem.policies.placement import Waterfall

WITHIN = 0.01


class Never(Waterfall):
    """Whatever is below is left there and computed again."""

    def reuse(self, found: Any, total_bytes: int, at: str, view: Any) -> int:
        return 0


@pytest.fixture
def never() -> Iterator[str]:
    """The name of a place that never reuses."""
    registry.register("tiermem.place", "never", Never)
    yield "never/ahead=0"
    del registry._registered["tiermem.place"]["never"]


def test_one_request_alone(toy: Any) -> None:
    """TTFT is the prefill of the prompt; TPOT is a pass over one sequence, which grows by a token
    each time."""
    run = toy.run(toy.system(50), "lru", (0, toy.names("a", 10), 1000, 101))
    assert toy.ttft_ns(run, 0) == pytest.approx(toy.cost.prefill_ns(1000, 0), rel=WITHIN)
    row = run.tables["requests"].iloc[0]
    decode = sum(toy.cost.times(Step(1, 1000 + made)).end_ns(1) for made in range(100))
    tpot = (row["last_token_ns"] - row["first_token_ns"]) / 100
    assert tpot == pytest.approx(decode / 100, rel=WITHIN)


def test_a_long_prompt_in_pieces(toy: Any) -> None:
    """Chunked: each piece after what came before, one pass each."""
    request = (0, toy.names("a", 25), 2500, 1)
    run = toy.run(toy.system(50), "lru", request, max_step_tokens=1000)
    pieces = [(1000, 0), (1000, 1000), (500, 2000)]
    wanted = sum(toy.cost.prefill_ns(*piece) for piece in pieces)
    assert toy.ttft_ns(run, 0) == pytest.approx(wanted, rel=WITHIN)


def test_a_batch_of_decodes(toy: Any) -> None:
    """Six requests of one instant: read in one pass, then decoded together; the three with short
    answers leave half way."""
    load = [(0, toy.names(c, 8), 800, 41 if c < "d" else 81) for c in "abcdef"]
    run = toy.run(toy.system(100), "lru", *load)
    rows = run.tables["requests"]
    prefill = toy.cost.times(Step(0, 0, ((800, 0),) * 6)).end_ns(1)
    assert rows["first_token_ns"].tolist() == pytest.approx([prefill] * 6, rel=WITHIN)
    first = sum(toy.cost.times(Step(6, 4800 + 6 * made)).end_ns(1) for made in range(40))
    then = sum(toy.cost.times(Step(3, 2520 + 3 * made)).end_ns(1) for made in range(40))
    short, long = rows["last_token_ns"].iloc[0] - prefill, rows["last_token_ns"].iloc[5] - prefill
    assert short == pytest.approx(first, rel=WITHIN)
    assert long == pytest.approx(first + then, rel=WITHIN)
    assert run.tables["steps"]["steps"].tolist() == [1, 40, 40]


def prefix_on_the_drive(toy: Any, place: str, drive_bytes_per_s: float) -> Any:
    """Ten blocks fall to the drive, room for them is made again, and they are asked for with one
    block more."""
    system = toy.system(20, nvme=400, drive_bytes_per_s=drive_bytes_per_s)
    load = [
        (0, toy.names("a", 10), 1000, 1),
        (10, toy.names("b", 20), 2000, 1),
        (20, toy.names("c", 9), 900, 1),
        (30, [*toy.names("a", 10), "new"], 1100, 1),
    ]
    return system.topology, toy.run(system, f"lru:place={place}", *load)


def both_ways(toy: Any, topology: Any) -> tuple[int, int]:
    """TTFT of the last request by hand. HBM's 20 blocks are full, so 11 go down first; then ten
    come up and 100 tokens are read, or 1,100 tokens are."""
    down = topology.time_ns("hbm", "nvme", 11 * toy.block_bytes)
    up = topology.time_ns("nvme", "hbm", 10 * toy.block_bytes)
    return down + up + toy.cost.prefill_ns(100, 1000), down + toy.cost.prefill_ns(1100, 0)


def test_a_prefix_is_loaded(toy: Any) -> None:
    """place=waterfall: always from the drive."""
    topology, run = prefix_on_the_drive(toy, "waterfall/ahead=0", 1e9)
    assert toy.sources(run, 3) == {"nvme": 1000, "recompute": 100}
    assert toy.ttft_ns(run, 3) == pytest.approx(both_ways(toy, topology)[0], rel=WITHIN)


def test_a_prefix_is_recomputed(toy: Any, never: str) -> None:
    """A place that never reuses: the same room is made, and everything is computed."""
    topology, run = prefix_on_the_drive(toy, never, 1e9)
    assert toy.sources(run, 3) == {"recompute": 1100}
    assert toy.ttft_ns(run, 3) == pytest.approx(both_ways(toy, topology)[1], rel=WITHIN)


@pytest.mark.parametrize("drive_bytes_per_s", [1e8, 3e8, 1e9, 3e9])
def test_the_cheaper_way_is_taken(toy: Any, drive_bytes_per_s: float) -> None:
    """place=cheapest: the smaller of the two times by hand, whichever that is."""
    topology, run = prefix_on_the_drive(toy, "cheapest/ahead=0", drive_bytes_per_s)
    load, recompute = both_ways(toy, topology)
    assert toy.ttft_ns(run, 3) == pytest.approx(min(load, recompute), rel=WITHIN)
    assert ("nvme" in toy.sources(run, 3)) is (load < recompute)


def test_both_ways_are_worth_a_choice(toy: Any) -> None:
    """The four drives above are on both sides of the line: loading wins on the fast ones."""
    wins = []
    for rate in (1e8, 3e8, 1e9, 3e9):
        load, recompute = both_ways(toy, toy.system(20, nvme=400, drive_bytes_per_s=rate).topology)
        wins.append(load < recompute)
    assert wins == sorted(wins)
    assert set(wins) == {False, True}
