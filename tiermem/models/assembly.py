"""From checked files to values: a system put together from its file and the hardware it names.

Every complaint points at the line of the system file that has to change. It opens no file itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tiermem.errors import InputError
from tiermem.models.documents import (
    ComputeNumbers,
    Hardware,
    LinkNumbers,
    Said,
    SystemLink,
    SystemSheet,
    SystemTier,
    TierNumbers,
)
from tiermem.models.link import HOST, Link
from tiermem.models.provenance import LABELS, Number, check_sources, numbers, written
from tiermem.models.sheet import Document, Sheet
from tiermem.models.tier import Compute, Tier
from tiermem.models.topology import Topology

TAKEN = (HOST, "recompute", "rejected", "not_served")
"""Names that mean something else where tiers are named: junctions and sources of tokens."""


class Shelf(Protocol):
    """Where hardware files come from."""

    def hardware(self, name: str) -> Sheet[Hardware] | None:
        """The file called `name`; None if there is none."""
        ...

    def hardware_names(self) -> list[str]:
        """Every name there is."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """A machine put together, and the provenance of all its numbers."""

    topology: Topology
    numbers: tuple[Number, ...]


def assemble(sheet: Sheet[SystemSheet], shelf: Shelf) -> Parts:
    """The topology that a system file describes, with the hardware files it names."""
    notes: list[Number] = []
    document = sheet.content
    tiers = tuple(_tier(sheet, at, tier, shelf, notes) for at, tier in enumerate(document.tier))
    if tiers[0].kind != "hbm" or tiers[0].compute is None:
        raise sheet.wrong(
            "the first tier must be a GPU's own memory: kind hbm, with compute", "tier", 0
        )
    links = tuple(_link(sheet, at, link, shelf, notes) for at, link in enumerate(document.link))
    _check_names(sheet, tiers, links)
    _check_sources(sheet)
    try:
        topology = Topology(tiers, links)
    except InputError as error:
        raise sheet.wrong(str(error)) from None
    notes += numbers("engine", written(document.engine), document.source.engine)
    return Parts(topology, tuple(notes))


def hardware_numbers(sheet: Sheet[Hardware]) -> tuple[Number, ...]:
    """The provenance of every number in a hardware file."""
    every: list[Number] = []
    for table in ("tier", "compute", "link"):
        values = written(getattr(sheet.content, table))
        said: Mapping[str, Said] = getattr(sheet.content.source, table)
        check_sources(sheet, values, said, table)
        every += numbers(table, values, said)
    return tuple(every)


def _tier(
    sheet: Sheet[SystemSheet], at: int, tier: SystemTier, shelf: Shelf, notes: list[Number]
) -> Tier:
    if tier.name in TAKEN:
        raise sheet.wrong(
            f"{tier.name!r} means something else; name the tier differently", "tier", at, "name"
        )
    hardware = _hardware(sheet, shelf, tier.hardware, "tier", at)
    own, source = written(tier), sheet.content.source
    said = source.tier.get(tier.name, {})
    group: dict[str, Any] = {
        key: own.pop(key) for key in ("count", "parallel_efficiency") if key in own
    }
    kind = tier.kind or (hardware.content.tier.kind if hardware and hardware.content.tier else None)
    if kind is None:
        raise sheet.wrong("is missing, and no hardware file says it", "tier", at, "kind")
    notes += numbers(tier.name, group, said)
    preset = None if hardware is None else hardware.content.tier
    told = {} if hardware is None else hardware.content.source.tier
    one = _merge(sheet, TierNumbers, own, preset, "tier", at)
    notes += _notes(tier.name, one, own, said, told)
    return Tier(
        name=tier.name,
        kind=kind,
        capacity_bytes=one["capacity"] * tier.count,
        read_bytes_per_s=one["read_bytes_per_s"] * tier.count,
        write_bytes_per_s=one["write_bytes_per_s"] * tier.count,
        latency_ns=one["latency_ns"],
        compute=_compute(sheet, at, tier, hardware, notes),
    )


def _compute(
    sheet: Sheet[SystemSheet],
    at: int,
    tier: SystemTier,
    hardware: Sheet[Hardware] | None,
    notes: list[Number],
) -> Compute | None:
    preset = None if hardware is None else hardware.content.compute
    if preset is None and tier.compute is None:
        if tier.parallel_efficiency is not None:
            raise sheet.wrong("this tier computes nothing", "tier", at, "parallel_efficiency")
        return None
    if tier.count > 1 and tier.parallel_efficiency is None:
        raise sheet.wrong(
            f"is missing: {tier.count} devices that compute need one",
            "tier",
            at,
            "parallel_efficiency",
        )
    own = written(tier.compute)
    told = {} if hardware is None else hardware.content.source.compute
    said = sheet.content.source.compute.get(tier.name, {})
    one = _merge(sheet, ComputeNumbers, own, preset, "tier", at, "compute")
    notes += _notes(f"{tier.name}.compute", one, own, said, told)
    return Compute(devices=tier.count, parallel_efficiency=tier.parallel_efficiency or 1.0, **one)


def _link(
    sheet: Sheet[SystemSheet], at: int, link: SystemLink, shelf: Shelf, notes: list[Number]
) -> Link:
    hardware = _hardware(sheet, shelf, link.hardware, "link", at)
    own = written(link)
    said = sheet.content.source.link.get(link.name, {})
    notes += numbers(link.name, {key: own.pop(key) for key in ("count",) if key in own}, said)
    preset = None if hardware is None else hardware.content.link
    told = {} if hardware is None else hardware.content.source.link
    one = _merge(sheet, LinkNumbers, own, preset, "link", at)
    notes += _notes(link.name, one, own, said, told)
    return Link(
        name=link.name,
        ends=(link.ends[0], link.ends[1]),
        bytes_per_s=one["bytes_per_s"] * link.count,
        full_duplex=one["full_duplex"],
        setup_ns=one["setup_ns"],
    )


def _hardware(
    sheet: Sheet[SystemSheet], shelf: Shelf, name: str | None, table: str, at: int
) -> Sheet[Hardware] | None:
    """The hardware file that a tier or link names, which must describe a tier or link."""
    if name is None:
        return None
    hardware = shelf.hardware(name)
    if hardware is None:
        raise sheet.unknown("hardware", name, shelf.hardware_names(), table, at, "hardware")
    if getattr(hardware.content, table) is None:
        raise sheet.wrong(f"{name!r} describes no {table}", table, at, "hardware")
    return hardware


def _merge(
    sheet: Sheet[SystemSheet],
    table: type[Document],
    own: Mapping[str, Any],
    preset: Document | None,
    *place: str | int,
) -> dict[str, Any]:
    """The numbers of one device: what the system says itself, else what its hardware file says."""
    values = written(preset) | dict(own)
    for key in table.model_fields:
        if key not in values and key not in LABELS:
            raise sheet.wrong("is missing, and no hardware file says it", *place, key)
    return values


def _notes(
    prefix: str,
    values: Mapping[str, Any],
    own: Mapping[str, Any],
    said: Mapping[str, Said],
    told: Mapping[str, Said],
) -> list[Number]:
    """Provenance of merged values: `said` by the system of its own, `told` by the hardware file."""
    voices = {key: (said if key in own else told).get(key) for key in values}
    return numbers(prefix, values, {key: voice for key, voice in voices.items() if voice})


def _check_names(
    sheet: Sheet[SystemSheet], tiers: tuple[Tier, ...], links: tuple[Link, ...]
) -> None:
    names = [tier.name for tier in tiers]
    every = [("tier", at, name) for at, name in enumerate(names)]
    every += [("link", at, link.name) for at, link in enumerate(links)]
    seen: set[str] = set()
    for table, at, name in every:
        if name in seen:
            raise sheet.wrong(f"the name {name!r} is used twice", table, at, "name")
        seen.add(name)
    for at, link in enumerate(links):
        for end in link.ends:
            if end != HOST and end not in names:
                raise sheet.unknown("tier", end, [*names, HOST], "link", at, "ends")


def _check_sources(sheet: Sheet[SystemSheet]) -> None:
    """Each table of `[source]` names a tier or link there is, and numbers it states."""
    document = sheet.content
    source = document.source
    check_sources(sheet, written(document.engine), source.engine, "engine")
    stated: dict[str, dict[str, dict[str, Any]]] = {
        "tier": {tier.name: written(tier) for tier in document.tier},
        "compute": {tier.name: written(tier.compute) for tier in document.tier},
        "link": {link.name: written(link) for link in document.link},
    }
    for table, tables in stated.items():
        for name, said in getattr(source, table).items():
            if name not in tables:
                raise sheet.unknown(
                    f"{table} in [source]", name, list(tables), "source", table, name
                )
            check_sources(sheet, tables[name], said, table, name)
