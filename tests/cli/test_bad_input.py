"""Bad input ends early: one line that names the place, a status, no traceback, no folder."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem import shipped

GOOD = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}'
LATER = '{"timestamp": 9, "input_length": 600, "output_length": 5, "hash_ids": [0, 2]}'


def complaint(ended: object) -> str:
    """The one line on stderr of a command that refused its input."""
    status, stdout, stderr = ended.status, ended.stdout, ended.stderr  # type: ignore[attr-defined]
    assert status == 1
    assert stdout == ""
    assert "Traceback" not in stderr
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    assert stderr.startswith("tiermem: error: ")
    return str(stderr)


def simulation(trace: Path | str, out: Path, *more: object) -> list[object]:
    words: list[object] = ["simulate", trace, "--out", out]
    for name, value in {"--system": "laptop-nvme", "--llm": "qwen3-4b", "--policy": "lru"}.items():
        if name not in more:
            words += [name, value]
    return [*words, *more]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run folder that must not come into being."""
    return tmp_path / "out"


def row(text: str) -> str:
    return f"{GOOD}\n{text}\n"


BROKEN_ROWS = {
    "a bad cell": (row(LATER.replace("600", '"abc"')), r":2: input_length: .*abc"),
    "an empty cell": (row(LATER.replace("600", '""')), r":2: input_length: "),
    "NaN": (row(LATER.replace("600", "NaN")), r":2: .*NaN"),
    "infinity": (row(LATER.replace("9", "Infinity", 1)), r":2: .*Infinity"),
    "a negative length": (row(LATER.replace("600", "-600")), r":2: input_length: .*-600"),
    "a negative time": (row(LATER.replace("9", "-9", 1)), r":2: timestamp: .*-9"),
    "no input tokens": (row(LATER.replace("600", "0")), r":2: input_length: .*0"),
    "more ids than fit": (row(LATER.replace("[0, 2]", f"{list(range(700))}")), r":2: .*700"),
    "a JSON list": (f"[{GOOD},\n{LATER}]\n", r":1: .*one .* (a|per) line|:1: .*list"),
    "a missing column": (row(LATER.replace("output_length", "out_length")), r":2: .*output_length"),
    "no JSON at all": (row("hello"), r":2: .*hello"),
    "half a row": (row(LATER[:40]), r":2: "),
    "a number": (row("7"), r":2: "),
    "nothing": ("", r"no requests|empty"),
    "blank lines": ("\n\n\n", r"no requests|empty"),
    "a huge number": (row(LATER.replace("600", "9" * 30)), r":2: input_length: "),
}


@pytest.mark.parametrize("name", BROKEN_ROWS)
@pytest.mark.parametrize("command", ["simulate", "hits", "info"])
def test_a_broken_trace(
    name: str, command: str, tmp_path: Path, out: Path, tiermem: Callable[..., object]
) -> None:
    """Faults A1-A7: the line names the file, the line of it and the key; nothing is written."""
    text, pattern = BROKEN_ROWS[name]
    trace = tmp_path / "broken.jsonl"
    trace.write_text(text)
    words = {
        "simulate": simulation(trace, out),
        "hits": ["hits", trace, "--policy", "lru", "--capacity", "5", "--json"],
        "info": ["trace", "info", trace, "--json"],
    }[command]
    line = complaint(tiermem(*words))
    assert "broken.jsonl" in line
    assert re.search(pattern, line), line
    assert not out.exists()


@pytest.mark.parametrize("cut", [1, 20, 30])
def test_a_truncated_gz(
    cut: int, tmp_path: Path, out: Path, tiermem: Callable[..., object]
) -> None:
    """A compressed trace that ends too early is refused as such, never read as a shorter one."""
    packed = gzip.compress("\n".join([GOOD, LATER] * 50).encode())
    trace = tmp_path / "cut.jsonl.gz"
    trace.write_bytes(packed[:-cut])
    line = complaint(tiermem(*simulation(trace, out)))
    assert "cut.jsonl.gz: " in line
    assert re.search(r"truncated|ends too early|damaged|incomplete|cut", line), line
    assert not out.exists()


