"""Folds of the log into the tables of one run. Times are integer nanoseconds, sizes bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tiermem.traces.log import CAUSES, DROPS, Log


def occupancy_table(log: Log, tiers: tuple[str, ...]) -> pd.DataFrame:
    """The bytes used in each tier from each `time_ns` on."""
    return pd.DataFrame(log.occupancy(), columns=["time_ns", *tiers])


def requests_table(log: Log, tiers: tuple[str, ...]) -> pd.DataFrame:
    """One row per request; the columns `tokens_<source>` sum to `prompt_tokens` in each."""
    submit, begin, source = log.table("submit"), log.table("begin"), log.table("source")
    emit, reject = log.table("emit"), log.table("reject")
    n = len(submit["request"])
    never = np.full(n, -1, dtype=np.int64)
    admitted, first, last, hit_blocks = never.copy(), never.copy(), never.copy(), never * 0
    admitted[begin["request"]] = begin["now_ns"]
    hit_blocks[begin["request"]] = begin["hit_blocks"]
    first[emit["request"][::-1]] = emit["now_ns"][::-1]  # the earliest is written last
    last[emit["request"]] = emit["now_ns"]
    emitted = np.zeros(n, dtype=np.int64)
    np.add.at(emitted, emit["request"], emit["tokens"])
    rejected = np.zeros(n, dtype=bool)
    rejected[reject["request"]] = True
    completed = emitted == np.maximum(1, submit["output_tokens"])
    last[~completed] = -1
    frame: dict[str, Any] = {
        "request": submit["request"],
        "state": np.select([rejected, completed], ["rejected", "completed"], "unfinished"),
        "arrival_ns": submit["arrival_ns"],
    }
    for name, times in (
        ("admitted_ns", admitted),
        ("first_token_ns", first),
        ("last_token_ns", last),
    ):
        frame[name] = pd.array(np.where(times < 0, 0, times), dtype="Int64")
        frame[name][times < 0] = pd.NA
    frame["prompt_tokens"] = submit["prompt_tokens"]
    frame["output_tokens"] = submit["output_tokens"]
    frame["prefix_hit_blocks"] = hit_blocks
    for index, name in enumerate((*tiers, "recompute")):
        tokens = np.zeros(n, dtype=np.int64)
        rows = source["source"] == index
        np.add.at(tokens, source["request"][rows], source["tokens"][rows])
        frame[f"tokens_{name}"] = tokens
    frame["tokens_rejected"] = np.where(rejected, submit["prompt_tokens"], 0)
    frame["tokens_not_served"] = np.where(~rejected & (admitted < 0), submit["prompt_tokens"], 0)
    return pd.DataFrame(frame)


def moves_table(log: Log) -> pd.DataFrame:
    """One row per move, in the order they started."""
    move, moved = log.table("move"), log.table("moved")
    end = dict(zip(moved["move"].tolist(), moved["now_ns"].tolist(), strict=True))
    names = np.array(log.sources)
    return pd.DataFrame(
        {
            "move": move["move"],
            "cause": np.array(CAUSES)[move["cause"]],
            "source": names[move["source"]],
            "target": names[move["target"]],
            "blocks": move["blocks"],
            "bytes": move["bytes"],
            "start_ns": move["start_ns"],
            "end_ns": np.array([end.get(i, -1) for i in move["move"].tolist()], dtype=np.int64),
        }
    )


def steps_table(log: Log) -> pd.DataFrame:
    """One row per `Run`: `steps` passes of one unchanged batch."""
    run, ran = log.table("run"), log.table("ran")
    order = np.argsort(run["run"], kind="stable")
    at = order[np.searchsorted(run["run"][order], ran["run"])]
    return pd.DataFrame(
        {
            "start_ns": run["start_ns"][at],
            "end_ns": ran["now_ns"],
            "steps": ran["steps"],
            "decodes": run["decodes"][at],
            "prefill_tokens": run["prefill_tokens"][at],
        }
    )


def counters(log: Log, tiers: tuple[str, ...], events: int) -> dict[str, int]:
    """Blocks by what became of them; "evict" left memory, "demote" went one tier down."""
    counts = {"events": events}
    drop, move = log.table("drop"), log.table("move")
    for index, tier in enumerate(tiers):
        for kind, cause in enumerate(DROPS):
            rows = (drop["tier"] == index) & (drop["cause"] == kind)
            counts[f"dropped_{cause}_{tier}_blocks"] = int(drop["blocks"][rows].sum())
        rows = (move["source"] == index) & (move["cause"] == CAUSES.index("demote"))
        counts[f"demoted_{tier}_blocks"] = int(move["blocks"][rows].sum())
    return counts
