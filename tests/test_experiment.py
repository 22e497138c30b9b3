"""The whole way: a comparison refuses early, saves before it draws, and ends honestly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiermem import experiment, hits, registry
from tiermem.errors import AllRejected, DoesNotFit, InputError, TiermemError, UnknownName
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Waterfall
from tiermem.report import folder
from tiermem.scenario.simulation import capacities_for_kv
from tiermem.traces import synthetic
from tiermem.traces.trace import Trace

SYSTEM, LLM = "h100-ddr5-cxl-nvme", "llama-3.1-8b"
# A machine so small that a few requests fill it.
SMALL = {"dram": 2**30, "cxl": 2**30, "nvme": 2**31}
DATA = ("results.json", "verdict.json", "config.json", "digests.json", "table.md")


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Chat sessions, enough to evict from every tier of `SMALL`."""
    return synthetic.chat(requests=60, seed=3)


@pytest.fixture
def asked(trace: Trace, tmp_path: Path) -> dict[str, Any]:
    """The arguments of a comparison of two policies on a machine that is too small."""
    return question(trace) | {"out": tmp_path / "out"}


def question(trace: Trace) -> dict[str, Any]:
    """What is compared; where it goes is missing."""
    names = {"trace": trace, "system": SYSTEM, "llm": LLM, "capacities": SMALL}
    return {**names, "policies": ["lru", "fifo"], "kv_blocks": 3000}


