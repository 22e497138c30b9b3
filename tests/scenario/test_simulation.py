"""A whole run under pressure: nothing is lost, booked twice or overfull, and it can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from tiermem.core.messages import Drop, Move, Submit
from tiermem.scenario import Scenario, Simulation, simulate
from tiermem.scenario.simulation import fold

Pressed = Callable[..., Scenario]


def columns(frame: pd.DataFrame, prefix: str = "tokens_") -> list[str]:
    return [name for name in frame.columns if name.startswith(prefix)]


def test_requests_in_are_requests_accounted_for(played: Any) -> None:
    """INV-11, fault B56: completed + rejected + unfinished = all, here with none unfinished, and
    each completed one has all its tokens."""
    scenario, run, _ = played
    rows = run.tables["requests"]
    assert rows["request"].tolist() == list(range(len(scenario.trace)))
    assert rows["state"].value_counts().sum() == len(scenario.trace)
    assert (rows["state"] == "unfinished").sum() == 0
    done = rows[rows["state"] == "completed"]
    assert len(done) > 250
    assert (done["arrival_ns"] <= done["admitted_ns"]).all()
    assert (done["admitted_ns"] < done["first_token_ns"]).all()
    assert (done["first_token_ns"] <= done["last_token_ns"]).all()


def test_every_tier_was_pressed(played: Any) -> None:
    """Fault B63: this load says something: all tiers serve hits, all but the last demote, and the
    last one drops."""
    _, run, _ = played
    rows = run.tables["requests"]
    assert (rows[[f"tokens_{tier}" for tier in run.tiers]].sum() > 0).all()
    assert all(run.counters[f"demoted_{tier}_blocks"] > 0 for tier in run.tiers[:-1])
    assert run.counters["dropped_evict_nvme_blocks"] > 0


def test_prompt_tokens_are_booked_once(played: Any) -> None:
    """Fault B53: in every row the sources sum to the prompt, and hit blocks are what the tiers
    gave (the last prompt token apart, which is always computed)."""
    scenario, run, _ = played
    rows = run.tables["requests"]
    assert (rows[columns(rows)].sum(axis=1) == scenario.trace.prompt_tokens).all()
    done = rows[rows["state"] == "completed"]
    from_tiers = done[[f"tokens_{tier}" for tier in run.tiers]].sum(axis=1)
    most = (done["prefix_hit_blocks"] * scenario.trace.block_tokens).clip(
        upper=done["prompt_tokens"] - 1
    )
    assert (from_tiers == most).all()
    assert (done["tokens_recompute"] >= 1).all()


def test_no_tier_is_ever_overfull(played: Any) -> None:
    """INV-1: at every change point each tier holds between nothing and its capacity, and all of
    them came close to it."""
    _, run, _ = played
    occupancy = run.tables["occupancy"]
    assert occupancy["time_ns"].is_monotonic_increasing
    for tier in run.tiers:
        assert occupancy[tier].min() >= 0
        assert 0.8 * run.capacities[tier] < occupancy[tier].max() <= run.capacities[tier]


def test_nothing_leaves_the_last_tier_before_it_is_full(played: Any) -> None:
    """INV-4, fault 143: at the moment of the first eviction out of the last tier, it is full up
    to less than one move."""
    _, run, tape = played
    [first] = [
        (now, action)
        for now, _, actions in tape.entries
        for action in actions
        if isinstance(action, Drop) and action.cause == "evict"
    ][:1]
    moment, drop = first
    assert drop.tier == run.tiers[-1]
    occupancy = run.tables["occupancy"]
    before = occupancy[occupancy["time_ns"] < moment]["nvme"].iloc[-1]
    wanted = max(m.nbytes for _, _, acts in tape.entries for m in acts if isinstance(m, Move))
    assert run.capacities["nvme"] - before < wanted


def test_moves_take_at_least_the_time_of_their_route(played: Any) -> None:
    """Contention only slows: no move is faster than alone (a nanosecond of rounding aside)."""
    scenario, run, _ = played
    topology = scenario.system.topology
    moves = run.tables["moves"]
    assert len(moves) > 100
    for row in moves.itertuples():
        alone = topology.time_ns(row.source, row.target, row.bytes)
        assert row.end_ns - row.start_ns >= alone - 2


def test_bytes_fetched_are_the_tokens_booked(played: Any) -> None:
    """Fault B44: what a tier served is what moves brought from it, except for what a second
    request shared while it was on its way."""
    scenario, run, _ = played
    rows, moves = run.tables["requests"], run.tables["moves"]
    per_token = scenario.llm.kv_bytes_per_token
    fetched = moves[moves["cause"] == "fetch"].groupby("source")["bytes"].sum()
    for tier in run.tiers[1:]:
        booked = int(rows[f"tokens_{tier}"].sum()) * per_token
        assert fetched[tier] == pytest.approx(booked, rel=0.2)


def test_steps_make_the_tokens(played: Any) -> None:
    """Fault B57: the prompt tokens of all steps are those booked to recompute, and decode passes
    times their sequences are the output tokens after the first."""
    _, run, _ = played
    rows, steps = run.tables["requests"], run.tables["steps"]
    assert steps["prefill_tokens"].sum() == rows["tokens_recompute"].sum()
    done = rows[rows["state"] == "completed"]
    later = (done["output_tokens"].clip(lower=1) - 1).sum()
    assert (steps["steps"] * steps["decodes"]).sum() == later


def test_a_run_is_a_value_of_its_scenario(pressed: Pressed, played: Any) -> None:
    """INV-8: played again, every table, counter and warning is the same."""
    _, run, _ = played
    again = simulate(pressed())
    for name, table in run.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name], check_exact=True)
    assert (again.counters, again.warnings) == (run.counters, run.warnings)
    assert again.finished_ns == run.finished_ns


def test_taps_and_progress_change_nothing(pressed: Pressed, played: Any) -> None:
    """Whoever looks on does not disturb; progress ends at all requests."""
    seen: list[tuple[int, int]] = []
    watched = simulate(pressed(), lambda done, total: seen.append((done, total)))
    pd.testing.assert_frame_equal(watched.tables["requests"], played[1].tables["requests"])
    assert seen[-1] == (300, 300)
    assert seen == sorted(seen)


def test_the_tape_replayed_on_a_fresh_engine(played: Any) -> None:
    """INV-10: a new engine and controller, fed the recorded events, give the recorded actions."""
    scenario, _, tape = played
    twin = Simulation(scenario)
    assert len(tape.entries) > 1000
    for now, event, actions in tape.entries:
        again = twin.engine.on(event, now)
        assert tuple(again) == actions
        assert [type(action) for action in again] == [type(action) for action in actions]


def test_a_larger_tier_below_changes_hits_and_latency(pressed: Pressed) -> None:
    """Fault B29: as DRAM grows, prefix hits do not fall, TTFT does not rise, and over the whole
    range both change."""
    hits, mean_ns = [], []
    for gib in (1, 20, 400):
        tiny = 2**30
        rows = simulate(pressed(dram=gib * tiny, cxl=tiny, nvme=tiny)).tables["requests"]
        hits.append(int(rows["prefix_hit_blocks"].sum()))
        mean_ns.append(float((rows["first_token_ns"] - rows["arrival_ns"]).mean()))
    assert hits == sorted(hits)
    assert mean_ns == sorted(mean_ns, reverse=True)
    assert hits[0] < hits[-1]
    assert mean_ns[-1] < mean_ns[0]


def test_stopped_half_way_the_rest_is_unfinished(pressed: Pressed) -> None:
    """INV-11, fault B48: a run that ends early says how many are left and who waits; the tokens of
    those that never began are booked as not served."""
    simulation = Simulation(pressed())
    trace = simulation.scenario.trace
    for request, at in enumerate(trace.arrival_ns.tolist()):
        sizes = int(trace.prompt_tokens[request]), int(trace.output_tokens[request])
        blocks = tuple(trace.blocks_of(request).tolist())
        simulation.driver.post(Submit(request, at, *sizes, blocks))
    simulation.driver.run(lambda: simulation.engine.left <= 120)
    run = fold(simulation)
    rows = run.tables["requests"]
    states = rows["state"].value_counts().to_dict()
    assert states["unfinished"] == simulation.engine.left > 100
    assert sum(states.values()) == len(trace)
    assert rows[rows["state"] == "unfinished"]["request"].tolist() == simulation.engine.unfinished
    assert (rows[columns(rows)].sum(axis=1) == trace.prompt_tokens).all()
    assert rows["tokens_not_served"].sum() > 0
    assert f"{states['unfinished']} requests unfinished" in run.warnings[-1]
    assert rows.loc[rows["state"] == "unfinished", "last_token_ns"].isna().all()
