"""`tiermem simulate` and `tiermem compare`: a trace over a machine, into a run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tiermem.cli import options

if TYPE_CHECKING:
    from tiermem.report.folder import RunFolder

app = typer.Typer()


@app.command()
def simulate(
    trace: options.Trace,
    system: options.System,
    llm: options.Model,
    policy: Annotated[
        str, typer.Option("--policy", help="NAME or module:Class, with parameters as :key=value.")
    ],
    out: options.Out,
    capacity: options.Capacities = None,
    kv_blocks: options.KVBlocks = None,
    kv_block_tokens: options.KVBlockTokens = None,
    block_tokens: options.BlockTokens = None,
    models: options.Models = None,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
) -> None:
    """Simulate one policy on a trace, a system and a model."""
    from tiermem import experiment

    experiment.simulate_to(
        trace=trace,
        system=system,
        llm=llm,
        policy=policy,
        out=out,
        capacities=options.capacities(capacity),
        kv_blocks=kv_blocks,
        kv_block_tokens=kv_block_tokens,
        block_tokens=block_tokens,
        models_dir=models,
        seed=seed,
        overwrite=overwrite,
        on_saved=_print_tables,
    )
    _print_place(out)


@app.command()
def compare(
    out: options.Out,
    trace: options.AnyTrace = None,
    system: options.AnySystem = None,
    llm: options.AnyModel = None,
    policy: options.AnyPolicies = None,
    capacity: options.Capacities = None,
    kv_blocks: options.KVBlocks = None,
    kv_block_tokens: options.KVBlockTokens = None,
    block_tokens: options.BlockTokens = None,
    models: options.Models = None,
    seed: options.Seed = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Policies simulated at a time.")] = 1,
    overwrite: options.Overwrite = False,
) -> None:
    """Compare policies; with --out alone: the shipped trace, a default system, three policies."""
    from tiermem import experiment

    named: dict[str, Any] = {"trace": trace, "system": system, "llm": llm}
    named["policies"] = options.split(policy, "--policy") if policy else None
    experiment.compare(
        **{name: value for name, value in named.items() if value is not None},
        out=out,
        capacities=options.capacities(capacity),
        kv_blocks=kv_blocks,
        kv_block_tokens=kv_block_tokens,
        block_tokens=block_tokens,
        models_dir=models,
        seed=seed,
        n_jobs=jobs,
        overwrite=overwrite,
        on_saved=_print_tables,
    )
    _print_place(out)


def _print_tables(saved: RunFolder) -> None:
    """Before the figures are drawn: what was found is safe and can be read."""
    from tiermem.report import tables

    console = Console()
    console.print(tables.subject(saved.results), style="bold", highlight=False, markup=False)
    tables.show(saved, console)


def _print_place(out: Any) -> None:
    from tiermem.report import folder

    figures = ", ".join(path.name for path in folder.load(out).figures)
    typer.echo(f"Results are in {out}: results.json, table.md, Parquet tables, {figures}")
