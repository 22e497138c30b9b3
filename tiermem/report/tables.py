"""The comparison for people: two small tables and the sentences that go under them.

Everything is read from results.json, verdict.json and the hit counts, so a table made again from
a run folder is the same table. The sentences themselves are made in `remarks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tiermem.report.remarks import remarks

# A longer policy spec is a number in the tables of the terminal, and stands in a legend.
LONGEST_NAME = 12

_UNDEFINED = "-"
_GIB = 2**30
# "rejected" counts requests already.
_TOKENS_OF = {"rejected": "tokens rejected", "not_served": "tokens not served"}


class Results(Protocol):
    """A run folder, as far as a table needs one."""

    @property
    def results(self) -> dict[str, Any]: ...
    @property
    def verdict(self) -> dict[str, Any]: ...
    def table(self, kind: str) -> pd.DataFrame: ...


def show(folder: Results, console: Console) -> None:
    """Print the tables and the remarks; each table fits 80 columns with four tiers.

    A name of a policy is never broken: a long one is a number here, explained above the tables.
    """
    results, hits = folder.results, folder.table("hits")
    policies = [run["policy"] for run in results["runs"]]
    long = [name for name in policies if len(name) > LONGEST_NAME]
    short = {name: f"({place})" for place, name in enumerate(long, start=1)}
    for name, number in short.items():
        console.print(f"{number} {name}", highlight=False, markup=False)
    for title, head, rows in _tables(results["runs"]):
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.pad_edge, table.collapse_padding = False, True
        table.add_column(head[0], no_wrap=True)
        for name in head[1:]:
            table.add_column(name, justify="right", overflow="fold")
        for row in rows:
            table.add_row(short.get(row[0], row[0]), *row[1:])
        console.print(table, highlight=False, markup=False)
    for line in remarks(results, hits, folder.verdict):
        console.print(line, highlight=False, markup=False)


def markdown(results: Mapping[str, Any], hits: pd.DataFrame, verdict: Mapping[str, Any]) -> str:
    """The same as a Markdown page, with the subject of the comparison as its head."""
    lines = [f"# {subject(results)}", ""]
    for title, head, rows in _tables(results["runs"]):
        lines += [f"## {title}", "", _line(head)]
        lines.append(_line(["---", *["---:"] * (len(head) - 1)]))
        lines += [_line(row) for row in rows]
        lines.append("")
    lines += [f"- {line}" for line in remarks(results, hits, verdict)]
    return "\n".join(lines) + "\n"


def plain(frame: pd.DataFrame) -> str:
    """Any table as Markdown; fractions with four significant digits, undefined as a dash."""
    rows = [[_cell(value) for value in row] for row in frame.to_numpy(dtype=object)]
    lines = [_line(list(map(str, frame.columns))), _line(["---:"] * frame.shape[1])]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def subject(results: Mapping[str, Any]) -> str:
    """System, model and trace in one line; a synthetic or recorded trace is called so."""
    trace = results.get("trace", {})
    kind = "recorded trace" if trace.get("recorded") else "trace"
    kind = "synthetic trace" if trace.get("synthetic") else kind
    names = [str(results.get(key, {}).get("name", "?")) for key in ("llm", "system")]
    return f"{names[0]} on {names[1]}, {kind} {trace.get('name', '?')}"


def _tables(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    tiers = list(runs[0]["tiers"]) if runs else []
    where = [*tiers, "recompute"]
    # With these a row of shares always adds up to all prompt tokens.
    where += [
        name
        for name, state in (("rejected", "rejected"), ("not_served", "unfinished"))
        if any(run["requests"][state] for run in runs)
    ]
    names = [_TOKENS_OF.get(name, name) for name in where]
    # What is written into the only tier is no traffic between tiers.
    last = tiers[-1] if len(tiers) > 1 else None
    when = ["policy", "hit (%)", "wait mean (s)"]
    when += [f"TTFT {name} (s)" for name in ("mean", "p50", "p95", "p99")]
    when += ["TPOT p50 (ms)", "TPOT p99 (ms)", *([f"to {last} (GiB)"] if last else [])]
    written = f"Tokens hit in any tier, latency, and bytes written to {last}"
    return [
        (
            "Requests, and where prompt tokens came from (% of all)",
            ["policy", "done", "rejected", "unfinished", *names],
            [_where(run, where) for run in runs],
        ),
        (
            written if last else "Tokens hit, and latency",
            when,
            [_when(run, last) for run in runs],
        ),
    ]


def _where(run: Mapping[str, Any], sources: Sequence[str]) -> list[str]:
    requests, shares = run["requests"], run["prompt_token_share_by_source"]
    states = [f"{requests[state]:,}" for state in ("completed", "rejected", "unfinished")]
    percent = [_number(shares[name], 100, "{:.2f}") for name in sources]
    return [run["policy"], *states, *percent]


def _when(run: Mapping[str, Any], last: str | None) -> list[str]:
    ttft, tpot = run["ttft_s"], run["tpot_s"]
    first = [_number(ttft[key], 1, "{:.4g}") for key in ("mean", "p50", "p95", "p99")]
    later = [_number(tpot[key], 1000, "{:.4g}") for key in ("p50", "p99")]
    written = run["tiers"][last]["written_bytes"] if last else None
    return [
        run["policy"],
        _number(run["hit_share"], 100, "{:.2f}"),
        _number(run["queue_s"]["mean"], 1, "{:.3g}"),
        *first,
        *later,
        *([_number(written, 1 / _GIB, "{:,.1f}")] if last else []),
    ]


def _number(value: float | None, factor: float, form: str) -> str:
    return _UNDEFINED if value is None else form.format(value * factor)


def _cell(value: object) -> str:
    if value is None or value != value:
        return _UNDEFINED
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