def test_a_missing_trace(tmp_path: Path, out: Path, tiermem: Callable[..., object]) -> None:
    """Fault A22: a path that is not there is named; no other trace takes its place."""
    (tmp_path / "conversation.jsonl").write_text(GOOD + "\n")
    missing = tmp_path / "conversatoin.jsonl"
    line = complaint(tiermem(*simulation(missing, out)))
    assert str(missing) in line
    assert "did you mean" in line
    assert "conversation.jsonl'" in line
    line = complaint(tiermem(*simulation("synthetic-chatt", out)))
    assert "did you mean 'synthetic-chat'" in line
    assert not out.exists()


def test_a_folder_for_a_trace(tmp_path: Path, out: Path, tiermem: Callable[..., object]) -> None:
    """A folder is no trace, nor is a link that leads nowhere, nor an empty name."""
    assert str(tmp_path) in complaint(tiermem(*simulation(tmp_path, out)))
    assert "no trace was named" in complaint(tiermem(*simulation("", out)))
    loop, gone = tmp_path / "loop", tmp_path / "gone"
    loop.symlink_to(loop)
    gone.symlink_to(tmp_path / "absent")
    assert f"{loop}: cannot be read" in complaint(tiermem(*simulation(loop, out)))
    assert f"{gone}: the file that this link" in complaint(tiermem(*simulation(gone, out)))


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        ("--policy", "lruu", ["unknown policy 'lruu'", "did you mean 'lru'"]),
        ("--policy", "s3fifo:smal=0.2", ["'smal'", "did you mean 'small'"]),
        ("--policy", "s3fifo:small=7", ["small", "7"]),
        ("--policy", "no_such_file:Mine", ["no module 'no_such_file'"]),
        ("--policy", "lru:place=waterfal", ["'waterfal'", "did you mean 'waterfall'"]),
        ("--policy", "a:b:c", ["'a:b:c' is not NAME"]),
        ("--policy", "", ["is not NAME"]),
        ("--policy", "LRU", ["unknown policy 'LRU'", "did you mean 'lru'"]),
        ("--policy", "s3fifo:small=0.1:small=0.2", ["'small' is given twice"]),
        ("--policy", "lru:order=reverse:order=forward", ["'order' is given twice"]),
        ("--policy", "lru:small", ["'lru:small'", "lru:small=VALUE"]),
        ("--policy", "../mine:Policy", ["'../mine:Policy' names a path", "module:Class"]),
        ("--system", "laptop-nvm", ["unknown system 'laptop-nvm'", "did you mean 'laptop-nvme'"]),
        ("--system", "nowhere/x.toml", ["nowhere/x.toml"]),
        ("--llm", "qwen3-4", ["'qwen3-4'", "did you mean 'qwen3-4b'"]),
        ("--capacity", "dram=0", ["--capacity dram: ", "'0'", "at least one byte"]),
        ("--capacity", "dram=-4GiB", ["--capacity dram: ", "'-4GiB'"]),
        ("--capacity", "dram=4Gib", ["--capacity dram: ", "'4Gib'", "GiB"]),
        ("--capacity", "dram=nan", ["--capacity dram: ", "'nan'"]),
        ("--capacity", "drm=4GiB", ["error: --capacity: ", "'drm'", "did you mean 'dram'"]),
        ("--capacity", "DRAM=4GiB", ["error: --capacity: ", "'DRAM'", "did you mean 'dram'"]),
        ("--capacity", "dram=9999999TiB", ["--capacity dram: ", "too large"]),
        ("--capacity", "dram", ["--capacity: ", "TIER=SIZE"]),
        ("--capacity", "dram=1GiB,dram=2GiB", ["--capacity: ", "'dram' is given twice"]),
    ],
)
def test_a_wrong_value(
    option: str, wrong: str, said: list[str], out: Path, tiermem: Callable[..., object]
) -> None:
    """A name that is not there gets the nearest one; a size that is none is shown with its tier."""
    line = complaint(tiermem(*simulation("synthetic-chat", out, option, wrong)))
    for words in said:
        assert words in line, line
    assert not out.exists()


@pytest.mark.parametrize(
    "wrong", ["0", "000", "-5", "1.5", "many", "1000,,2000", "", "5,5", "9" * 20, "9" * 5000]
)
def test_a_wrong_capacity_of_hits(wrong: str, tiermem: Callable[..., object]) -> None:
    """Capacities of `hits` are whole numbers of blocks, at least 1, each once."""
    words = ["hits", "synthetic-chat", "--policy", "lru", "--json"]
    assert "--capacity" in complaint(tiermem(*words, f"--capacity={wrong}"))


