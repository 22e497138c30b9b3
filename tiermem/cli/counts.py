"""`tiermem hits`, exact counts without a clock, and `tiermem list`, what there is to name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tiermem.cli import options, show
from tiermem.units import format_bytes

app = typer.Typer()

ORDERS = ("reverse", "forward")


class Shelf(StrEnum):
    """What can be listed."""

    SYSTEMS = "systems"
    LLMS = "llms"
    POLICIES = "policies"
    TRACES = "traces"


@app.command(cls=options.OnceEach)
def hits(
    trace: options.Trace,
    policy: options.Policies,
    capacity: Annotated[
        list[str], typer.Option("--capacity", help="Blocks, as 1000,10000; several by commas.")
    ],
    order: Annotated[
        list[str] | None,
        typer.Option(
            "--order",
            help="How a request touches its blocks: reverse (tail first) or forward. Without it "
            "the table has both, --json has reverse.",
        ),
    ] = None,
    block_tokens: options.BlockTokens = None,
    json: options.Json = False,
) -> None:
    """Count the hits of policies and bounds exactly, block by block, without a clock."""
    capacities = options.block_counts(capacity)
    policies = options.split(policy, "--policy")
    # People see both orders, since the order may matter more than the policy.
    orders = options.one_of(order or (["reverse"] if json else ORDERS), ORDERS, "--order")

    from tiermem import hits as counting
    from tiermem.traces import catalog

    opened = catalog.open_trace(trace, block_tokens=block_tokens)
    # A policy may fix its own order; its rows are then the same in both rounds.
    counted = dict.fromkeys(
        row for each in orders for row in counting.count(opened, policies, capacities, order=each)
    )
    rows = [row.to_dict() for row in counted]
    if json:
        show.json_document({"rows": rows})
        return
    kind = "synthetic trace" if opened.synthetic else "trace"
    title = f"Hits in one tier: {opened.references:,} references of {kind} {opened.name}"
    show.rows([_hits_for_people(row) for row in _merged(rows)], title)


@app.command(name="list", cls=options.OnceEach)
def list_names(
    shelf: Annotated[Shelf, typer.Argument(help="What to list.")],
    models: options.Models = None,
    json: options.Json = False,
) -> None:
    """List the systems, models, policies or traces that can be named."""
    rows = _rows(shelf, models)
    if json:
        show.json_document({"rows": rows})
    else:
        show.rows([_named_for_people(row) for row in rows], str(shelf))


def _rows(shelf: Shelf, models: Path | None) -> list[dict[str, Any]]:
    if shelf is Shelf.POLICIES:
        from tiermem import hits as counting

        return counting.policy_rows()
    if shelf is Shelf.TRACES:
        from tiermem.traces import catalog

        return catalog.rows()
    from tiermem.models import presets

    listing = presets.system_rows if shelf is Shelf.SYSTEMS else presets.llm_rows
    return listing(models)


def _merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row where the order makes no difference: its order is then "either"."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name != "order")
        found[key] = {**row, "order": "either"} if key in found else row
    return list(found.values())


def _hits_for_people(row: dict[str, Any]) -> dict[str, Any]:
    shares = {
        f"{kind} hits": f"{row[f'{kind}_hits']:,} ({row[f'{kind}_hits'] / row['references']:.2%})"
        if row["references"]
        else "-"
        for kind in ("block", "prefix")
    }
    return {
        "policy": row["policy"],
        "blocks": "no limit" if row["capacity_blocks"] is None else f"{row['capacity_blocks']:,}",
        "order": row["order"],
        **shares,
    }


def _named_for_people(row: dict[str, Any]) -> dict[str, Any]:
    """What tells one row from another, in units: JSON has the rest."""
    long = ("file", "reader", "digest", "licence", "command", "sources", "params_total")
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name == "tiers":
            sizes = [f"{tier['name']} {format_bytes(tier['capacity_bytes'])}" for tier in value]
            shown["tiers"] = ", ".join(sizes)
        elif name == "params_active":
            shown["parameters"] = f"{row['params_total'] / 1e9:,.1f} billion"
        elif name == "weight_bytes":
            shown["weights"] = format_bytes(value)
        elif name == "max_context_tokens":
            shown["context"] = value
        elif name == "kv_bytes_per_token":
            shown["KV a token"] = f"{value:,} B"
        elif name not in long:
            shown[name.replace("_", " ")] = value
    return shown
