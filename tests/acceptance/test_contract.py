"""The contract of the main job, line by line, where one small check can say it.

`tests/acceptance/README.md` lists every line and the test or command that stands for it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiermem
import tiermem.testing
from tiermem import registry
from tiermem.cli import main
from tiermem.models import presets

ROOT = Path(__file__).resolve().parent.parent.parent

Command = Callable[..., Any]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`command("list", "llms", "--json")` is what the command prints, as JSON if it says so."""

    def run(*words: object) -> Any:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 0
        text = capsys.readouterr().out
        return json.loads(text) if "--json" in words else text

    return run


def test_1_the_project() -> None:
    """The five folders beside pyproject.toml, hatchling, Apache-2.0, torch only as an extra."""
    for name in (
        "tiermem",
        "models",
        "traces",
        "experiments",
        "tests",
        "docs",
        "benchmarks",
        ".ci",
    ):
        assert (ROOT / name).is_dir(), name
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert document["build-system"]["build-backend"] == "hatchling.build"
    project = document["project"]
    assert project["requires-python"] == ">=3.11"
    assert not [line for line in project["dependencies"] if re.match("torch|kvikio", line)]
    assert project["optional-dependencies"]["runtime"] == ["torch==2.13.0"]
    assert (ROOT / "LICENSE").read_text().count("TERMS AND CONDITIONS") == 2
    assert {"ruff", "mypy"} <= set(document["tool"])


SYSTEMS = (
    *("h100-ddr5-cxl-nvme", "h100x4-ddr5-cxl-nvme", "h100-cxlpim-csd"),
    *("h200-ddr5-nvme", "a100-ddr5-nvme", "laptop-nvme"),
)


def test_3_descriptions(command: Command) -> None:
    """The named systems and models, and exact KV bytes per token for each kind of attention."""
    assert set(SYSTEMS) <= {row["name"] for row in command("list", "systems", "--json")["rows"]}
    rows = {row["name"]: row for row in command("list", "llms", "--json")["rows"]}
    # By hand: 2 x 80 layers x 8 heads x 128 x 2 bytes; 61 layers x (512 + 64) x 2 bytes;
    # 2 x 36 layers x 8 heads x 128 (set apart from 2560 / 32) x 2 bytes.
    wanted = {"llama-3.1-70b": 327_680, "deepseek-v3": 70_272, "qwen3-4b": 147_456}
    assert {name: rows[name]["kv_bytes_per_token"] for name in wanted} == wanted


def test_3_four_tensor_parallel_gpus() -> None:
    """Four GPUs are an ideal fourfold with one efficiency, and one tier."""
    one, four = (presets.system(f"{name}-ddr5-cxl-nvme").topology for name in ("h100", "h100x4"))
    assert four.tiers[0].capacity_bytes == 4 * one.tiers[0].capacity_bytes
    alone, group = one.tiers[0].compute, four.tiers[0].compute
    assert alone is not None
    assert group is not None
    speed = group.gemm_flops_per_s / (4 * alone.gemm_flops_per_s)
    assert speed == pytest.approx(group.parallel_efficiency)
    assert 0.5 < speed < 1


def test_3_every_number_has_its_source() -> None:
    """Each value of each system carries its confidence and its source."""
    for name in SYSTEMS:
        numbers = presets.system(name).numbers
        assert len(numbers) > 10
        assert all(number.source for number in numbers if number.confidence != "memory")


def shipped_synthetic(command: Command) -> Any:
    """The row of the trace that was generated."""
    [row] = [row for row in command("list", "traces", "--json")["rows"] if row["synthetic"]]
    return row


def test_4_the_shipped_trace_is_synthetic(command: Command) -> None:
    """The trace that was generated says so in its name, its metadata and its row."""
    row = shipped_synthetic(command)
    assert row["synthetic"] is True
    assert "synthetic" in row["name"]
    assert "synthetic" in row["description"].lower()
    assert command("trace", "info", row["name"], "--json")["synthetic"] is True


def test_4_the_shipped_trace_can_be_made_again(command: Command, tmp_path: Path) -> None:
    """The command in the catalogue gives the shipped file, byte for byte."""
    row = shipped_synthetic(command)
    words = row["command"].split()
    assert words[0] == "tiermem"
    out = tmp_path / row["file"]
    words[words.index("--out") + 1] = str(out)
    command(*words[1:])
    assert out.read_bytes() == (ROOT / "traces" / row["file"]).read_bytes()


