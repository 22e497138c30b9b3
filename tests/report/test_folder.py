"""The run folder: whole or absent, never mixed, the same bytes for the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.errors import InputError, RunFolderNotEmpty, UnknownName
from tiermem.report import folder

Make = Callable[..., Any]


@pytest.fixture
def pair(large: Make, contents: Make) -> Any:
    return contents([large("lru"), large("fifo", reuse=0.2, slow=1.1)])


def test_what_is_written_is_read_back(tmp_path: Path, pair: Any) -> None:
    """`load` gives results and tables, one row per (policy, request), with seconds."""
    folder.write(tmp_path / "out", pair)
    found = folder.load(tmp_path / "out")
    assert [run["policy"] for run in found.runs] == ["lru", "fifo"]
    assert found.results["trace"]["name"] == "made-up"
    frame = found.frame()
    assert len(frame) == 2 * 800
    lru = frame[frame["policy"] == "lru"]
    assert lru["ttft_s"].mean() == pytest.approx(found.runs[0]["ttft_s"]["mean"])
    assert (lru["ttft_s"] > 0).all()
    for kind in ("moves", "occupancy", "steps", "hits"):
        assert found.frame(kind).equals(found.table(kind))
        assert len(found.frame(kind))
    with pytest.raises(UnknownName, match="did you mean 'moves'"):
        found.frame("move")


def test_equal_runs_are_equal_bytes(tmp_path: Path, pair: Any) -> None:
    """Everything but run.json is the same when the same is written again, elsewhere."""
    for name in ("one", "two/deep"):
        folder.write(tmp_path / name, pair)
    names = [path.name for path in (tmp_path / "one").iterdir()]
    assert {"results.json", "requests.parquet", "moves.parquet", "hits.parquet"} <= set(names)
    for name in names:
        same = (tmp_path / "one" / name).read_bytes() == (tmp_path / "two/deep" / name).read_bytes()
        assert same, name


def test_digests_are_of_the_files_beside_them(tmp_path: Path, pair: Any) -> None:
    """digests.json names every data file with its SHA-256."""
    folder.write(tmp_path / "out", pair)
    digests = json.loads((tmp_path / "out/digests.json").read_text())
    found = {path.name for path in (tmp_path / "out").iterdir()} - {"digests.json", "run.json"}
    assert set(digests) == found
    for name, digest in digests.items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("place", [0, 1, 2])
def test_another_policy_changes_no_other_line(
    tmp_path: Path, large: Make, contents: Make, place: int
) -> None:
    """Wherever a policy is added, results.json only gains lines."""
    runs = [large("lru"), large("fifo", reuse=0.2)]
    folder.write(tmp_path / "two", contents(runs))
    folder.write(tmp_path / "three", contents([*runs[:place], large("s3fifo"), *runs[place:]]))
    two = (tmp_path / "two/results.json").read_text().splitlines()
    three = (tmp_path / "three/results.json").read_text().splitlines()
    kept = iter(three)
    assert all(line in kept for line in two), "a line of the smaller comparison is gone"
    assert len(three) == len(two) + 2


def test_results_are_strict_json(tmp_path: Path, small: Make, contents: Make) -> None:
    """No NaN or infinity in results.json, also when nothing was completed."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    run = small([{"state": "rejected", "tokens_rejected": 5}], finished_ns=0)
    folder.write(tmp_path / "out", contents([run], hits=[]))
    text = (tmp_path / "out/results.json").read_text()
    found = json.loads(text, parse_constant=refuse)
    assert found["runs"][0]["requests"]["rejected"] == 1


def test_a_folder_that_holds_something_is_refused(tmp_path: Path, pair: Any) -> None:
    """Fault 140: results are never mixed; nothing in the folder is touched."""
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(RunFolderNotEmpty, match=str(tmp_path)):
            folder.write(tmp_path, pair, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_overwriting_leaves_nothing_of_the_run_before(
    tmp_path: Path, large: Make, pair: Any, contents: Make
) -> None:
    """With overwrite the old run goes, its figures included, and only then."""
    out = tmp_path / "out"
    folder.write(out, pair)
    (out / folder.FIGURES[0]).write_bytes(b"a figure of the run before")
    with pytest.raises(RunFolderNotEmpty):
        folder.write(out, pair)
    folder.write(out, contents([large("lfu")]), overwrite=True)
    assert [run["policy"] for run in folder.load(out).runs] == ["lfu"]
    assert folder.load(out).figures == []


def test_a_strange_file_beside_a_run_stops_overwriting(tmp_path: Path, pair: Any) -> None:
    """Only what a run wrote is ever deleted; the message names the other file."""
    out = tmp_path / "out"
    folder.write(out, pair)
    before = (out / "results.json").read_bytes()
    (out / "thesis.tex").write_text("mine")
    with pytest.raises(RunFolderNotEmpty, match=r"thesis\.tex"):
        folder.write(out, pair, overwrite=True)
    assert (out / "results.json").read_bytes() == before


def test_files_that_only_share_names_with_a_run_are_kept(tmp_path: Path, pair: Any) -> None:
    """A lone table.md was not written by a run: without results.json nothing is overwritten."""
    (tmp_path / "table.md").write_text("mine")
    with pytest.raises(InputError, match=r"results\.json"):
        folder.write(tmp_path, pair, overwrite=True)
    assert (tmp_path / "table.md").read_text() == "mine"


def test_an_error_while_writing_leaves_no_folder(
    tmp_path: Path, large: Make, contents: Make
) -> None:
    """A folder appears whole or not at all."""
    run = large("lru")
    run.tables["requests"]["tokens_recompute"] += 1
    with pytest.raises(AssertionError):
        folder.write(tmp_path / "out", contents([run]))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssertionError):
        folder.write(tmp_path / "empty", contents([run]))
    assert list((tmp_path / "empty").iterdir()) == []


def test_an_empty_folder_keeps_its_identity(tmp_path: Path, pair: Any) -> None:
    """A mount point or somebody's current folder is filled, not replaced."""
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    folder.write(out, pair)
    assert out.stat().st_ino == before
    assert folder.load(out).runs


def test_a_file_in_the_way_is_named_before_any_work(tmp_path: Path) -> None:
    """One line that names the path, and nothing is made."""
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "deep" / "out"):
        with pytest.raises(InputError, match="file") as caught:
            folder.check(out)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_check_leaves_no_trace(tmp_path: Path) -> None:
    """Looking whether a folder can be written makes neither it nor its parents."""
    folder.check(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "not a run folder"), ("{", "not JSON"), ("[1]", "object"), ("{}", "'runs'")],
)
def test_a_folder_no_run_wrote_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    """`load` names the file and says what is wrong with it."""
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        folder.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_loading_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """A missing folder is named."""
    with pytest.raises(InputError, match="nowhere: no such run folder"):
        folder.load(tmp_path / "nowhere")


def test_damaged_and_unknown_tables_are_named(tmp_path: Path, pair: Any) -> None:
    """A table that cannot be read is an error with its path; a wrong name offers the nearest."""
    saved = folder.write(tmp_path / "out", pair)
    (saved.path / "moves.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"moves\.parquet"):
        saved.table("moves")
    (saved.path / "steps.parquet").unlink()
    with pytest.raises(InputError, match=r"steps\.parquet"):
        saved.table("steps")
    with pytest.raises(UnknownName, match="did you mean 'requests'"):
        saved.table("request")
