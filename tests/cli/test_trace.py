"""`tiermem trace info` and `tiermem trace synth`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiermem.traces import mooncake

ROWS = [
    {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 2000, "input_length": 700, "output_length": 7, "hash_ids": [0, 2]},
]
UNIFORM = {
    "--kind": "uniform",
    "--requests": 40,
    "--prompt-tokens": 1000,
    "--output-tokens": 20,
    "--rate": 5.5,
    "--seed": 3,
}


def words(options: dict[str, object], out: Path) -> list[object]:
    pairs = [item for pair in options.items() for item in pair]
    return ["trace", "synth", *pairs, "--out", out]


def test_info_counts_a_trace(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """Two requests of two blocks, the first shared: 4 references, 3 blocks, a ceiling of 1/4."""
    trace = tmp_path / "two.jsonl"
    trace.write_text("\n".join(map(json.dumps, ROWS)))
    ended = tiermem("trace", "info", trace, "--json")
    assert (ended.status, ended.stderr) == (0, "")
    found = ended.document
    assert (found["requests"], found["references"], found["unique_blocks"]) == (2, 4, 3)
    assert found["reuse"]["hit_ratio_max"] == 0.25
    assert found["duration_s"] == 2.0
    assert found["prompt_tokens"]["total"] == 1300
    shown = tiermem("trace", "info", trace).stdout
    assert "requests" in shown
    assert "0.25" in shown


def test_info_says_who_says_synthetic(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A bare file is not marked; JSON keeps its boolean; a file with a sidecar has an answer."""

    def shown(trace: object) -> str:
        lines = tiermem("trace", "info", trace).stdout.splitlines()
        return next(line.split(maxsplit=1)[1].strip() for line in lines if "synthetic  " in line)

    trace = tmp_path / "two.jsonl"
    trace.write_text("\n".join(map(json.dumps, ROWS)))
    assert shown(trace) == "not marked"
    assert tiermem("trace", "info", trace, "--json").document["synthetic"] is False
    assert shown("synthetic-chat") == "yes"
    opened = mooncake.read(trace)
    mooncake.write(opened, tmp_path / "recorded.jsonl")
    assert shown(tmp_path / "recorded.jsonl") == "no"