def test_4_nothing_recorded_is_shipped(shared: Path) -> None:
    """No file of the recorded traces is among those of this project."""
    recorded = {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (shared / "traces").rglob("*")
        if path.is_file()
    }
    ours = [
        path
        for name in ("traces", "models", "tests", "tiermem", "docs")
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.stat().st_size
    ]
    assert [p for p in ours if hashlib.sha256(p.read_bytes()).hexdigest() in recorded] == []


def test_6_built_in_policies_are_entry_points(command: Command) -> None:
    """The policies of the list are those of the entry points, and the three bounds."""
    rows = command("list", "policies", "--json")["rows"]
    bounds = {"belady", "belady-bypass", "infinite"}
    assert {row["name"] for row in rows} - bounds == set(registry.names("tiermem.evict"))
    assert bounds | {"lru", "fifo", "lfu", "s3fifo"} <= {row["name"] for row in rows}


def test_6_a_policy_in_twenty_lines() -> None:
    """docs/extending.md shows a whole policy of at most twenty lines; its text is run as it is."""
    text = (ROOT / "docs" / "extending.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    whole = [code for code in examples if {"insert", "touch", "remove", "victims"} <= methods(code)]
    classes = [code[code.index("class ") :].strip() for code in whole]
    assert classes
    assert min(len(code.splitlines()) for code in classes) <= 20


def methods(code: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}


def test_7_a_request_above_the_context_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is counted, named in a warning and booked under `rejected`; the run ends with 0."""
    trace, out = tmp_path / "two.jsonl", tmp_path / "out"
    rows = [(0, 600, [0, 1]), (1000, 50_000, list(range(2, 100)))]  # qwen3-4b reads 40,960
    keys = ("timestamp", "input_length", "hash_ids")
    lines = [json.dumps({**dict(zip(keys, row, strict=True)), "output_length": 5}) for row in rows]
    trace.write_text("\n".join(lines))
    words = ["--system", "laptop-nvme", "--llm", "qwen3-4b", "--policy", "lru", "--out", str(out)]
    assert main(["simulate", str(trace), *words]) == 0
    assert "request 1 rejected" in capsys.readouterr().out.replace("\n", " ")
    [run] = json.loads((out / "results.json").read_text())["runs"]
    assert run["requests"] == {"generated": 2, "completed": 1, "rejected": 1, "unfinished": 0}
    assert run["prompt_tokens_by_source"]["rejected"] == 50_000
    assert run["prompt_tokens_by_source"]["recompute"] == 600


def test_8_results_are_what_scripts_rely_on(tmp_path: Path) -> None:
    """The keys of results.json, the sources, and the files of a run folder."""
    trace, out = str(tmp_path / "chat.jsonl"), tmp_path / "out"
    made = ["trace", "synth", "--kind", "chat", "--requests", "60", "--seed", "4", "--out", trace]
    assert main(made) == 0
    machine = ["--system", "laptop-nvme", "--llm", "qwen3-4b"]
    assert main(["compare", trace, *machine, "--policy", "lru,fifo", "--out", str(out)]) == 0
    found = json.loads((out / "results.json").read_text())
    for run in found["runs"]:
        assert set(run["requests"]) == {"generated", "completed", "rejected", "unfinished"}
        sources = {"hbm", "dram", "nvme", "recompute", "rejected", "not_served"}
        assert set(run["prompt_tokens_by_source"]) == sources
        for latency in (run["ttft_s"], run["tpot_s"]):
            assert {"mean", "p50", "p95", "p99", "n"} <= set(latency)
    assert not {"command", "host"} & set(found)
    assert {"command", "host"} <= set(json.loads((out / "run.json").read_text()))
    assert {"config.json", "requests.parquet"} <= {path.name for path in out.iterdir()}
    # Line 9: the five figures, none of them empty.
    assert len(list(out.glob("*.png"))) == 5
    assert min(path.stat().st_size for path in out.glob("*.png")) > 10_000
    frame = tiermem.load(out).frame()
    assert set(frame["policy"]) == {"lru", "fifo"}
    assert len(frame) == 2 * 60


def test_executors_are_public() -> None:
    """`InstantExecutor` and `ScriptedExecutor` are part of the package."""
    assert tiermem.testing.InstantExecutor.__doc__
    assert tiermem.testing.ScriptedExecutor.__doc__


def test_the_map_leads_to_tests() -> None:
    """Each test that tests/acceptance/README.md names is there."""
    text = (ROOT / "tests" / "acceptance" / "README.md").read_text()
    named = re.findall(r"`((?:tests|benchmarks|\.ci)/[^`:]+)(?:::(\w+))?`", text)
    assert len(named) > 20
    for path, name in named:
        assert (ROOT / path).exists(), path
        if name:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
