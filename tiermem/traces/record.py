"""A log of requests that were really served, turned into a trace that can be replayed.

`tiermem.offload.recorder` writes the log: one JSON object per line and request, with the columns
of `COLUMNS`, and a line `{"run": {...}}` each time a process began to write. Arrivals come out in
whole milliseconds after the first. A turn of a session is there once; a second one is refused.
Block ids are those of the full blocks of each prompt; the tail has none, as in the cache that was
recorded. Equal logs give equal traces.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tiermem.errors import InputError
from tiermem.traces.rows import TOKENS_MAX, shown
from tiermem.traces.trace import Trace, intern
from tiermem.units import NS_PER_MS

COLUMNS: dict[str, type] = {
    "session": str,
    "turn": int,  # 1 is the first
    "kind": str,
    "arrival_s": float,  # since 1970
    "prompt_tokens": int,
    "output_tokens": int,
    "loaded_tokens": int,  # of the prompt, found in the cache
    "queued_s": float,  # from the arrival until it was begun
    "ttft_s": float,  # from the arrival to the first token
    "total_s": float,  # from the arrival to the last
    "model": str,
    "block_tokens": int,
    "blocks": list,  # a text per full block of the prompt; equal texts are equal prefixes
}
_WORDS = {str: "text", int: "whole number", float: "number", list: "list"}
_SAME = ("model", "block_tokens")
_SECONDS = ("queued_s", "ttft_s", "total_s")
_LATEST_S = 4_102_444_800.0  # the year 2100
_NUMBER_MOST = 1e300  # beyond it, and for NaN, arithmetic ends


def read(log: str | Path) -> Trace:
    """The requests of `log` in the order of their arrival, equal times in the order of the file.

    InputError with `file:line: key:` for a line that is wrong. A last line that was cut short, as
    a killed process leaves it, is left out and a notice says so.
    """
    path = Path(log)
    rows, runs, cut = _lines(path)
    rows.sort(key=lambda row: float(row["arrival_s"]))
    arrival_ms = [round(row["arrival_s"] * 1000) for row in rows]
    counts = [len(row["blocks"]) for row in rows]
    return Trace(
        name=path.name.split(".")[0],
        block_tokens=rows[0]["block_tokens"],
        arrival_ns=(np.array(arrival_ms, dtype=np.int64) - arrival_ms[0]) * NS_PER_MS,
        prompt_tokens=np.array([row["prompt_tokens"] for row in rows], dtype=np.int64),
        output_tokens=np.array([row["output_tokens"] for row in rows], dtype=np.int64),
        block_ids=intern([name for row in rows for name in row["blocks"]]),
        block_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        synthetic=False,
        meta={"recorded": _about(rows, runs)},
        notices=("the last line of the log was cut short and is left out",) if cut else (),
    )


def _lines(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bool]:
    """Requests, what each run said of itself, and whether the last line was cut short."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    turns: dict[tuple[str, int], int] = {}
    texts = data.split(b"\n")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except RecursionError:
            raise InputError("nested too deeply", path=path, line=number) from None
        except ValueError as error:
            if number == len(texts):  # nothing after it, not even the end of the line
                return _some(rows, path), runs, True
            raise InputError(f"not JSON: {shown(text)} ({error})", path=path, line=number) from None
        if not isinstance(row, dict):
            raise InputError(f"{shown(text)} is not a JSON object", path=path, line=number)
        if "run" in row:
            if not isinstance(row["run"], dict):
                said = f"{shown(row['run'])} is not a JSON object"
                raise InputError(said, path=path, line=number, key="run")
            runs.append(row["run"])
        else:
            rows.append(_checked(row, rows[0] if rows else row, path, number))
            _once(row, turns, path, number)
    return _some(rows, path), runs, False


def _once(row: dict[str, Any], turns: dict[tuple[str, int], int], path: Path, line: int) -> None:
    """Each turn of a session is there once: one that is there twice is a log that was copied."""
    before = turns.setdefault((row["session"], row["turn"]), line)
    if before != line:
        said = f"turn {row['turn']} of session {shown(row['session'])} is in line {before} already"
        raise InputError(said, path=path, line=line, key="turn")


def _some(rows: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    if not rows:
        raise InputError("no request in this log", path=path)
    return rows


def _checked(row: dict[str, Any], first: dict[str, Any], path: Path, line: int) -> dict[str, Any]:
    def fail(message: str, key: str) -> NoReturn:
        raise InputError(message, path=path, line=line, key=key)

    for key, kind in COLUMNS.items():
        if key not in row:
            fail("is missing", key)
        value = row[key]
        right = type(value) in (int, float) if kind is float else type(value) is kind
        if not right or (kind is float and not abs(value) < _NUMBER_MOST):
            fail(f"{shown(value)} is not a {_WORDS[kind]}", key)
    for key, least in (("turn", 1), ("prompt_tokens", 1), ("block_tokens", 1)):
        if not least <= row[key] <= TOKENS_MAX:
            fail(f"{row[key]} is not in {least} .. {TOKENS_MAX:,}", key)
    if not 0 <= row["arrival_s"] <= _LATEST_S:
        fail(f"{row['arrival_s']} is not a time in seconds since 1970", "arrival_s")
    if not 0 <= row["output_tokens"] <= TOKENS_MAX:
        fail(f"{row['output_tokens']} is not in 0 .. {TOKENS_MAX:,}", "output_tokens")
    if not 0 <= row["loaded_tokens"] < row["prompt_tokens"]:
        fail(f"{row['loaded_tokens']} of {row['prompt_tokens']} tokens", "loaded_tokens")
    for before, key in zip((0.0, *(row[key] for key in _SECONDS)), _SECONDS, strict=False):
        if row[key] > _LATEST_S:
            fail(f"{shown(row[key])} s is longer than any request takes", key)
        if row[key] < before:
            fail(f"{row[key]} s, before {before} s", key)
    for key in _SAME:
        if row[key] != first[key]:
            fail(f"{shown(row[key])}, where the log began with {shown(first[key])}", key)
    full = row["prompt_tokens"] // row["block_tokens"]
    if len(row["blocks"]) != full or not all(type(name) is str for name in row["blocks"]):
        fail(f"{full} texts are expected, one per full block; {len(row['blocks'])} found", "blocks")
    return row


def _about(rows: list[dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What was measured while it was recorded: goes into the sidecar."""
    told = {key: value for run in runs for key, value in run.items()}
    loaded = sum(row["loaded_tokens"] for row in rows)
    return {
        **told,
        "model": rows[0]["model"],
        "sessions": len({row["session"] for row in rows}),
        "kinds": dict(sorted(Counter(row["kind"] for row in rows).items())),
        "runs": len(runs),
        "loaded_tokens": loaded,
        "loaded_share": round(loaded / sum(row["prompt_tokens"] for row in rows), 4),
        **{key: _spread([row[key] for row in rows]) for key in _SECONDS},
    }


def _spread(values: list[float]) -> dict[str, float]:
    """Nearest-rank percentiles, in milliseconds' precision."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99], method="inverted_cdf").tolist()
    found = {"mean": sum(values) / len(values), "p50": p50, "p95": p95, "p99": p99}
    return {**{key: round(value, 3) for key, value in found.items()}, "n": len(values)}
