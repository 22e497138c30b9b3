"""Machines and models by name or from a file: `system(...)` and `llm(...)`.

Names are files: `models/systems/NAME.toml`, `models/llms/NAME.toml`, and the hardware they refer to
in `models/hardware/NAME.toml`. A folder of one's own is searched before the shipped one. Only the
files that are needed are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiermem import shipped
from tiermem.errors import DoesNotFit, InputError, UnknownName
from tiermem.models.assembly import assemble, hardware_numbers
from tiermem.models.documents import Hardware, LLMSheet, SystemSheet
from tiermem.models.geometry import geometry, geometry_numbers
from tiermem.models.llm import LLM
from tiermem.models.provenance import Number, assumptions
from tiermem.models.sheet import Sheet, read
from tiermem.models.topology import Topology
from tiermem.units import BYTES_MAX, format_bytes


@dataclass(frozen=True, slots=True)
class EngineRoom:
    """What a serving engine may use of the first tier.

    `usable_fraction` of its bytes hold weights and KV-cache. `kv_blocks` is what an engine
    reported, each of `kv_block_tokens` tokens; it wins over the computed room.
    """

    usable_fraction: float
    kv_blocks: int | None
    kv_block_tokens: int


@dataclass(frozen=True, slots=True)
class System:
    """A machine with an engine on it.

    `numbers` holds the provenance of every value; `assumptions` one line for each that is
    remembered, chosen or without a source.
    """

    name: str
    topology: Topology
    engine: EngineRoom
    assumptions: tuple[str, ...]
    numbers: tuple[Number, ...] = ()
    description: str = ""


def system(
    name_or_path: str | Path,
    *,
    capacities: Mapping[str, int] | None = None,
    kv_blocks: int | None = None,
    kv_block_tokens: int | None = None,
    models_dir: Path | None = None,
) -> System:
    """The system called so, or described in that TOML file.

    `capacities` sets the bytes of whole tiers, `kv_blocks` and `kv_block_tokens` what an engine
    reported. Raises `UnknownName` for a system, tier or hardware that is not there, and
    `InputError` for a file or value that is wrong.
    """
    library = _Library(models_dir)
    path = library.path("systems", "system", name_or_path)
    sheet = read(path, SystemSheet)
    parts = assemble(sheet, _Shelf(library, path.parent))
    topology, numbers = _with_capacities(parts.topology, parts.numbers, capacities or {})
    stated = sheet.content.engine
    engine = EngineRoom(
        stated.usable_fraction,
        stated.kv_blocks if kv_blocks is None else _whole(kv_blocks, "kv_blocks"),
        stated.kv_block_tokens
        if kv_block_tokens is None
        else _whole(kv_block_tokens, "kv_block_tokens"),
    )
    given = {"engine.kv_blocks": kv_blocks, "engine.kv_block_tokens": kv_block_tokens}
    numbers = _given(numbers, {key: value for key, value in given.items() if value is not None})
    return System(
        path.stem, topology, engine, assumptions(numbers), numbers, sheet.content.description
    )


def llm(name_or_path: str | Path, *, models_dir: Path | None = None) -> LLM:
    """The model called so, or described in that TOML file; errors as in `system`."""
    path = _Library(models_dir).path("llms", "LLM", name_or_path)
    return geometry(read(path, LLMSheet), path.stem)


def llm_numbers(name_or_path: str | Path, *, models_dir: Path | None = None) -> tuple[Number, ...]:
    """The provenance of every number of a model."""
    path = _Library(models_dir).path("llms", "LLM", name_or_path)
    return geometry_numbers(read(path, LLMSheet))


def system_rows(models_dir: Path | None = None) -> list[dict[str, Any]]:
    """Every system there is: its name, its tiers with their bytes, and its GPU."""
    rows = []
    for name in _Library(models_dir).names("systems"):
        machine = system(name, models_dir=models_dir)
        tiers = [
            {"name": tier.name, "kind": tier.kind, "capacity_bytes": tier.capacity_bytes}
            for tier in machine.topology.tiers
        ]
        compute = machine.topology.tiers[0].compute
        assert compute is not None
        rows.append(
            {
                "name": name,
                "tiers": tiers,
                "gpus": compute.devices,
                "description": machine.description,
            }
        )
    return rows


def llm_rows(models_dir: Path | None = None) -> list[dict[str, Any]]:
    """Every model there is, with the sizes that decide what fits."""
    models = [llm(name, models_dir=models_dir) for name in _Library(models_dir).names("llms")]
    return [
        {
            "name": model.name,
            "kv_bytes_per_token": model.kv_bytes_per_token,
            "weight_bytes": model.weight_bytes,
            "max_context_tokens": model.max_context_tokens,
            "params_total": model.params_total,
            "params_active": model.params_active,
        }
        for model in models
    ]


def kv_room_bytes(system: System, llm: LLM) -> int:
    """Bytes of the first tier that hold KV-cache while `llm` is served.

    What the engine reported if it did, else its usable share of the tier less the weights. Raises
    `DoesNotFit`, with the arithmetic, when the weights do not fit (in either case), when nothing is
    left for a block, or when reported blocks and weights together exceed the tier.
    """
    tier, engine = system.topology.tiers[0], system.engine
    usable = int(engine.usable_fraction * tier.capacity_bytes)
    where = f"usable HBM of tier {tier.name}"
    limit = (
        f"{engine.usable_fraction:g} x {format_bytes(tier.capacity_bytes)} = "
        f"{format_bytes(usable)} {where}"
    )
    beginning = f"{llm.name} does not fit {system.name}: weights {format_bytes(llm.weight_bytes)}"
    if llm.weight_bytes > usable:
        raise DoesNotFit(f"{beginning} > {limit}")
    block = engine.kv_block_tokens * llm.kv_bytes_per_token
    if engine.kv_blocks is None:
        room = usable - llm.weight_bytes
        if room < block:
            raise DoesNotFit(
                f"{beginning} + one KV block of {engine.kv_block_tokens} tokens "
                f"{format_bytes(block)} > {limit}"
            )
        return room
    room = engine.kv_blocks * block
    if llm.weight_bytes + room > tier.capacity_bytes:
        raise DoesNotFit(
            f"{beginning} + {engine.kv_blocks} KV blocks x {engine.kv_block_tokens} tokens x "
            f"{llm.kv_bytes_per_token} B = {format_bytes(room)} > "
            f"{format_bytes(tier.capacity_bytes)} of tier {tier.name}"
        )
    return room


class _Library:
    """The folders that hold descriptions, the caller's own first."""

    def __init__(self, models_dir: Path | None) -> None:
        if models_dir is not None and not models_dir.is_dir():
            raise InputError("no such folder", path=models_dir)
        own = [] if models_dir is None else [models_dir]
        self._folders = [*own, shipped.folder("models")]

    def names(self, group: str) -> list[str]:
        found = {path.stem for folder in self._folders for path in (folder / group).glob("*.toml")}
        return sorted(found)

    def path(self, group: str, kind: str, name_or_path: str | Path) -> Path:
        """The file of `name_or_path`, which is a path if it has a slash or ends in `.toml`."""
        text = str(name_or_path)
        if _is_path(text):
            return Path(text)
        path = self.named(group, text)
        if path is None:
            raise UnknownName(kind, text, self.names(group))
        return path

    def named(self, group: str, name: str) -> Path | None:
        paths = (folder / group / f"{name}.toml" for folder in self._folders)
        return next((path for path in paths if path.is_file()), None)


