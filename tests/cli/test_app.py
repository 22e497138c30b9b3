"""The command as a whole: help, version, bad usage, interrupts, and who reads its output."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem import shipped
from tiermem.cli import counts, main

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
        (["compare", "--out", "x", "--llm", "a", "--llm", "a"], "'--llm': given twice"),
        (["simulate", "t", "--policy", "lru", "--policy=fifo"], "'--policy': given twice"),
        (["compare", "--out", "x", "--block-tokens", "9" * 30], "'--block-tokens'"),
        (["compare", "--out", "x", "--kv-blocks", "9" * 30], "'--kv-blocks'"),
        (["compare", "--out", "x", "--seed", "9" * 30], "'--seed'"),
        (["trace", "synth", "--kind", "chat", "--requests", "9" * 30], "'--requests'"),
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


def test_nothing_passes_for_success(
    monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """Whatever calls sys.exit(0) on the way, a command without its result has failed."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(counts, "_rows", leave)
    ended = tiermem("list", "systems")
    assert ended.status == 1
    assert ended.stderr == "tiermem: error: a plug-in ended the process (SystemExit(0))\n"


def test_a_disk_that_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tiermem: Callable[..., Any]
) -> None:
    """What the system refuses is named, with its path if there is one."""
    refusals: dict[str, Exception] = {
        "somewhere/out: No space left": OSError(28, "No space left", "somewhere/out"),
        "No space left": OSError(28, "No space left"),
        "odd": OSError("odd"),
        "not enough memory: 3 PiB": MemoryError("3 PiB"),
        "not enough memory": MemoryError(),
    }
    for said, error in refusals.items():

        def refuse(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(counts, "_rows", refuse)
        ended = tiermem("list", "systems")
        assert (ended.status, ended.stderr) == (1, f"tiermem: error: {said}\n")


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


def test_help_names_what_is_used_without_options(tiermem: Callable[..., Any]) -> None:
    """`compare --help` says which trace, system, model and policies it takes by itself."""
    shown = " ".join(tiermem("compare", "--help").stdout.split())
    names = [shipped.DEFAULT_TRACE, shipped.DEFAULT_SYSTEM, shipped.DEFAULT_LLM]
    assert [name for name in [*names, *shipped.DEFAULT_POLICIES] if name not in shown] == []
