"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tiermem import shipped
from tiermem.errors import InputError, UnknownName
from tiermem.units import parse_bytes

# More than any trace or engine has, and small enough for tables of int64.
TOKENS_MAX = 2**31 - 1
REQUESTS_MAX = 100_000_000
BLOCKS_MAX = 2**48

_TRACE_IS = "A path or a catalogue name."
_SYSTEM_IS = "A name of `tiermem list systems`, or a TOML file."
_MODEL_IS = "A name of `tiermem list llms`, or a TOML file."
_POLICIES_ARE = "NAME or module:Class, with parameters as NAME:key=value; several by commas."

Trace = Annotated[str, typer.Argument(metavar="TRACE", help=_TRACE_IS)]
AnyTrace = Annotated[
    str | None,
    typer.Argument(metavar="TRACE", help=f"{_TRACE_IS} Without it: {shipped.DEFAULT_TRACE}."),
]
System = Annotated[str, typer.Option("--system", help=_SYSTEM_IS)]
AnySystem = Annotated[
    str | None,
    typer.Option("--system", help=f"{_SYSTEM_IS} Without it: {shipped.DEFAULT_SYSTEM}."),
]
Model = Annotated[str, typer.Option("--llm", help=_MODEL_IS)]
AnyModel = Annotated[
    str | None, typer.Option("--llm", help=f"{_MODEL_IS} Without it: {shipped.DEFAULT_LLM}.")
]
Policies = Annotated[list[str], typer.Option("--policy", help=_POLICIES_ARE)]
AnyPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"{_POLICIES_ARE} Without it: {','.join(shipped.DEFAULT_POLICIES)}.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="The run folder to make; it must be empty or absent.")
]
Capacities = Annotated[
    list[str] | None,
    typer.Option("--capacity", help="TIER=SIZE, as in dram=64GiB, instead of the system's own."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Of every random draw.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
BlockTokens = Annotated[
    int | None,
    typer.Option("--block-tokens", min=1, max=TOKENS_MAX, help="Tokens of one block of the trace."),
]
KVBlocks = Annotated[
    int | None,
    typer.Option(
        "--kv-blocks",
        min=1,
        max=BLOCKS_MAX,
        help="KV blocks the engine reports; wins over our sum.",
    ),
]
KVBlockTokens = Annotated[
    int | None,
    typer.Option(
        "--kv-block-tokens", min=1, max=TOKENS_MAX, help="Tokens of one KV block of the engine."
    ),
]
Models = Annotated[
    Path | None,
    typer.Option("--models", help="A folder of descriptions to look into before the shipped one."),
]
Json = Annotated[bool, typer.Option("--json", help="Strict JSON on stdout.")]


class OnceEach(TyperCommand):
    """A command that refuses an option given twice, where the first value would be dropped."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As always, once each option that takes one value is known to be there once at most."""
        order: Any = self.make_parser(ctx).parse_args(list(args))[2]
        for place, param in enumerate(order):
            single = not (param.multiple or getattr(param, "is_flag", False) or param.nargs == -1)
            if single and param in order[:place]:
                raise typer.BadParameter("given twice", ctx=ctx, param=param)
        return super().parse_args(ctx, args)


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
        if not text.isascii() or not text.isdigit() or not text.strip("0"):
            raise InputError(f"{text!r} is not a number of blocks, at least 1", key="--capacity")
        if len(text) > len(str(BLOCKS_MAX)) or int(text) > BLOCKS_MAX:
            raise InputError(f"more than {BLOCKS_MAX:,} blocks", key="--capacity")
        found.append(int(text))
    return found


def one_of(texts: Sequence[str], known: Sequence[str], key: str) -> list[str]:
    """The comma-separated parts of a repeatable option, each of which must be known."""
    parts = split(texts, key)
    for part in parts:
        if part not in known:
            raise UnknownName(f"value of {key}", part, known)
    return parts
