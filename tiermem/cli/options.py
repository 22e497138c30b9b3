"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tiermem.errors import InputError, UnknownName
from tiermem.units import parse_bytes

_TRACE = typer.Argument(metavar="TRACE", help="A path or a catalogue name.")
_SYSTEM = typer.Option("--system", help="A name of `tiermem list systems`, or a TOML file.")
_MODEL = typer.Option("--llm", help="A name of `tiermem list llms`, or a TOML file.")
_POLICIES = typer.Option(
    "--policy",
    help="NAME or module:Class, with parameters as NAME:key=value; several by commas.",
)

Trace = Annotated[str, _TRACE]
AnyTrace = Annotated[str | None, _TRACE]
System = Annotated[str, _SYSTEM]
AnySystem = Annotated[str | None, _SYSTEM]
Model = Annotated[str, _MODEL]
AnyModel = Annotated[str | None, _MODEL]
Policies = Annotated[list[str], _POLICIES]
AnyPolicies = Annotated[list[str] | None, _POLICIES]
Out = Annotated[
    Path, typer.Option("--out", help="The run folder to make; it must be empty or absent.")
]
Capacities = Annotated[
    list[str] | None,
    typer.Option("--capacity", help="TIER=SIZE, as in dram=64GiB, instead of the system's own."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of every random draw.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
BlockTokens = Annotated[
    int | None,
    typer.Option("--block-tokens", min=1, help="Tokens of one block of the trace."),
]
KVBlocks = Annotated[
    int | None,
    typer.Option("--kv-blocks", min=1, help="KV blocks the engine reports; wins over our sum."),
]
KVBlockTokens = Annotated[
    int | None,
    typer.Option("--kv-block-tokens", min=1, help="Tokens of one KV block of the engine."),
]
Models = Annotated[
    Path | None,
    typer.Option("--models", help="A folder of descriptions to look into before the shipped one."),
]
Json = Annotated[bool, typer.Option("--json", help="Strict JSON on stdout.")]


def split(texts: Sequence[str], key: str) -> list[str]:
    """The comma-separated parts of a repeatable option; none empty, none twice."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    for number, part in enumerate(parts):
        if not part:
            raise InputError(f"an empty value in {','.join(texts)!r}", key=key)
        if part in parts[:number]:
            raise InputError(f"{part!r} is given twice", key=key)
    return parts


def capacities(texts: Sequence[str] | None) -> dict[str, int]:
    """`dram=64GiB` and the like as bytes by tier."""
    found: dict[str, int] = {}
    for text in split(texts or (), "--capacity"):
        tier, equals, size = (part.strip() for part in text.partition("="))
        if not equals or not tier:
            raise InputError(f"{text!r} is not TIER=SIZE, as in dram=64GiB", key="--capacity")
        if tier in found:
            raise InputError(f"tier {tier!r} is given twice", key="--capacity")
        found[tier] = parse_bytes(size, key=f"--capacity {tier}")
    return found


def block_counts(texts: Sequence[str]) -> list[int]:
    """`1000,10000` as whole numbers of blocks, at least 1 each."""
    found = []
    for text in split(texts, "--capacity"):
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise InputError(f"{text!r} is not a number of blocks, at least 1", key="--capacity")
        found.append(int(text))
    return found


def one_of(texts: Sequence[str], known: Sequence[str], key: str) -> list[str]:
    """The comma-separated parts of a repeatable option, each of which must be known."""
    parts = split(texts, key)
    for part in parts:
        if part not in known:
            raise UnknownName(f"value of {key}", part, known)
    return parts
