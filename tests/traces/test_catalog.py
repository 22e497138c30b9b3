"""Traces by name, and the traces that are shipped."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tiermem import shipped
from tiermem.errors import InputError, UnknownName
from tiermem.hits import count
from tiermem.traces import catalog, container, mooncake, sidecar, synthetic


def test_every_entry_opens_and_is_what_it_says() -> None:
    """Each shipped file is there, has the digest of the catalogue, and is below 200 kB."""
    entries = catalog.load().trace
    assert [each["name"] for each in catalog.rows()] == sorted(entries)
    for name, entry in entries.items():
        trace = catalog.open_trace(name)
        assert (trace.name, trace.digest) == (name, entry.digest)
        assert trace.synthetic == entry.synthetic
        assert (shipped.folder("traces") / entry.file).stat().st_size < 200_000


def test_every_shipped_file_is_in_the_catalogue() -> None:
    """Nothing lies in traces/ without a name, and what is synthetic is called so."""
    entries = catalog.load().trace
    files = {entry.file for entry in entries.values()}
    beside = {sidecar.path_of(Path(file)).name for file in files}
    there = {path.name for path in shipped.folder("traces").iterdir()}
    assert there == files | beside | {"catalog.toml", "README.md"}
    for name, entry in entries.items():
        if entry.synthetic:
            assert "synthetic" in name
            assert "synthetic" in entry.file
            assert "SYNTHETIC" in entry.description
            assert entry.command


def test_the_shipped_chat_is_what_its_command_makes(tmp_path: Path) -> None:
    """The recorded command and seed give the shipped content again, byte by byte."""
    entry = catalog.load().trace["synthetic-chat"]
    assert entry.command
    words = shlex.split(entry.command)
    assert words[:5] == ["tiermem", "trace", "synth", "--kind", "chat"]
    options = dict(zip(words[5::2], words[6::2], strict=True))
    trace = synthetic.chat(requests=int(options["--requests"]), seed=int(options["--seed"]))
    mooncake.write(trace, tmp_path / options["--out"])
    folder = shipped.folder("traces")
    assert container.load(tmp_path / entry.file) == container.load(folder / entry.file)
    again, kept = (sidecar.path_of(place / entry.file) for place in (tmp_path, folder))
    assert again.read_text() == kept.read_text()


def test_the_recorded_chat_is_a_recording() -> None:
    """At least 100 sessions of chat and tools with a real model, said in the sidecar; and a load
    of which no policy gets all the reuse in a quarter of its blocks."""
    trace = catalog.open_trace("smollm2-chat")
    told = trace.meta["recorded"]
    assert not trace.synthetic
    assert told["sessions"] >= 100
    assert {"chat", "tools", "tool result"} <= set(told["kinds"])
    assert told["model"] == told["tokenizer"] == "SmolLM2-135M-Instruct"
    assert told["machine"]
    assert 0 < told["queued_s"]["p50"] <= told["ttft_s"]["p50"] <= told["total_s"]["p50"]
    assert trace.block_tokens == 16
    small = trace.unique_blocks // 4
    lru, best = (row.block_hits for row in count(trace, ["lru", "belady"], [small]))
    assert lru < best < trace.references - trace.unique_blocks


def test_the_shipped_chat_exercises_lower_tiers() -> None:
    """Unique blocks are many times what one GPU holds, and the load is one that a GPU serves."""
    trace = catalog.open_trace("synthetic-chat")
    hbm_blocks = 55 * 2**30 // (512 * 131_072)  # Llama-3.1-8B beside its weights on 80 GB
    assert trace.unique_blocks > 8 * hbm_blocks
    assert trace.largest_request_blocks < hbm_blocks / 3
    assert 0.5 < 1 - trace.unique_blocks / trace.references < 0.75
    assert int(trace.prompt_tokens.sum()) * 1e9 / trace.duration_ns < 25_000


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is opened whatever the catalogue has; a folder of that name is not in the way."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("synthetic-chat")
    assert len(catalog.open_trace("synthetic-chat")) == 3000
    os.rmdir("synthetic-chat")
    small = synthetic.uniform(
        requests=3, prompt_tokens=40, output_tokens=1, rate_per_s=1, seed=1, block_tokens=16
    )
    mooncake.write(small, "t.jsonl")
    os.rename("t.jsonl", "synthetic-chat")
    os.rename("t.jsonl.meta.json", "synthetic-chat.meta.json")
    assert catalog.open_trace("synthetic-chat").digest == small.digest
    assert catalog.open_trace(Path("synthetic-chat")).block_tokens == 16
    with pytest.raises(InputError, match="a block size of 16 tokens fits every line"):
        catalog.open_trace("synthetic-chat", block_tokens=512)


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("synthetic-caht", "did you mean 'synthetic-chat'?"),
        ("conversation.jsonl.gz", "did you mean 'conversatoin.jsonl.gz'?"),
        ("zzz", "the catalogue has smollm2-chat, synthetic-chat"),
        ("no/such/folder/t.jsonl", "the catalogue has smollm2-chat, synthetic-chat"),
        ("x" * 5000, "no such file"),
        ("a\0b", "no such file"),
        (".", "this is a folder"),
    ],
)
def test_nothing_is_put_in_the_place_of_a_missing_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str, words: str
) -> None:
    """A path that does not exist is an error that names it and the nearest name or file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conversatoin.jsonl.gz").touch()
    with pytest.raises(InputError) as error:
        catalog.open_trace(ref)
    assert str(error.value).startswith(ref or ".")
    assert words in str(error.value)


def test_a_file_that_is_not_the_catalogued_one_is_refused(tmp_path: Path) -> None:
    """When the content differs from the digest in the catalogue, nothing is opened."""
    text = (shipped.folder("traces") / "catalog.toml").read_text()
    (tmp_path / "catalog.toml").write_text(text)
    trace = synthetic.chat(requests=10, seed=1)
    mooncake.write(trace, tmp_path / "synthetic-chat.jsonl.gz")
    with pytest.raises(InputError, match=f"the content is {trace.digest}, the catalogue says"):
        catalog.open_trace("synthetic-chat", folder=tmp_path)


def test_unknown_keys_of_the_catalogue_are_refused(tmp_path: Path) -> None:
    """A misspelt key names file, line and the nearest valid key."""
    text = (shipped.folder("traces") / "catalog.toml").read_text()
    (tmp_path / "catalog.toml").write_text(text.replace("reader =", "raeder ="))
    with pytest.raises(
        UnknownName, match=r"catalog\.toml:\d+: .*'raeder'; did you mean 'reader'\?"
    ):
        catalog.load(tmp_path)
