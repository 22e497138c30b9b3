"""The wheel: what is in it, and that it runs the main job away from the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """A wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("tiermem-*-py3-none-any.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_code_and_data(wheel: zipfile.ZipFile) -> None:
    """Each module and each file of models/ and traces/ is in the wheel, and nothing of tests/."""
    names = set(wheel.namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tiermem").rglob("*.py")}
    data = {
        f"tiermem/data/{path.relative_to(ROOT).as_posix()}"
        for folder in ("models", "traces")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    assert len(data) > 20
    assert modules | data <= names
    assert {name.split("/")[0] for name in names} == {
        "tiermem",
        f"tiermem-{metadata(wheel)['Version']}.dist-info",
    }


def metadata(wheel: zipfile.ZipFile) -> dict[str, str]:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return dict(Parser().parsestr(wheel.read(name).decode()))


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    """Licence, Python version, the command and the built-in policies are in its metadata."""
    found = metadata(wheel)
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    [licence] = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    assert b"Apache License" in wheel.read(licence)
    [points] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    text = wheel.read(points).decode()
    assert "tiermem = tiermem.cli:main" in text
    for policy in ("lru", "fifo", "lfu", "s3fifo"):
        assert f"\n{policy} = tiermem.policies." in text


def test_the_wheel_needs_no_torch(wheel: zipfile.ZipFile) -> None:
    """torch and kvikio come only with an extra."""
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    needed = Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist") or []
    heavy = [line for line in needed if line.startswith(("torch", "kvikio"))]
    assert heavy
    assert all("extra ==" in line for line in heavy)


def latency_table(page: Path) -> str:
    """The table of latencies on a page of results: from its head to the empty line after it."""
    [table] = re.findall(
        r"^\| policy \| hit .*?\n\n", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(table)


def test_the_wheel_runs_in_an_empty_folder(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """`tiermem compare --out DIR` from the unpacked wheel alone: the main job, with its figures.

    What it finds is what the README shows.
    """
    site, empty = tmp_path / "site", tmp_path / "empty"
    wheel.extractall(site)
    empty.mkdir()
    code = "import sys, tiermem.cli as c; print(c.__file__); sys.exit(c.main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", code, "compare", "--out", "out"],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(site))
    # When results change on purpose, the README shows the new ones.
    assert latency_table(ROOT / "README.md") == latency_table(empty / "out" / "table.md")
    results = json.loads((empty / "out" / "results.json").read_text())
    assert len(results["runs"]) == 3
    assert len(list((empty / "out").glob("*.png"))) >= 4
