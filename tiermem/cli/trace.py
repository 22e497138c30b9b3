"""`tiermem trace`: say what a trace is, make one up, or make one of a log of real requests."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tiermem.cli import options, show
from tiermem.errors import InputError
from tiermem.registry import parse_literal

app = typer.Typer(help="Look at a trace, or make one.")


class Kind(StrEnum):
    """The generators of synthetic traces."""

    UNIFORM = "uniform"
    CHAT = "chat"


@app.command(cls=options.OnceEach)
def info(
    trace: options.Trace,
    block_tokens: options.BlockTokens = None,
    json: options.Json = False,
) -> None:
    """Print requests, span, rate, tokens, blocks, ties and the ceiling of reuse."""
    from tiermem.traces import catalog, sidecar, summary

    found = summary.summarise(catalog.open_trace(trace, block_tokens=block_tokens))
    if json:
        show.json_document(found)
        return
    if not found["synthetic"] and not sidecar.is_described(trace):
        found["synthetic"] = "not marked"  # nobody has said that it is, nor that it is not
    show.pairs({name: value for name, value in found.items() if name != "meta"})


@app.command(cls=options.OnceEach)
def synth(
    kind: Annotated[Kind, typer.Option("--kind", help="The generator.")],
    requests: Annotated[
        int,
        typer.Option("--requests", min=1, max=options.REQUESTS_MAX, help="How many requests."),
    ],
    out: Annotated[Path, typer.Option("--out", help="A .jsonl, .jsonl.gz or .jsonl.zst file.")],
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            "--prompt-tokens", min=1, max=options.TOKENS_MAX, help="uniform: of each prompt."
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(
            "--output-tokens", min=1, max=options.TOKENS_MAX, help="uniform: of each answer."
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Per second: requests (uniform), new sessions (chat)."),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--set", help="chat: KEY=VALUE for one of its parameters, as burst_cv=1."),
    ] = None,
    seed: options.Seed = 0,
    block_tokens: options.BlockTokens = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a synthetic trace in the Mooncake format: unique prompts, or chat sessions."""
    from tiermem.traces import chat, mooncake, synthetic

    if out.exists() and not overwrite:
        raise InputError("there is such a file already; --overwrite replaces it", path=out)
    whole = {"requests": requests, "seed": seed, "block_tokens": block_tokens or 512}
    given = {"--prompt-tokens": prompt_tokens, "--output-tokens": output_tokens}
    if kind is Kind.CHAT:
        _refuse(given, kind)
        parameters = _parameters(chosen or ())
        if rate is not None and "sessions_per_s" in parameters:
            raise InputError("--rate and --set sessions_per_s say the same thing", key="--rate")
        if rate is not None:
            parameters["sessions_per_s"] = rate
        made = chat.chat(**whole, **parameters)
    else:
        _refuse({"--set": chosen}, kind)
        _require({**given, "--rate": rate}, kind)
        assert prompt_tokens is not None
        assert output_tokens is not None
        assert rate is not None
        made = synthetic.uniform(
            **whole, prompt_tokens=prompt_tokens, output_tokens=output_tokens, rate_per_s=rate
        )
    mooncake.write(made, out)
    typer.echo(f"{out}: {len(made):,} requests, {made.references:,} blocks, synthetic")


@app.command(cls=options.OnceEach)
def record(
    log: Annotated[Path, typer.Argument(help="What a tiermem.offload.recorder.Recorder wrote.")],
    out: Annotated[Path, typer.Argument(help="A .jsonl, .jsonl.gz or .jsonl.zst file.")],
    overwrite: options.Overwrite = False,
) -> None:
    """Make a trace in the Mooncake format of a log of requests that were really served."""
    from tiermem.traces import mooncake
    from tiermem.traces import record as recorded

    if out.exists() and not overwrite:
        raise InputError("there is such a file already; --overwrite replaces it", path=out)
    made = recorded.read(log)
    mooncake.write(made, out)
    sessions = made.meta["recorded"]["sessions"]
    typer.echo(f"{out}: {len(made):,} requests of {sessions:,} sessions, recorded")
    for notice in made.notices:
        typer.echo(f"note: {notice}", err=True)


def _refuse(given: dict[str, Any], kind: Kind) -> None:
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise InputError(f"--kind {kind} has no such parameter", key=wrong[0])


def _require(given: dict[str, Any], kind: Kind) -> None:
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InputError(f"--kind {kind} needs it", key=missing[0])


def _parameters(texts: tuple[str, ...] | list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise InputError(f"{text!r} is not KEY=VALUE, as in burst_cv=1", key="--set")
        if key in found:
            raise InputError(f"{key!r} is given twice", key="--set")
        found[key] = parse_literal(value)
    return found
