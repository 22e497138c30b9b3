"""`tiermem simulate` and `tiermem compare`: a trace over a machine, into a run folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiermem import shipped
from tiermem.cli import options, show
from tiermem.errors import TiermemError, Undrawn, UnknownName

if TYPE_CHECKING:
    from tiermem.report.folder import RunFolder

INTERRUPTED = 130

app = typer.Typer()


@app.command(cls=options.OnceEach)
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

    _report(
        experiment.simulate_to,
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
    )


@app.command(
    cls=options.OnceEach,
    help=f"Compare policies. With --out alone: {', '.join(shipped.DEFAULT_POLICIES)} on the trace "
    f"{shipped.DEFAULT_TRACE}, the system {shipped.DEFAULT_SYSTEM} and the model "
    f"{shipped.DEFAULT_LLM}.",
)
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
    _report(
        experiment.compare,
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
    )


def _report(run: Callable[..., RunFolder], **asked: Any) -> None:
    """Run, draw, print. Once the results are saved, whatever goes wrong says where they are.

    Printing comes last: whoever stops reading must not stop the drawing.
    """
    saved: list[RunFolder] = []
    try:
        run(**asked, on_saved=saved.append)
    except UnknownName as error:
        if error.key != "capacities":
            raise
        raise UnknownName(error.kind, error.name, error.known, key="--capacity") from None
    except TiermemError:
        if saved:
            # Its line is worth more than that of a failure to print.
            with contextlib.suppress(OSError, Undrawn):
                _print(saved[0])
        raise
    except (OSError, MemoryError, KeyboardInterrupt) as error:
        if not saved:
            raise
        raise _undrawn(saved[0], error) from error
    _print(saved[0])
    for line in rejections(saved[0].runs):
        print(f"tiermem: warning: {line}", file=sys.stderr)


def _print(saved: RunFolder) -> None:
    try:
        _print_tables(saved)
        figures = ", ".join(path.name for path in saved.figures)
        files = f"results.json, table.md, Parquet tables, {figures}"
        typer.echo(f"Results are in {saved.path}: {files}")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, KeyboardInterrupt) as error:
        raise _undrawn(saved, error) from error


def _undrawn(saved: RunFolder, error: BaseException) -> Undrawn:
    """What to end with when `error` came after the results were saved."""
    from tiermem.report.folder import FIGURES

    reason = "interrupted" if isinstance(error, KeyboardInterrupt) else _reason(error)
    status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else Undrawn.exit_status
    missing = len(saved.figures) < len(FIGURES)
    what = "figures are missing" if missing else "figures too, but not all was printed"
    return Undrawn(f"results are saved in {saved.path}; {what}: {reason}", status)


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(getattr(error, "strerror", None) or error)


def rejections(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each group of policies with the same requests rejected, of some but not all."""
    groups: dict[str, list[str]] = {}
    for run in runs:
        rejected, generated = (run["requests"][key] for key in ("rejected", "generated"))
        if 0 < rejected < generated:
            why = "; ".join(line for line in run["warnings"] if "rejected" in line)
            line = f"{rejected:,} of {generated:,} requests were rejected ({why})"
            groups.setdefault(line, []).append(run["policy"])
    return [f"{', '.join(policies)}: {line}" for line, policies in groups.items()]


def _print_tables(saved: RunFolder) -> None:
    from tiermem.report import tables

    console = show.Terminal()
    console.print(tables.subject(saved.results), style="bold", highlight=False, markup=False)
    tables.show(saved, console)