@pytest.mark.parametrize("wrong", ["lru,lruu", "lru,,fifo", "belady:small=1", "infinit"])
def test_a_wrong_policy_of_hits(wrong: str, tiermem: Callable[..., object]) -> None:
    """One wrong name among several is found before anything is counted."""
    complaint(tiermem("hits", "synthetic-chat", "--policy", wrong, "--capacity", "10", "--json"))


def test_a_model_that_does_not_fit(out: Path, tiermem: Callable[..., object]) -> None:
    """Fault B31: weights that do not fit are refused with the arithmetic shown."""
    line = complaint(tiermem(*simulation("synthetic-chat", out, "--llm", "llama-3.1-70b")))
    assert "laptop-nvme" in line or "hbm" in line
    # 70,553,706,496 parameters of two bytes against 24 GB.
    assert "131 GiB" in line
    assert re.search(r"2[12](\.\d)? GiB|20(\.\d)? GiB", line), line
    assert not out.exists()


DOCUMENTS = {
    "systems": ("laptop-nvme", "--system"),
    "llms": ("qwen3-4b", "--llm"),
    "hardware": ("ddr5-4800-2ch", "--models"),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_an_unknown_key_in_a_document(
    kind: str, tmp_path: Path, out: Path, tiermem: Callable[..., object]
) -> None:
    """Faults A4 and F135: a misspelt key is an error with file, line, key and the nearest key."""
    name, option = DOCUMENTS[kind]
    text = (shipped.folder("models") / kind / f"{name}.toml").read_text()
    keys = re.findall(r"^([a-z_]{6,}) *=", text, re.MULTILINE)
    assert keys
    for place, key in enumerate(dict.fromkeys(keys)):
        wrong = key[:-2] + key[-1] + key[-2] + "x"
        folder = tmp_path / f"{place}"
        path = folder / kind / f"{name}.toml"
        path.parent.mkdir(parents=True)
        path.write_text(re.sub(rf"^{key}( *=)", rf"{wrong}\1", text, flags=re.MULTILINE))
        lines = [line.split("=")[0].strip() for line in path.read_text().splitlines()]
        given = folder if option == "--models" else path
        line = complaint(tiermem(*simulation("synthetic-chat", out, option, given)))
        assert f"{path}:{lines.index(wrong) + 1}: " in line
        assert wrong in line
        assert f"'{key}'" in line
    assert not out.exists()


def test_a_document_that_is_no_toml(
    tmp_path: Path, out: Path, tiermem: Callable[..., object]
) -> None:
    """A document that cannot be parsed is named with the line."""
    path = tmp_path / "mine.toml"
    path.write_text('name = "x"\nbroken = = 1\n')
    line = complaint(tiermem(*simulation("synthetic-chat", out, "--system", path)))
    assert f"{path}:2" in line


def test_a_folder_that_holds_something(
    tmp_path: Path, out: Path, tiermem: Callable[..., object]
) -> None:
    """Fault F140: results are never mixed; what was there stays as it was."""
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    line = complaint(tiermem(*simulation("synthetic-chat", out)))
    assert str(out) in line
    assert "not empty" in line
    line = complaint(tiermem(*simulation("synthetic-chat", out, "--overwrite")))
    assert "mine.txt" in line
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert (out / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_an_output_that_cannot_be_made(
    command: str, tmp_path: Path, tiermem: Callable[..., object]
) -> None:
    """A file in the place of the folder is found before any work is done."""
    (tmp_path / "file").write_text("x")
    words = simulation("synthetic-chat", tmp_path / "file" / "out")
    line = complaint(tiermem(command, *words[1:]))
    assert str(tmp_path / "file") in line
    (tmp_path / "loop").symlink_to("loop")
    words = simulation("synthetic-chat", tmp_path / "loop")
    assert str(tmp_path / "loop") in complaint(tiermem(command, *words[1:]))


def test_the_real_command(tmp_path: Path) -> None:
    """The same through `python -m tiermem`: one line, status 1, no folder, no traceback."""
    words = ["compare", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out")]
    ended = subprocess.run(
        [sys.executable, "-m", "tiermem", *words], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert re.fullmatch(r"tiermem: error: .*none\.jsonl: .*\n", ended.stderr)
    assert list(tmp_path.iterdir()) == []
