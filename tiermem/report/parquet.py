"""The tables of all runs of a comparison as Parquet files that equal runs write byte for byte.

Each kind of table is one file with a `policy` column in front. No pandas metadata, no index, no
times: only Arrow's own header and the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tiermem.report.metrics import FinishedRun

RUN_KINDS = ("requests", "moves", "occupancy", "steps")
KINDS = (*RUN_KINDS, "hits")

_TEXT = frozenset({"policy", "state", "cause", "source", "target", "tier", "order"})
_REQUIRED = {
    "requests": (
        *("policy", "request", "state", "arrival_ns", "admitted_ns", "first_token_ns"),
        *("last_token_ns", "prompt_tokens", "output_tokens", "prefix_hit_blocks"),
    ),
    "moves": (
        *("policy", "move", "cause", "source", "target", "blocks", "bytes"),
        *("start_ns", "end_ns"),
    ),
    "occupancy": ("policy", "time_ns", "tier", "used_bytes"),
    "steps": ("policy", "start_ns", "end_ns", "steps", "decodes", "prefill_tokens"),
    "hits": ("policy", "capacity_blocks", "order", "references", "block_hits", "prefix_hits"),
}


class HitCount(Protocol):
    """Hits of one policy at one capacity; `tiermem.hits.HitRow` is one."""

    @property
    def policy(self) -> str: ...
    @property
    def capacity_blocks(self) -> int | None: ...
    @property
    def order(self) -> str: ...
    @property
    def references(self) -> int: ...
    @property
    def block_hits(self) -> int: ...
    @property
    def prefix_hits(self) -> int: ...


def run_table(kind: str, runs: Sequence[FinishedRun]) -> pa.Table:
    """The `kind` tables of `runs` under one another, in the order of `runs`."""
    parts = [_arrow(kind, _labelled(kind, run)) for run in runs]
    if not parts:
        return _arrow(kind, pd.DataFrame(columns=list(_REQUIRED[kind])))
    return pa.concat_tables(parts, promote_options="default")


def hits_table(rows: Iterable[HitCount]) -> pa.Table:
    """Hit counts, one row per policy, capacity and order; an infinite cache has capacity null."""
    columns: Mapping[str, list[Any]] = {name: [] for name in _REQUIRED["hits"]}
    for row in rows:
        for name, values in columns.items():
            values.append(getattr(row, name))
    return pa.table({name: pa.array(values, _type(name)) for name, values in columns.items()})


def write(table: pa.Table, path: Path) -> None:
    """`table` as Parquet, the same bytes for the same values and pyarrow version."""
    pq.write_table(table.combine_chunks(), path, compression="zstd", store_schema=False)


def read(path: Path) -> pd.DataFrame:
    """A Parquet file as a DataFrame; whole numbers stay whole numbers where some are missing."""
    table = pq.read_table(path)
    nullable = {pa.int64(): pd.Int64Dtype()}
    holes = {name for name in table.column_names if table[name].null_count}
    frame: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    whole = [n for n in frame.columns if n not in holes and frame[n].dtype == pd.Int64Dtype()]
    return frame.astype(dict.fromkeys((n for n in whole if n not in _MAY_LACK), "int64"))


_MAY_LACK = frozenset({"admitted_ns", "first_token_ns", "last_token_ns", "capacity_blocks"})


def _labelled(kind: str, run: FinishedRun) -> pd.DataFrame:
    frame = run.tables[kind]
    if kind == "occupancy":
        frame = _change_points(frame, run.tiers)
    frame = frame.assign(policy=run.policy)
    return frame[["policy", *(name for name in frame.columns if name != "policy")]]


def _change_points(wide: pd.DataFrame, tiers: Sequence[str]) -> pd.DataFrame:
    """One column per tier -> one row per tier and instant at which its bytes changed."""
    parts = []
    for tier in tiers:
        used = wide[tier].to_numpy()
        changed = [True] * min(len(used), 1) + list(used[1:] != used[:-1])
        part = wide.loc[changed, ["time_ns"]].assign(tier=tier, used_bytes=used[changed])
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _arrow(kind: str, frame: pd.DataFrame) -> pa.Table:
    missing = [name for name in _REQUIRED[kind] if name not in frame.columns]
    assert not missing, f"the {kind} table lacks {missing}"
    arrays = [pa.array(frame[name], _type(name), from_pandas=True) for name in frame.columns]
    return pa.table(dict(zip(map(str, frame.columns), arrays, strict=True)))


def _type(name: str) -> pa.DataType:
    return pa.string() if name in _TEXT else pa.int64()
