"""Provenance: every shipped number has a source, and what is unsure is said."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiermem import shipped
from tiermem.models.assembly import hardware_numbers
from tiermem.models.documents import Hardware
from tiermem.models.presets import llm_numbers, system
from tiermem.models.provenance import Number, assumptions
from tiermem.models.sheet import read

MODELS = shipped.folder("models")
FILES = sorted(MODELS.glob("*/*.toml"))
LABELS = {"name", "hardware", "ends", "kind", "description", "note"}


def stated(table: dict[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of each number in a parsed file; members of an array go by their name."""
    for key, value in table.items():
        if key in LABELS or (not place and key == "source"):
            continue
        if isinstance(value, dict):
            yield from stated(value, (*place, key))
        elif isinstance(value, list):
            for member in value:
                yield from stated(member, (*place, key, member["name"]))
        else:
            yield (*place, key)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_number_has_a_source(path: Path) -> None:
    """Each number of each file in models/ stands again in [source], with words."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    silent = []
    for place in stated(table):
        said: Any = table.get("source", {})
        for part in place:
            said = said.get(part, {})
        if not (said.get("source") and said.get("confidence")):
            silent.append(place)
    assert silent == []


def test_there_are_files_to_check() -> None:
    """The test above looked at hardware, systems and models."""
    assert {path.parent.name for path in FILES} == {"hardware", "systems", "llms"}
    assert len(list(stated(tomllib.loads(FILES[0].read_text(encoding="utf-8"))))) >= 3


def test_hardware_files_pass_their_own_check() -> None:
    """Each hardware file loads, and each of its numbers has its confidence."""
    for path in sorted((MODELS / "hardware").glob("*.toml")):
        numbers = hardware_numbers(read(path, Hardware))
        assert numbers
        assert "unstated" not in {number.confidence for number in numbers}, path.name


def test_only_unsure_numbers_are_assumptions() -> None:
    """Remembered, chosen and unstated values are told; read, derived and given ones are not."""
    numbers = [
        Number("dram.capacity", 2**36, "chosen", "half of it"),
        Number("hbm.latency_ns", 500, "memory", "unconfirmed"),
        Number("nvme.count", 2, "unstated", "no source given"),
        Number("pcie.full_duplex", True, "memory", "usual"),
        Number("hbm.capacity", 2**36, "read", "a datasheet"),
        Number("cxl.capacity_bytes", 2**36, "given", "set by the caller"),
        Number("cxl.latency_ns", 212, "derived", "a sum"),
        Number("cxl.read_bytes_per_s", 36e9, "secondary", "coverage"),
    ]
    assert assumptions(numbers) == (
        "dram.capacity = 64 GiB (chosen: half of it)",
        "hbm.latency_ns = 500 (memory: unconfirmed)",
        "nvme.count = 2 (unstated: no source given)",
        "pcie.full_duplex = true (memory: usual)",
    )


def test_a_system_tells_the_provenance_of_its_hardware() -> None:
    """Numbers from hardware files and from the system itself are listed under the tier's name."""
    numbers = {number.key: number for number in system("h100x4-ddr5-cxl-nvme").numbers}
    assert numbers["hbm.compute.flops_per_s"].value == 989e12
    assert "aiconfigurator" in numbers["hbm.compute.flops_per_s"].source
    assert numbers["hbm.parallel_efficiency"].confidence == "derived"
    assert numbers["dram.capacity"].confidence == "chosen"
    assert numbers["pcie.setup_ns"].value == 3600
    assert numbers["engine.usable_fraction"].value == 0.9


def test_a_model_tells_the_provenance_of_its_numbers() -> None:
    """All of Qwen3-4B's shape is remembered, and says so."""
    numbers = {number.key: number for number in llm_numbers("qwen3-4b")}
    assert numbers["model.head_dim"].confidence == "memory"
    assert {number.key for number in llm_numbers("deepseek-v3")} >= {
        "latent.kv_lora_rank",
        "experts.dense_layers",
        "model.weight_element_bytes",
    }
