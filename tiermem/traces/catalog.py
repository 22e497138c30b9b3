"""Traces by name: `traces/catalog.toml` says which file a name means and what it must contain.

A name that is neither a file nor in the catalogue is an error. Nothing is ever put in its place.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tiermem import shipped
from tiermem.errors import InputError, nearest
from tiermem.models import sheet
from tiermem.traces import mooncake, sidecar
from tiermem.traces.trace import Trace

Text = Annotated[str, Field(min_length=1)]
_READERS = {"mooncake": mooncake.read}


class Entry(sheet.Document):
    """One shipped trace.

    `digest` is that of the content (`Trace.digest`), `command` made the file and makes it again,
    `sources` are where the statistics behind it were published.
    """

    file: Text
    reader: Literal["mooncake"]
    block_tokens: Annotated[int, Field(ge=1)]
    synthetic: bool
    digest: Text
    licence: Text
    description: Text
    command: Text | None = None
    sources: list[Text] = Field(default_factory=list)


class Catalog(sheet.Document):
    """`catalog.toml`: a table `[trace.NAME]` for each trace."""

    trace: dict[str, Entry]


def load(folder: Path | None = None) -> Catalog:
    """The catalogue of `folder`, by default the one that is shipped."""
    return sheet.read((folder or shipped.folder("traces")) / "catalog.toml", Catalog).content


def rows() -> list[dict[str, Any]]:
    """One row per trace of the shipped catalogue, by name."""
    return [{"name": name, **entry.model_dump()} for name, entry in sorted(load().trace.items())]


def open_trace(
    ref: str | Path, *, block_tokens: int | None = None, folder: Path | None = None
) -> Trace:
    """The trace in the file `ref`, or the one that the catalogue calls `ref`.

    A file comes first. `block_tokens` is by default what the catalogue or the sidecar of the
    file says, else 512. InputError when there is no such file and no such name.
    """
    if not str(ref).strip():
        raise InputError("no trace was named: neither a path nor a name", key="trace")
    catalog = load(folder)
    path, entry = Path(ref), catalog.trace.get(str(ref))
    if os.path.isfile(path) or (os.path.exists(path) and entry is None):
        described = sidecar.load(path) if os.path.isfile(path) else None
        return mooncake.read(
            path,
            block_tokens=block_tokens or (described.block_tokens if described else 512),
        )
    if entry is None and os.path.islink(path):
        raise InputError(_link(path), path=path)
    if entry is None:
        raise _no_such_trace(path, list(catalog.trace))
    file = (folder or shipped.folder("traces")) / entry.file
    trace = _READERS[entry.reader](file, block_tokens=block_tokens or entry.block_tokens)
    if trace.block_tokens == entry.block_tokens and trace.digest != entry.digest:
        raise InputError(
            f"the content is {trace.digest}, the catalogue says {entry.digest}", path=file
        )
    return dataclasses.replace(
        trace,
        name=str(ref),
        synthetic=trace.synthetic or entry.synthetic,
        meta={**trace.meta, "catalogue": str(ref), "licence": entry.licence},
    )


def _link(path: Path) -> str:
    try:
        path.stat()
    except FileNotFoundError:
        return "the file that this link leads to is not there"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "cannot be read"


def _no_such_trace(path: Path, names: list[str]) -> InputError:
    try:
        beside = [str(path.with_name(name)) for name in os.listdir(path.parent)]
    except (OSError, ValueError):
        beside = []
    near = nearest(str(path), [*names, *beside])
    hint = f"did you mean {near!r}?" if near else f"the catalogue has {', '.join(names)}"
    return InputError(f"no such file, and no such name in the catalogue; {hint}", path=path)
