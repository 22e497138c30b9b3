"""What a result was made from: complete, JSON, and apart from what changes between runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tiermem.models import presets
from tiermem.report import origin
from tiermem.traces import synthetic


@dataclass(frozen=True)
class Inner:
    size_bytes: int
    _cache: int = 5


@dataclass(frozen=True)
class Outer:
    name: str
    parts: tuple[Inner, ...]
    more: Mapping[str, float]
    computed: int = field(init=False, default=3)


def test_a_value_is_described_by_what_it_was_made_from() -> None:
    """Fields at every depth; nothing computed or private."""
    made = Outer("x", (Inner(1), Inner(2)), MappingProxyType({"b": 0.5}))
    assert origin.describe(made) == {
        "name": "x",
        "parts": [{"size_bytes": 1}, {"size_bytes": 2}],
        "more": {"b": 0.5},
    }


def test_the_configuration_is_whole_and_knows_no_machine() -> None:
    """System, model, trace, policies and assumptions as strict JSON; no path of this computer."""
    trace = synthetic.uniform(
        requests=3, prompt_tokens=900, output_tokens=5, rate_per_s=1.0, seed=1
    )
    system, llm = presets.system("h100-ddr5-cxl-nvme"), presets.llm("llama-3.1-8b")
    about = origin.about(trace, system, llm, seed=7)
    found = origin.config(about, system, llm, ["lru"], {"hbm": 5})
    text = json.dumps(found, allow_nan=False)
    assert str(Path(presets.__file__).parent.parent) not in text
    assert found["seed"] == 7
    assert found["trace"]["digest"] == trace.digest
    assert found["trace"]["prompt_tokens"] == 2700
    assert found["trace"]["recorded"] is None
    assert [tier["name"] for tier in found["system"]["topology"]["tiers"]] == list(
        system.topology.names
    )
    assert found["system"]["assumptions"] == list(system.assumptions)
    assert found["llm"]["layers"] == 32
    assert found["kv_capacities_bytes"] == {"hbm": 5}


def test_a_recording_says_what_answered() -> None:
    """Model and machine of the sidecar, in one text."""
    made = synthetic.uniform(requests=3, prompt_tokens=9, output_tokens=5, rate_per_s=1.0, seed=1)
    told = {"recorded": {"model": "tiny", "machine": "a laptop"}}
    trace = dataclasses.replace(made, synthetic=False, meta=told)
    system, llm = presets.system("h100-ddr5-cxl-nvme"), presets.llm("llama-3.1-8b")
    assert origin.about(trace, system, llm, seed=7)["trace"]["recorded"] == "tiny on a laptop"


def test_what_differs_between_equal_runs_is_in_the_process() -> None:
    """Command, host, versions and wall clock have one place."""
    found = origin.process({"lru": 1.23456}, "2000-01-01T00:00:00+00:00")
    assert {"command", "host", "python", "versions", "wall_s", "started"} <= set(found)
    assert found["wall_s"] == {"lru": 1.235}
    assert found["versions"]["numpy"]
    json.dumps(found, allow_nan=False)
