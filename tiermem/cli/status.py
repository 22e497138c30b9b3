"""`tiermem status`: the counters of a directory's runtimes, and why their hit rate is so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tiermem.cli import options, show
from tiermem.errors import InputError
from tiermem.units import format_bytes

app = typer.Typer()

WORDS = (
    *("offered", "admitted", "refused", "stored", "looked_up", "hit", "loaded", "failed"),
    *("evicted", "demoted", "promoted", "adopted", "dropped"),
)


@app.command(cls=options.OnceEach)
def status(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A directory that a runtime keeps blocks in.")
    ],
    json: options.Json = False,
) -> None:
    """Walk the counters of the runtimes that use DIR, and say why the hit rate is what it is."""
    from tiermem.runtime.file.folder import STATUS_NAME
    from tiermem.runtime.status_file import read_status
    from tiermem.runtime.status_shape import ENTRY, trouble

    if not directory:
        raise InputError("an empty path; name a directory", key="DIR")
    path = Path(directory)
    found = read_status(path)
    if json:
        show.json_document(found)
        return
    for number, runtime in enumerate(found["runtimes"]):
        wrong = trouble(runtime, ENTRY, f"runtimes[{number}]")
        if wrong is not None:
            raise InputError(f"is not a status of ours: {wrong}", path=path / STATUS_NAME)
    for runtime in found["runtimes"]:
        _print(runtime, found["limit_is"])


def _print(runtime: Mapping[str, Any], limit_is: str) -> None:
    state = "running" if runtime["running"] else "closed" if runtime["closed"] else "gone"
    policy = runtime["policy"] or "an object"
    print(
        f"process {runtime['pid']} ({state}), policy {policy}, {runtime['age_s']:.0f} s ago:"
        f" {runtime['leases']:,} leases, {runtime['asked']['blocks']:,} blocks looked up"
    )
    show.rows(_table(runtime["tiers"]), "blocks by tier")
    print(runtime["why"])
    for tier in runtime["tiers"]:
        if tier["why_no_hit"]:
            print(tier["why_no_hit"])
    for tier in runtime["tiers"]:
        _print_room(tier, limit_is)
    for warning in runtime["warnings"]:
        print(f"warning: {warning}")


def _table(tiers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a word; the reasons of what was refused, dropped or failed stand below it."""
    rows: list[dict[str, Any]] = []
    for word in WORDS:
        counts = {tier["name"]: tier["counters"][word] for tier in tiers}
        by_why = word in ("refused", "dropped")
        blocks = {
            name: sum(each["blocks"] for each in count.values()) if by_why else count["blocks"]
            for name, count in counts.items()
        }
        rows.append({"": word.replace("_", " "), **blocks})
        reasons = sorted({why for count in counts.values() for why in count}) if by_why else ()
        for why in reasons:
            rows.append(
                {"": f"  {why}"}
                | {name: count.get(why, {"blocks": 0})["blocks"] for name, count in counts.items()}
            )
        if word == "failed":
            kinds = sorted({kind for tier in tiers for kind in tier["counters"]["faults"]})
            for kind in kinds:
                faults = {t["name"]: t["counters"]["faults"].get(kind, 0) for t in tiers}
                rows.append({"": f"  {kind}"} | faults)
    return rows


def _print_room(tier: Mapping[str, Any], limit_is: str) -> None:
    """How much of its limit a tier takes, and what is to be said of its files."""
    used, limit = format_bytes(tier["used_bytes"]), format_bytes(tier["capacity_bytes"])
    files = tier["files"]
    if files is None:
        print(f"{tier['name']}: {used} of {limit} in use")
    else:
        whole = files["directory_bytes"]
        everybody = "is gone, or moved" if whole is None else f"has {format_bytes(whole)}"
        print(
            f"{tier['name']}: {used} on disk of {limit} ({limit_is}; the whole directory"
            f" {everybody}), io path {files['io_path']}, {files['found_blocks']:,} blocks found at"
            " the start"
        )
        if files["cold"]:
            print(f"{tier['name']}: cold: {files['cold']}")
        for ignored in files["ignored_files"]:
            print(f"{tier['name']}: ignored {ignored['name']}: {ignored['reason']}")
        unnamed = files["ignored_count"] - len(files["ignored_files"])
        if unnamed:
            print(f"{tier['name']}: ignored {unnamed:,} files more")
    for warning in tier["warnings"]:
        print(f"warning: {tier['name']}: {warning}")
