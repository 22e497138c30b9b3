"""The command as a whole: help, version, bad usage, interrupts, and who reads its output."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.cli import app, counts, main

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("compare", "--help")])
def test_help_is_no_mistake(words: tuple[str, ...], tiermem: Callable[..., Any]) -> None:
    """Help goes to stdout and exits with 0, also when nothing is said at all."""
    ended = tiermem(*words)
    assert (ended.status, ended.stderr) == (0, "")
    assert "Usage: tiermem" in ended.stdout


def test_the_version_is_that_of_the_project(tiermem: Callable[..., Any]) -> None:
    """`--version` names the version that pyproject.toml gives."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tiermem("--version").stdout == f"tiermem {project['version']}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["comapre", "--out", "x"], "No such command 'comapre'. Did you mean 'compare'?"),
        (["trace", "inof", "x"], "No such command 'inof'. Did you mean 'info'?"),
        (["trace"], "Missing command (see: tiermem trace --help)"),
        (["compare", "--polcy", "lru", "--out", "x"], "No such option: --polcy"),
        (["compare"], "Missing option '--out'"),
        (["hits", "--policy", "lru", "--capacity", "5"], "Missing argument 'TRACE'"),
        (["list", "system"], "'system' is not one of 'systems'"),
        (["compare", "--out", "x", "--seed", "soon"], "'--seed'"),
        (["compare", "--out", "x", "--seed", "-1"], "'--seed'"),
        (["compare", "--out", "x", "--jobs", "0"], "'--jobs'"),
        (["compare", "a", "b", "--out", "x"], "unexpected extra argument"),
    ],
)
def test_bad_usage_is_one_line(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiermem: Callable[..., Any],
) -> None:
    """A bad command line ends with status 2 and one line that says what and where to look."""
    monkeypatch.chdir(tmp_path)
    ended = tiermem(*words)
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("tiermem: error: ")
    assert said in ended.stderr
    assert "--help)" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_option_gets_the_nearest(tiermem: Callable[..., Any]) -> None:
    """The option that was meant is in the line."""
    assert "--policy" in tiermem("compare", "--polcy", "lru").stderr.replace("--polcy", "")


def test_an_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """Ctrl-C ends with status 130 and one line, without a traceback."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(counts, "_rows", interrupted)
    ended = tiermem("list", "systems")
    assert (ended.status, ended.stderr) == (130, "tiermem: error: interrupted\n")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is a bug and comes out with its traceback."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(counts, "_rows", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["list", "systems"])


def test_a_disk_that_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """What the system refuses is named with its path; an OSError without one is a bug."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere/out")

    monkeypatch.setattr(counts, "_rows", full)
    ended = tiermem("list", "systems")
    assert (ended.status, ended.stderr) == (
        1,
        "tiermem: error: somewhere/out: No space left on device\n",
    )


def test_nobody_reads_the_output() -> None:
    """`tiermem list llms | head -1` prints no complaint about a broken pipe."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "tiermem", "list", "llms", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert ended.stderr == ""
    assert ended.returncode in (1, app.BROKEN_PIPE)


def test_every_command_of_the_readme_is_there(tiermem: Callable[..., Any]) -> None:
    """The commands and options that scripts rely on exist by these names."""
    wanted = {
        "hits": ["--policy", "--capacity", "--order", "--json"],
        "simulate": ["--system", "--llm", "--policy", "--out", "--capacity"],
        "compare": ["--system", "--llm", "--policy", "--out", "--capacity"],
        "trace info": ["--json"],
        "trace synth": ["--kind", "--requests", "--prompt-tokens", "--rate", "--seed", "--out"],
        "list": ["--json"],
    }
    for command, options in wanted.items():
        shown = tiermem(*command.split(), "--help").stdout
        assert [option for option in options if option not in shown] == []
