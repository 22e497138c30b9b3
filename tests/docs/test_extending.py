"""docs/extending.md: the policy shown there is twenty lines, runs as it stands, and is right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tiermem import hits, registry
from tiermem.traces.trace import Trace, intern

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def shown(language: str) -> list[str]:
    """The blocks of code in one language, exactly as printed on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the policy of the page saved in it, and the user standing there."""
    (tmp_path / "my_clock.py").write_text(shown("python")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_clock", raising=False)
    return tmp_path


@pytest.fixture
def trace() -> Trace:
    """Blocks 1 2 1 3 1 2, one a request."""
    ids = [1, 2, 1, 3, 1, 2]
    ones = np.ones(len(ids), dtype=np.int64)
    return Trace(
        name="made",
        block_tokens=1,
        arrival_ns=np.arange(len(ids), dtype=np.int64),
        prompt_tokens=ones,
        output_tokens=ones.copy(),
        block_ids=intern(ids),
        block_offsets=np.arange(len(ids) + 1, dtype=np.int64),
        synthetic=True,
    )


def block_hits(trace: Trace, policy: str) -> int:
    (row,) = hits.count(trace, [policy], [2])
    assert row.policy == policy
    return row.block_hits


def test_is_twenty_lines() -> None:
    """A whole policy in twenty lines, blank ones not counted."""
    lines = [line for line in shown("python")[0].splitlines() if line.strip()]
    assert len(lines) == 20


def test_runs_from_the_desk(desk: Path, trace: Trace) -> None:
    """`module:Class` finds the file; block 1, being used, survives 3, as it does not in FIFO."""
    assert block_hits(trace, "my_clock:Clock") == 2
    assert block_hits(trace, "fifo") == 1


def test_passes_the_suite_as_shown(desk: Path) -> None:
    """The test file of the page passes, and runs every test of the suite."""
    (desk / "test_my_clock.py").write_text(shown("python")[1], encoding="utf-8")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_clock.py"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b9 passed", done.stdout)


def test_registers_in_this_process(
    desk: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`register` with the group of the page gives it a name that hits and the listing know."""
    monkeypatch.setattr(registry, "_registered", {})
    (group,) = tomllib.loads(shown("toml")[0])["project"]["entry-points"]
    clock = registry.find(group, "my_clock:Clock", kind="policy")
    registry.register(group, "clock", clock)
    assert block_hits(trace, "clock") == 2
    assert "clock" in [row["name"] for row in hits.policy_rows()]


def test_registers_as_an_entry_point(
    desk: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed with the lines of the page, the policy has a name in every process."""
    (group, points), *_ = tomllib.loads(shown("toml")[0])["project"]["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in points.items()]
    installed = desk / "site" / "my_clock-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my_clock\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    monkeypatch.syspath_prepend(installed.parent)
    monkeypatch.syspath_prepend(desk)
    assert block_hits(trace, "clock") == 2


def test_commands_name_real_options() -> None:
    """The command lines of the page use commands and options that the command line has."""
    for line in shown("sh")[0].splitlines():
        command, options = line.split()[1], re.findall(r"--[a-z-]+", line)
        done = subprocess.run(
            [sys.executable, "-m", "tiermem", command, "--help"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "dumb"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert [option for option in options if option not in done.stdout] == []
