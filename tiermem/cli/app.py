"""The command `tiermem`: its commands joined, and how a mistake ends.

A mistake of the user, or a machine that refuses something, ends in one line on stderr and exit
status 1 (2 for bad usage, 3 for unfinished requests); a mistake of ours ends in a traceback. A
reader of our output that went away is no mistake. It knows no command's content.

In this room, and only here, imports may stand inside functions: those of rooms that load pandas,
or SimPy, so that `--help` and a bad option answer at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer

from tiermem.cli import counts, doctor, runs, status, trace
from tiermem.errors import TiermemError, nearest

INTERRUPTED, BROKEN_PIPE = 130, 141

# What typer raises for a bad command line: the class above `BadParameter` and `UsageError`,
# which has no public name of its own.
_Usage: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="tiermem",
    help="Where should the memory of a language model live? Simulate placement policies over "
    "HBM, DRAM, CXL memory and NVMe on a trace.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(runs.app)
app.add_typer(counts.app)
app.add_typer(doctor.app)
app.add_typer(status.app)
app.add_typer(trace.app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tiermem {version('tiermem')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` when None) and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _open_streams()
    try:
        # Not `Command.main`, which makes of a reader that went away a status of its own.
        command = typer.main.get_command(app)
        with command.make_context("tiermem", given) as context:
            command.invoke(context)
        sys.stdout.flush()
    except TiermemError as error:
        return _complain(str(error), error.exit_status)
    except _Usage as error:
        return _complain(_usage(error, given), getattr(error, "exit_code", 2))
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _unread()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's way, when it prints help
            return _unread()
        # Nothing of ours leaves like this, and nobody may take it for success.
        said = f"a plug-in ended the process ({error!r})"
        return _complain(said, TiermemError.exit_status)
    except OSError as error:
        if error.filename is None:
            _abandon(sys.stdout)  # as far as is known, it is our own output that was refused
        place = f"{error.filename}: " if error.filename is not None else ""
        return _complain(f"{place}{error.strerror or error}", TiermemError.exit_status)
    except MemoryError as error:
        return _complain(f"not enough memory: {error}".rstrip(": "), TiermemError.exit_status)
    return 0


def _open_streams() -> None:
    """Whoever closed stdout or stderr (`>&-`) wants nothing to be written there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _unread() -> int:
    """The end of a command whose reader went away."""
    _abandon(sys.stdout)
    return BROKEN_PIPE


def _abandon(stream: TextIO) -> None:
    """What is left in the buffer of `stream` must not fail again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain(message: str, status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _abandon(sys.stdout)
    try:
        print(f"tiermem: error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)
    return status


def _usage(error: Any, given: Sequence[str]) -> str:
    """One line of what is wrong with the command line, with the nearest name and where to look."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tiermem"
    message = " ".join(str(error.format_message()).split()).rstrip(".").replace("Value error, ", "")
    names = list(getattr(context.command, "commands", ())) if context is not None else []
    if message.startswith("No such command") and "Did you mean" not in message:
        wrong = [word for word in given if repr(word) in message]
        near = nearest(wrong[0], names, cutoff=0.4) if wrong else None
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(names))}"
        message = f"{message}; {hint}"
    return f"{message} (see: {path} --help)"