def test_info_takes_a_block_size(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A block size that cannot explain the ids is refused; the one that fits is proposed."""
    trace = tmp_path / "sixteen.jsonl"
    trace.write_text(
        json.dumps({"timestamp": 0, "input_length": 40, "output_length": 1, "hash_ids": [0, 1, 2]})
    )
    refused = tiermem("trace", "info", trace)
    assert refused.status == 1
    assert "16" in refused.stderr
    fitting = tiermem("trace", "info", trace, "--block-tokens", 16, "--json")
    assert fitting.document["block_tokens"] == 16


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_synth_uniform(suffix: str, tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """Unique prompts: as many blocks as references, and the file says that it is synthetic."""
    out = tmp_path / f"made{suffix}"
    assert tiermem(*words(UNIFORM, out)).status == 0
    found = tiermem("trace", "info", out, "--json").document
    assert (found["requests"], found["synthetic"]) == (40, True)
    assert found["references"] == found["unique_blocks"] == 80
    assert found["prompt_tokens"]["total"] == 40_000
    assert found["output_tokens"]["total"] == 800


def test_synth_chat(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """Chat sessions share blocks; parameters of the generator can be set by name."""
    out = tmp_path / "chat.jsonl"
    options = {"--kind": "chat", "--requests": 60, "--seed": 1, "--set": "burst_cv=1"}
    assert tiermem(*words({**options, "--rate": 2}, out)).status == 0
    found = tiermem("trace", "info", out, "--json").document
    assert found["references"] > found["unique_blocks"]
    assert found["meta"]["parameters"]["burst_cv"] == 1
    assert found["meta"]["parameters"]["sessions_per_s"] == 2


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A trace is its parameters and its seed; another seed gives another."""
    files = [tmp_path / f"{name}.jsonl.gz" for name in "abc"]
    for out, seed in zip(files, (3, 3, 4), strict=True):
        assert tiermem(*words({**UNIFORM, "--seed": seed}, out)).status == 0
    first, second, other = (out.read_bytes() for out in files)
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--rate": None}, "--rate: --kind uniform needs it"),
        ({"--prompt-tokens": None}, "--prompt-tokens: --kind uniform needs it"),
        ({"--set": "burst_cv=1"}, "--set: --kind uniform has no such parameter"),
        ({"--kind": "chat"}, "--prompt-tokens: --kind chat has no such parameter"),
        ({"--rate": 0}, "rate"),
        ({"--rate": "nan"}, "rate"),
        ({"--rate": -1}, "rate"),
    ],
)
def test_synth_refuses_what_has_no_meaning(
    change: dict[str, object], said: str, tmp_path: Path, tiermem: Callable[..., Any]
) -> None:
    """An option without an effect is a mistake, and so is a generator without its numbers."""
    options = {k: v for k, v in {**UNIFORM, **change}.items() if v is not None}
    ended = tiermem(*words(options, tmp_path / "x.jsonl"))
    assert ended.status == 1
    assert said in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_synth_names_a_wrong_parameter(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A misspelt parameter of the generator gets the nearest."""
    options = {"--kind": "chat", "--requests": 5, "--set": "burst_vc=1"}
    ended = tiermem(*words(options, tmp_path / "x.jsonl"))
    assert ended.status == 1
    assert "did you mean 'burst_cv'" in ended.stderr
    ended = tiermem(*words({**options, "--set": "burst_cv"}, tmp_path / "x.jsonl"))
    assert "KEY=VALUE" in ended.stderr
    twice = tiermem(*words({**options, "--set": "burst_cv=1"}, tmp_path / "x"), "--set=burst_cv=2")
    assert (twice.status, twice.stderr) == (
        1,
        "tiermem: error: --set: 'burst_cv' is given twice\n",
    )
    options = {**options, "--set": "sessions_per_s=1", "--rate": 2}
    assert "say the same thing" in tiermem(*words(options, tmp_path / "x.jsonl")).stderr


def test_synth_keeps_what_is_there(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A file is replaced only when that is asked for; another suffix is refused."""
    out = tmp_path / "x.jsonl"
    out.write_text("precious")
    assert "--overwrite" in tiermem(*words(UNIFORM, out)).stderr
    assert out.read_text() == "precious"
    assert tiermem(*words(UNIFORM, out), "--overwrite").status == 0
    assert out.read_text() != "precious"
    assert ".jsonl" in tiermem(*words(UNIFORM, tmp_path / "x.csv")).stderr
    assert not (tmp_path / "x.csv").exists()


def test_record_makes_a_trace_of_a_log(tmp_path: Path, tiermem: Callable[..., Any]) -> None:
    """A log in, a described trace out that the other commands take; nothing is overwritten."""
    text = (
        '{"session": "a", "turn": 1, "kind": "chat", "arrival_s": 5.0, "prompt_tokens": 20, '
        '"output_tokens": 3, "loaded_tokens": 0, "queued_s": 0, "ttft_s": 1, "total_s": 2, '
        '"model": "tiny", "block_tokens": 16, "blocks": ["ab"]}\n'
    )
    log, out = tmp_path / "chat.log.jsonl", tmp_path / "chat.jsonl.gz"
    log.write_text('{"run": {}}\n' + text + '{"ses')
    ended = tiermem("trace", "record", log, out)
    assert (ended.status, ended.stdout) == (0, f"{out}: 1 requests of 1 sessions, recorded\n")
    assert "cut short" in ended.stderr
    shown = tiermem("trace", "info", out, "--json").document
    assert (shown["block_tokens"], shown["synthetic"]) == (16, False)
    assert shown["meta"]["recorded"]["model"] == "tiny"
    again = tiermem("trace", "record", log, out)
    assert again.status == 1
    assert "--overwrite" in again.stderr
    log.write_text(text.replace('"turn": 1', '"turn": 0'))
    wrong = tiermem("trace", "record", log, out, "--overwrite")
    assert (wrong.status, "chat.log.jsonl:1: turn:" in wrong.stderr) == (1, True)