@pytest.fixture(scope="module")
def first(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> folder.RunFolder:
    """That comparison, made once for all tests that only look at it."""
    out = tmp_path_factory.mktemp("first") / "out"
    return experiment.compare(**question(trace), out=out)


class Raises(LRU):
    """A policy with a bug that shows after a while."""

    def insert(self, block: int, size: int) -> None:
        super().insert(block, size)
        if block == 40:
            raise ValueError("no place for block 40")


@pytest.fixture
def buggy() -> Iterator[str]:
    registry.register("tiermem.evict", "buggy", Raises)
    yield "buggy"
    registry.register("tiermem.evict", "buggy", LRU)


def data(out: Path) -> dict[str, bytes]:
    """Every file of a run folder that has to be the same for the same run."""
    names = [*DATA, *(path.name for path in out.glob("*.parquet"))]
    return {name: (out / name).read_bytes() for name in names}


def test_every_request_and_token_is_accounted_for(first: folder.RunFolder, trace: Trace) -> None:
    """Generated = completed + rejected + unfinished, and sources sum to the trace's tokens."""
    assert [run["policy"] for run in first.runs] == ["lru", "fifo"]
    for run in first.runs:
        requests = run["requests"]
        assert requests["generated"] == len(trace)
        assert requests["completed"] + requests["rejected"] + requests["unfinished"] == len(trace)
        assert sum(run["prompt_tokens_by_source"].values()) == trace.prompt_tokens.sum()
        for tier in run["tiers"].values():
            assert tier["high_water_bytes"] <= tier["capacity_bytes"]
    assert len(first.frame()) == 2 * len(trace)
    assert len(first.figures) == 5


def test_results_are_saved_before_anything_is_drawn(asked: dict[str, Any]) -> None:
    """Checklist 52: when the figures begin, the folder can be loaded whole."""
    seen: list[tuple[int, int]] = []

    def look(saved: folder.RunFolder) -> None:
        loaded = folder.load(saved.path)
        seen.append((len(loaded.frame()), len(loaded.figures)))

    experiment.compare(**asked | {"policies": ["lru"]}, on_saved=look)
    assert seen == [(len(asked["trace"]), 0)]


def test_equal_runs_write_equal_bytes_in_any_number_of_processes(
    asked: dict[str, Any], first: folder.RunFolder
) -> None:
    """Checklist 13: the same seed and input give the same files, one process or two."""
    again = experiment.compare(**asked, n_jobs=2)
    assert data(again.path) == data(first.path)


def test_the_hash_seed_of_python_changes_nothing(trace: Trace, tmp_path: Path) -> None:
    """Checklist 13: byte-identical files under different PYTHONHASHSEED."""
    code = (
        "import sys; from tiermem import experiment; from tiermem.traces import synthetic;"
        "experiment.compare(trace=synthetic.chat(requests=60, seed=3), kv_blocks=3000,"
        "system='h100-share-ddr5-cxl-nvme', llm='llama-3.1-8b',"
        f"capacities={SMALL!r}, policies=['lru', 's3fifo'], out=sys.argv[1])"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, env=environment, check=True)
    assert data(tmp_path / "1") == data(tmp_path / "2")


def test_another_policy_changes_no_other_line(
    asked: dict[str, Any], first: folder.RunFolder
) -> None:
    """What one policy finds does not depend on which others are compared."""
    more = experiment.compare(**asked | {"policies": ["lru", "s3fifo", "fifo"]})
    few = (first.path / "results.json").read_text().splitlines()
    many = iter((more.path / "results.json").read_text().splitlines())
    assert all(line in many for line in few)


def test_hit_curves_are_those_of_hits(first: folder.RunFolder, trace: Trace) -> None:
    """The curves of a folder are exact counts, with both orders of LRU and every bound."""
    found = first.table("hits")
    assert set(found["policy"]) == {"lru", "fifo", "belady", "belady-bypass", "infinite"}
    assert set(found.loc[found["policy"] == "lru", "order"]) == {"reverse", "forward"}
    capacity = int(found["capacity_blocks"].min())
    (expected,) = hits.count(trace, ["lru"], [capacity], order="forward")
    rows = found[(found["policy"] == "lru") & (found["capacity_blocks"] == capacity)]
    (row,) = rows[rows["order"] == "forward"].to_dict("records")
    assert (row["block_hits"], row["prefix_hits"]) == (expected.block_hits, expected.prefix_hits)


def test_curves_reach_beyond_every_block_and_stop_at_the_tiers(asked: dict[str, Any]) -> None:
    """From a few blocks to more than there are; a tier's own capacity is among the points."""
    settings: experiment.Settings = {"capacities": SMALL, "kv_blocks": 3000}
    read = experiment.read(asked["trace"], SYSTEM, LLM, ["lru"], settings)
    capacities = experiment.curve_capacities(read)
    assert capacities[0] < 10 < read.trace.unique_blocks < capacities[-1]
    assert 12 <= len(capacities) <= 16
    block_bytes = read.trace.block_tokens * read.llm.kv_bytes_per_token
    rooms = capacities_for_kv(read.system, read.llm)
    assert rooms["nvme"] // block_bytes in capacities


def test_a_slow_policy_is_counted_at_fewer_capacities() -> None:
    """On a long trace a policy in a plain loop has fewer points, both ends among them."""
    capacities = list(range(1, 16))
    assert experiment.affordable("mine:Policy", capacities, 1000) == capacities
    assert experiment.affordable("lru", capacities, 10**9) == capacities
    few = experiment.affordable("mine:Policy", capacities, 10**9)
    assert len(few) == 5
    assert {1, 15} < set(few) <= set(capacities)


class Whole(Waterfall):
    """A whole policy: it decides for every tier, so it is no eviction order of one."""

    touch_order = "reverse"

    def __init__(self, capacities_bytes: dict[str, int]) -> None:
        super().__init__()
        orders = {tier: LRU(size) for tier, size in capacities_bytes.items()}
        self.evict = orders.__getitem__
        self.prefetch = registry.find("tiermem.prefetch", "none", kind="prefetch")().prefetch


def test_a_whole_policy_is_simulated_and_has_no_curve(asked: dict[str, Any]) -> None:
    """What decides over several tiers is compared, and is no line of the hit-rate figure."""
    registry.register("tiermem.policy", "whole", Whole)
    found = experiment.compare(**asked | {"policies": ["whole"]})
    assert [run["policy"] for run in found.runs] == ["whole"]
    assert "whole" not in set(found.table("hits")["policy"])
    assert found.results["failed"] == []


def test_a_larger_lower_tier_is_faster(asked: dict[str, Any], first: folder.RunFolder) -> None:
    """Fault 29: when hits change, TTFT changes with them."""
    small = first.runs[0]
    large = asked | {"capacities": SMALL | {"dram": 2**37}, "policies": ["lru"]}
    grown = experiment.compare(**large).runs[0]
    assert grown["hit_share"] > small["hit_share"]
    assert grown["ttft_s"]["mean"] < small["ttft_s"]["mean"]


def test_a_policy_that_raises_is_named_and_the_others_finish(
    asked: dict[str, Any], buggy: str, tmp_path: Path
) -> None:
    """Checklist 36: named with message, file and line; results and figures of the others."""
    with pytest.raises(TiermemError, match=r"policy buggy raised ValueError: no place") as caught:
        experiment.compare(**asked | {"policies": ["lru", buggy, "fifo"]})
    assert "\n" not in str(caught.value)
    found = folder.load(tmp_path / "out")
    assert [run["policy"] for run in found.runs] == ["lru", "fifo"]
    assert [fail["policy"] for fail in found.results["failed"]] == [buggy]
    assert "FAILED: buggy" in (tmp_path / "out/table.md").read_text()
    assert len(found.figures) == 5
    tracebacks = json.loads((tmp_path / "out/run.json").read_text())["tracebacks"]
    assert "no place for block 40" in tracebacks[buggy]


def test_when_every_policy_raises_there_is_no_folder(
    asked: dict[str, Any], buggy: str, tmp_path: Path
) -> None:
    """Nothing was found, so nothing is written."""
    with pytest.raises(TiermemError, match="policy buggy raised"):
        experiment.compare(**asked | {"policies": [buggy]})
    assert list(tmp_path.iterdir()) == []


def test_nobody_served_still_leaves_a_folder(asked: dict[str, Any], tmp_path: Path) -> None:
    """Fault 34: the same schema with zero counts, figures, and an error at the end."""
    trace = synthetic.uniform(
        requests=3, prompt_tokens=200_000, output_tokens=5, rate_per_s=1.0, seed=1
    )
    with pytest.raises(AllRejected, match="every request was rejected"):
        experiment.compare(**asked | {"trace": trace})
    found = folder.load(tmp_path / "out")
    for run in found.runs:
        assert run["requests"]["rejected"] == 3
        assert run["prompt_tokens_by_source"]["rejected"] == 600_000
        assert run["ttft_s"]["mean"] is None
    assert len(found.figures) == 5


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"policies": ["lru", "lur"]}, UnknownName, "did you mean 'lru'"),
        ({"policies": ["lru", "lru"]}, InputError, "'lru' is named twice"),
        ({"policies": []}, InputError, "no policy"),
        ({"policies": ["s3fifo:smal=0.2"]}, InputError, "smal"),
        ({"policies": ["lru:order=sideways"]}, InputError, "sideways"),
        ({"system": "h100-ddr5-cxl-nmve"}, UnknownName, "h100-ddr5-cxl-nvme"),
        ({"llm": "llama-3.1-8c"}, UnknownName, "llama-3.1-8b"),
        ({"llm": "llama-3.1-405b", "kv_blocks": None}, DoesNotFit, "GiB"),
        ({"capacities": {"drma": 5}}, UnknownName, "dram"),
        ({"capacities": {"dram": 0}}, InputError, "dram"),
        ({"trace": "no-such-trace"}, InputError, "no-such-trace"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    asked: dict[str, Any], tmp_path: Path, changes: Any, error: type[TiermemError], said: str
) -> None:
    """One line that names the mistake, and no folder."""
    with pytest.raises(error, match=said) as caught:
        experiment.compare(**asked | changes)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_not_there_is_refused(asked: dict[str, Any]) -> None:
    """Fault 135: a misspelt setting never runs the defaults."""
    with pytest.raises(TypeError, match="'capcities'"):
        experiment.compare(**asked | {"capcities": {}})


def test_a_full_folder_is_refused_before_simulating(
    asked: dict[str, Any], tmp_path: Path, buggy: str
) -> None:
    """The folder is looked at first: a policy that would raise is never run."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(TiermemError, match="not empty"):
        experiment.compare(**asked | {"policies": [buggy]})


def test_values_will_do_for_names(asked: dict[str, Any], tmp_path: Path) -> None:
    """A trace, a system and a model that were made already are taken as they are."""
    read = experiment.read(asked["trace"], SYSTEM, LLM, ["lru"], {})
    renamed = replace(read.trace, name="renamed")
    found = experiment.simulate_to(
        trace=renamed,
        system=read.system,
        llm=read.llm,
        policy="lru",
        out=tmp_path / "one",
    )
    assert found.results["trace"]["name"] == "renamed"
    assert [run["policy"] for run in found.runs] == ["lru"]
    with pytest.raises(InputError, match="capacities"):
        experiment.compare(**asked | {"system": read.system, "kv_blocks": None})