class _Shelf:
    """Hardware for one system: by name, or by a path from the folder of its file."""

    def __init__(self, library: _Library, beside: Path) -> None:
        self._library, self._beside = library, beside
        self._read: dict[str, Sheet[Hardware] | None] = {}

    def hardware(self, name: str) -> Sheet[Hardware] | None:
        if name not in self._read:
            path = self._beside / name if _is_path(name) else self._library.named("hardware", name)
            self._read[name] = None if path is None else _read_hardware(path)
        return self._read[name]

    def hardware_names(self) -> list[str]:
        return self._library.names("hardware")


def _read_hardware(path: Path) -> Sheet[Hardware]:
    sheet = read(path, Hardware)
    hardware_numbers(sheet)  # refuses a source for a number that is not there
    return sheet


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text


def _with_capacities(
    topology: Topology, numbers: tuple[Number, ...], capacities: Mapping[str, int]
) -> tuple[Topology, tuple[Number, ...]]:
    if not capacities:
        return topology, numbers
    tiers = list(topology.tiers)
    for name, nbytes in capacities.items():
        if name not in topology.names:
            raise UnknownName("tier", name, topology.names, key="capacities")
        at = topology.index(name)
        size = _whole(nbytes, f"capacity of tier {name}")
        tiers[at] = replace(tiers[at], capacity_bytes=size)
    resized = {f"{name}.capacity" for name in capacities}
    kept = tuple(number for number in numbers if number.key not in resized)
    given = {f"{name}.capacity_bytes": nbytes for name, nbytes in capacities.items()}
    return Topology(tuple(tiers), topology.links), _given(kept, given)


def _given(numbers: tuple[Number, ...], values: Mapping[str, int]) -> tuple[Number, ...]:
    """`numbers` with those that the caller set instead of, or besides, what the files say."""
    kept = tuple(number for number in numbers if number.key not in values)
    new = (Number(key, value, "given", "set by the caller") for key, value in values.items())
    return (*kept, *new)


def _whole(value: int, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{value!r} is not a whole number of at least 1", key=key)
    if value > BYTES_MAX:
        raise InputError(f"{value} is too large: {BYTES_MAX:,} at most", key=key)
    return value
