"""The comparison for people: two small tables and the sentences that go under them.

Everything is read from results.json and the hit counts, so a table made again from a run folder
is the same table. It says what a reader would otherwise have to notice: who wins and by how
much, which tiers were never used, and when the policies could not have differed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Mean TTFTs closer than this are called equal: one trace and one seed tell no finer difference.
LEAST_MARGIN = 0.01
# Below this many values the 99th percentile rests on the largest one or two.
FEW = 100

_UNDEFINED = "-"
_GIB = 2**30
# Counters of blocks that a tier gave up for want of room.
_PRESSED = ("demoted_", "dropped_evict_", "dropped_clean_", "dropped_no_room_")
_REFERENCES = ("infinite", "belady", "belady-bypass")


class Results(Protocol):
    """A run folder, as far as a table needs one."""

    @property
    def results(self) -> dict[str, Any]: ...
    def table(self, kind: str) -> pd.DataFrame: ...


def show(folder: Results, console: Console) -> None:
    """Print the tables and the remarks; each table fits 80 columns with four tiers."""
    results, hits = folder.results, folder.table("hits")
    for title, head, rows in _tables(results["runs"]):
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.pad_edge, table.collapse_padding = False, True
        for place, name in enumerate(head):
            table.add_column(name, justify="right" if place else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table, highlight=False, markup=False)
    for line in remarks(results, hits):
        console.print(line, highlight=False, markup=False)


def markdown(results: Mapping[str, Any], hits: pd.DataFrame) -> str:
    """The same as a Markdown page, with the subject of the comparison as its head."""
    lines = [f"# {subject(results)}", ""]
    for title, head, rows in _tables(results["runs"]):
        lines += [f"## {title}", "", _line(head)]
        lines.append(_line(["---", *["---:"] * (len(head) - 1)]))
        lines += [_line(row) for row in rows]
        lines.append("")
    lines += [f"- {line}" for line in remarks(results, hits)]
    return "\n".join(lines) + "\n"


def plain(frame: pd.DataFrame) -> str:
    """Any table as Markdown; fractions with four significant digits, undefined as a dash."""
    rows = [[_cell(value) for value in row] for row in frame.to_numpy(dtype=object)]
    lines = [_line(list(map(str, frame.columns))), _line(["---:"] * frame.shape[1])]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def subject(results: Mapping[str, Any]) -> str:
    """System, model and trace in one line; a synthetic trace is called so."""
    trace = results.get("trace", {})
    kind = "synthetic trace" if trace.get("synthetic") else "trace"
    names = [str(results.get(key, {}).get("name", "?")) for key in ("llm", "system")]
    return f"{names[0]} on {names[1]}, {kind} {trace.get('name', '?')}"


def remarks(results: Mapping[str, Any], hits: pd.DataFrame) -> list[str]:
    """What a reader must know beside the numbers, most important first."""
    runs = results["runs"]
    found = [
        *(f"FAILED: {fail['policy']}: {fail['error']}" for fail in results.get("failed", ())),
        *_winner(runs),
        *_differences(runs),
        *_untouched(runs),
        *_few(runs),
        *belady_gap(hits),
        *_warnings(runs),
        "Times are simulated (roofline estimate); definitions are in results.json.",
    ]
    if results.get("trace", {}).get("synthetic"):
        found.append("The trace is synthetic: generated from published statistics, not recorded.")
    return found


def belady_gap(hits: pd.DataFrame) -> list[str]:
    """How much of the way from LRU to Belady each policy covers, with its sign.

    Block hits, tail before head, at the capacity where that way is longest.
    """
    rows = hits[(hits["order"] == "reverse") & hits["capacity_blocks"].notna()]
    wide = rows.pivot_table(index="capacity_blocks", columns="policy", values="block_hits")
    if not {"lru", "belady"} <= set(wide.columns):
        return []
    wide = wide.dropna()  # only capacities at which every policy was counted
    gap = (wide["belady"] - wide["lru"]).to_numpy(dtype=float)
    if not len(gap) or gap.max() <= 0:
        return ["LRU and Belady have the same hits at every capacity counted: no gap to close."]
    place = int(gap.argmax())
    capacity, widest = int(wide.index.to_numpy()[place]), int(gap[place])
    above = wide.iloc[place] - wide["lru"].iloc[place]
    shares = {str(name): float(more) / widest for name, more in above.items()}
    order = [name for name in dict.fromkeys(rows["policy"]) if name not in (*_REFERENCES, "lru")]
    named = [f"{name} {shares[name]:+.1%}" for name in order]
    others = ", ".join(named) if named else "no other policy was compared"
    return [
        f"Of the LRU-to-Belady gap in block hits at {capacity:,} blocks ({widest:,} hits, the"
        f" widest of those counted): {others}."
    ]


def _tables(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    tiers = list(runs[0]["tiers"]) if runs else []
    where = ["policy", "done", "rejected", "unfinished", *tiers, "recompute"]
    last = tiers[-1] if tiers else "last tier"
    when = ["policy", "hit (%)", *(f"TTFT {name} (s)" for name in ("mean", "p50", "p95", "p99"))]
    when += ["TPOT p50 (ms)", "TPOT p99 (ms)", f"to {last} (GiB)"]
    return [
        (
            "Requests, and where prompt tokens came from (% of all)",
            where,
            [_where(run, tiers) for run in runs],
        ),
        (
            f"Tokens hit in any tier, latency, and bytes written to {last}",
            when,
            [_when(run, last) for run in runs],
        ),
    ]


def _where(run: Mapping[str, Any], tiers: Sequence[str]) -> list[str]:
    requests, shares = run["requests"], run["prompt_token_share_by_source"]
    states = [f"{requests[state]:,}" for state in ("completed", "rejected", "unfinished")]
    percent = [_number(shares[name], 100, "{:.2f}") for name in (*tiers, "recompute")]
    return [run["policy"], *states, *percent]


def _when(run: Mapping[str, Any], last: str) -> list[str]:
    ttft, tpot = run["ttft_s"], run["tpot_s"]
    first = [_number(ttft[key], 1, "{:.4g}") for key in ("mean", "p50", "p95", "p99")]
    later = [_number(tpot[key], 1000, "{:.4g}") for key in ("p50", "p99")]
    written = run["tiers"].get(last, {}).get("written_bytes")
    return [
        run["policy"],
        _number(run["hit_share"], 100, "{:.2f}"),
        *first,
        *later,
        _number(written, 1 / _GIB, "{:,.1f}"),
    ]


def _winner(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    ranked = sorted(
        (run for run in runs if run["ttft_s"]["mean"] is not None),
        key=lambda run: run["ttft_s"]["mean"],
    )
    if len(ranked) < 2:
        return [] if ranked else ["No request got a first token, so there is no TTFT to compare."]
    best, second, worst = ranked[0], ranked[1], ranked[-1]
    means = [run["ttft_s"]["mean"] for run in (best, second, worst)]
    if means[0] == means[2]:
        return [f"No difference: mean TTFT is {means[0]:.4g} s under every policy."]
    margins = [mean / means[0] - 1 if means[0] else float("inf") for mean in means]
    line = f"{best['policy']} has the lowest mean TTFT: {means[0]:.4g} s; "
    line += f"{second['policy']} takes {margins[1]:.2%} longer"
    if worst is not second:
        line += f", {worst['policy']} {margins[2]:.2%}"
    if margins[2] < LEAST_MARGIN:
        line += f". All within {LEAST_MARGIN:.0%}: no difference to build on"
    elif margins[1] < LEAST_MARGIN:
        line += f". The first two are within {LEAST_MARGIN:.0%}: no difference to build on"
    found = [f"{line}."]
    if len({run["ttft_s"]["n"] for run in ranked}) > 1:
        found.append("The policies served different numbers of requests, so means compare badly.")
    return found


def _differences(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say so when no tier ever had to give anything up: then any policy does the same."""
    if not runs or any(_gave_up(run) for run in runs):
        return []
    return [
        "No tier ever filled, so no policy had to choose and they cannot differ:"
        " use a longer trace or smaller tiers (--capacity)."
    ]


def _gave_up(run: Mapping[str, Any]) -> bool:
    moved = any(move["cause"] == "demote" for move in run["moves"])
    return moved or any(run["counters"][n] for n in run["counters"] if n.startswith(_PRESSED))


def _untouched(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [
        tier
        for tier in (runs[0]["tiers"] if runs else ())
        if not any(run["tiers"][tier]["high_water_bytes"] for run in runs)
    ]
    return [f"Never used: {', '.join(names)}."] if names else []


def _few(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    sizes = [run["ttft_s"]["n"] for run in runs if 0 < run["ttft_s"]["n"] < FEW]
    return [f"p99 rests on n = {min(sizes)} requests: read it as the slowest one."] if sizes else []


def _warnings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    said: dict[str, list[str]] = {}
    for run in runs:
        for line in run["warnings"]:
            said.setdefault(line, []).append(run["policy"])
    return [
        line if len(policies) == len(runs) else f"{', '.join(policies)}: {line}"
        for line, policies in said.items()
    ]


def _number(value: float | None, factor: float, form: str) -> str:
    return _UNDEFINED if value is None else form.format(value * factor)


def _cell(value: object) -> str:
    if value is None or value != value:
        return _UNDEFINED
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
