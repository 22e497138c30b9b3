"""`tiermem doctor`: the path, the speed and the fallbacks of a directory meant for blocks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiermem.cli import options, show
from tiermem.errors import InputError
from tiermem.units import format_bytes

if TYPE_CHECKING:
    from tiermem.runtime.io.doctor import Diagnosis

app = typer.Typer()

PATHS = ("gds", "kvikio", "native", "posix_direct", "posix_buffered")
THREADS_MAX = 64


@app.command(cls=options.OnceEach)
def doctor(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where blocks would be kept.")],
    io: Annotated[
        str | None,
        typer.Option("--io", help=f"Try this path first: {', '.join(PATHS)}."),
    ] = None,
    threads: Annotated[
        int,
        typer.Option("--threads", min=1, max=THREADS_MAX, help="Threads of this process for I/O."),
    ] = 4,
    json: options.Json = False,
) -> None:
    """Prove which way to DIR works, measure it, and say why faster ways do not."""
    if not directory:
        raise InputError("an empty path; name a directory", key="DIR")
    wanted = options.one_of([io], PATHS, "--io") if io is not None else []
    if len(wanted) > 1:
        raise typer.BadParameter("one path at most", param_hint="--io")

    from tiermem.runtime.io.doctor import diagnose
    from tiermem.runtime.io.seam import IoPath

    prefer = IoPath(wanted[0]) if wanted else None
    found = diagnose(Path(directory), prefer=prefer, threads=threads)
    if json:
        show.json_document(found.document())
        return
    _print(found)


def _print(found: Diagnosis) -> None:
    place = found.place
    print(f"{place.directory}: {place.mount}, {format_bytes(place.free_bytes)} free")
    print(f"I/O path: {found.path}, {found.threads} threads")
    print(f"GPU: {'yes' if found.gpu.seen else 'no'} ({found.gpu.detail})")
    print(f"Host memory copies: {_rate(found.copy_bytes_per_s)}")
    rows = []
    for speed in found.speeds:
        read = _rate(speed.read_bytes_per_s)
        rows.append(
            {
                "blocks of": format_bytes(speed.size_bytes),
                "write": _rate(speed.write_bytes_per_s),
                "read": read if speed.cold else f"{read} (page cache)",
            }
        )
    memory = "; no device behind it: this is the speed of memory, not of NVMe"
    show.rows(rows, f"Achieved{memory if found.in_memory else ', byte-verified'}")
    for refusal in found.refused:
        print(f"not {refusal.path}: {refusal.reason}")
        print(f"    next step: {refusal.next_step}")


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:,.2f} GB/s"
