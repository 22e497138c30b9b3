"""Code of strangers that tries to end the process, and output folders that are hard to name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiermem import experiment, registry
from tiermem.errors import InputError, TiermemError
from tiermem.policies.lru import LRU
from tiermem.traces import synthetic

ENDINGS = [SystemExit(0), SystemExit(), GeneratorExit(), type("Own", (BaseException,), {})("odd")]


class Leaves(LRU):
    """An eviction order that ends the process: at once, when used, or in time for hit counts."""

    when = "insert"
    ending: BaseException = SystemExit(0)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        if self.when == "make":
            raise self.ending

    def insert(self, block: int, size: int) -> None:
        if self.when == "insert" or (self.when == "hits" and size == 1):
            raise self.ending
        super().insert(block, size)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A comparison of LRU and a policy that leaves."""
    registry.register("tiermem.evict", "leaves", Leaves)
    yield {
        "trace": synthetic.chat(requests=20, seed=3),
        "policies": ["lru", "leaves"],
        "out": tmp_path / "out",
    }
    registry.register("tiermem.evict", "leaves", LRU)


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
@pytest.mark.parametrize("when", ["insert", "hits"])
def test_a_policy_that_ends_the_process_has_raised(
    when: str, ending: BaseException, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a policy raises, it is named, and the results of the others are kept."""
    monkeypatch.setattr(Leaves, "when", when)
    monkeypatch.setattr(Leaves, "ending", ending)
    with pytest.raises(TiermemError, match=f"leaves .*{type(ending).__name__}"):
        experiment.compare(**asked)
    results = json.loads((asked["out"] / "results.json").read_text())
    finished = [run["policy"] for run in results["runs"]]
    assert finished == (["lru"] if when == "insert" else ["lru", "leaves"])
    assert [failure["policy"] for failure in results["failed"]] == ["leaves"]


def test_a_policy_that_ends_the_process_when_made(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is simulated or written."""
    monkeypatch.setattr(Leaves, "when", "make")
    with pytest.raises(InputError, match="'leaves' cannot be made: SystemExit"):
        experiment.compare(**asked)
    assert not asked["out"].exists()


def test_ctrl_c_is_no_bug_of_a_policy(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt ends the comparison, whoever's code it falls into."""
    monkeypatch.setattr(Leaves, "ending", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        experiment.compare(**asked)
    assert not asked["out"].exists()


def test_a_folder_is_found_where_it_was_written(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`absent/../z` is `z` before and after: results, figures and the answer are in one place."""
    monkeypatch.chdir(tmp_path)
    saved = experiment.compare(**asked | {"policies": ["lru"], "out": "absent/../z"})
    assert saved.path == Path("z")
    assert len(saved.figures) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["z"]


def test_links_in_a_circle_are_refused(asked: dict[str, Any], tmp_path: Path) -> None:
    """An output folder that leads nowhere is one line, before any work."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=r"loop: .*(circle|symbolic links)"):
        experiment.compare(**asked | {"out": tmp_path / "loop"})
