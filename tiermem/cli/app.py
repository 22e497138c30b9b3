"""The command `tiermem`: its commands joined, and how a mistake ends.

A mistake of the user ends in one line on stderr and exit status 1 (2 for bad usage, 3 for
unfinished requests); a mistake of ours ends in a traceback. It knows no command's content.

In this room, and only here, imports may stand inside functions: those of rooms that load pandas,
or SimPy, so that `--help` and a bad option answer at once.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer

from tiermem.cli import counts, runs, trace
from tiermem.errors import TiermemError

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
    try:
        status: int | None = typer.main.get_command(app).main(
            given, "tiermem", standalone_mode=False
        )
        sys.stdout.flush()
    except TiermemError as error:
        return _complain(str(error), error.exit_status)
    except _Usage as error:
        return _complain(_usage(error, given), getattr(error, "exit_code", 2))
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing may be flushed to it when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None or error.strerror is None:
            raise
        return _complain(f"{error.filename}: {error.strerror}", TiermemError.exit_status)
    # Older typers raise for an interrupt, newer ones return its status.
    return _complain("interrupted", status) if status == INTERRUPTED else status or 0


def _complain(message: str, status: int) -> int:
    print(f"tiermem: error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _usage(error: Any, given: Sequence[str]) -> str:
    """One line of what is wrong with the command line, with the nearest name and where to look."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tiermem"
    message = " ".join(str(error.format_message()).split()).rstrip(".").replace("Value error, ", "")
    names = list(getattr(context.command, "commands", ())) if context is not None else []
    if message.startswith("No such command") and "Did you mean" not in message:
        wrong = [word for word in given if repr(word) in message]
        near = difflib.get_close_matches(wrong[0], names, n=1, cutoff=0.4) if wrong else []
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(names))}"
        message = f"{message}; {hint}"
    return f"{message} (see: {path} --help)"
