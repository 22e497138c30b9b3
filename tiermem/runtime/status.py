"""What a runtime tells about itself: its tiers, their counters, and why they are what they are.

A value, and its form as strict JSON: units in the names, null with a reason for what is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiermem.runtime.counters import Counters, TierCounters
from tiermem.runtime.stores import Store
from tiermem.runtime.why import costs_more, why, why_tier

LIMIT_IS = "per process, per directory"
"""What the capacity of a file tier is a limit of."""
NAMED_AT_MOST = 20
"""Files that are named among those that were ignored; all are counted."""


_GONE = {"directory_bytes_reason": "the directory cannot be read: it was removed or moved"}


@dataclass(frozen=True, slots=True)
class Files:
    """What a file tier has on disk."""

    directory: str
    io_path: str
    disk_bytes: int
    """Of this process: segments, marks and temporary files."""
    directory_bytes: int | None
    """Of everybody's files there; None if the directory cannot be read any more."""
    found_blocks: int
    cold: str | None
    """Why nothing was found at the start; None if something was."""
    ignored: tuple[tuple[str, str], ...]
    """Files that were passed over, each with the reason."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "directory": self.directory,
            "io_path": self.io_path,
            "disk_bytes": self.disk_bytes,
            "directory_bytes": self.directory_bytes,
            **(_GONE if self.directory_bytes is None else {}),
            "limit_is": LIMIT_IS,
            "found_blocks": self.found_blocks,
            "cold": self.cold,
            "ignored_count": len(self.ignored),
            "ignored_files": [
                {"name": name, "reason": reason} for name, reason in self.ignored[:NAMED_AT_MOST]
            ],
        }


@dataclass(frozen=True, slots=True)
class TierStatus:
    """One tier now."""

    name: str
    kind: str
    capacity_bytes: int
    used_bytes: int
    counters: TierCounters
    files: Files | None = None
    warnings: tuple[str, ...] = ()
    why: str | None = None
    """Why it has had no hit; None if it had one."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        files: dict[str, Any] = {"files": None, "files_reason": f"a {self.kind} tier reports none"}
        if self.files is not None:
            files = {"files": self.files.document()}
        return {
            "name": self.name,
            "kind": self.kind,
            "capacity_bytes": self.capacity_bytes,
            "used_bytes": self.used_bytes,
            **files,
            "counters": self.counters.document(),
            "why_no_hit": self.why,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Status:
    """A runtime now."""

    counters: Counters
    tiers: tuple[TierStatus, ...]
    policy: str | None = None
    recompute_s: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Why the hit rate is what it is, in a sentence or two."""
        cold = [
            f" {tier.name} was cold at the start: {tier.files.cold}."
            for tier in self.tiers
            if tier.files is not None and tier.files.cold and not self.counters.hit.blocks
        ]
        return why(self.counters) + "".join(cold)

    def document(self) -> dict[str, Any]:
        """For JSON; `tiermem status --json` prints it."""
        totals = self.counters.document()
        del totals["tiers"]
        unknown = {"recompute_s_reason": "nobody who uses this runtime estimates it"}
        return {
            "policy": self.policy,
            **({"policy_reason": "an object without a name"} if self.policy is None else {}),
            "why": self.why,
            **totals,
            "load_s": sum(tier.counters.load_s for tier in self.tiers),
            "recompute_s": self.recompute_s,
            **(unknown if self.recompute_s is None else {}),
            "warnings": list(self.warnings),
            "tiers": [tier.document() for tier in self.tiers],
        }


def status_of(
    stores: Mapping[str, Store],
    counters: Counters,
    *,
    policy: str | None = None,
    recompute_s: float | None = None,
    warnings: Sequence[str] = (),
) -> Status:
    """The status of `stores`, fastest first, with what was counted of them.

    `recompute_s` is an estimate of the time that the loaded blocks would have taken to compute.
    """
    tiers: list[TierStatus] = []
    for name, store in stores.items():
        held = counters[name]
        used = getattr(store, "used_bytes", held.held.nbytes)
        files = _files(store)
        tiers.append(
            TierStatus(
                name,
                store.kind,
                store.capacity_bytes,
                used if files is None else files.disk_bytes,
                held,
                files,
                tuple(getattr(store, "warnings", ())),
                why_tier(name, held, fastest=not tiers),
            )
        )
    costly = costs_more(sum(tier.counters.load_s for tier in tiers), recompute_s)
    said = (*warnings, costly) if costly is not None else tuple(warnings)
    return Status(counters, tuple(tiers), policy, recompute_s, said)


def _files(store: Any) -> Files | None:
    """What a file store reports; None for one that keeps no files, or does not say."""
    if not hasattr(store, "report"):
        return None
    report = store.report()
    return Files(
        report.directory,
        report.io_path,
        report.used_bytes,
        report.directory_bytes,
        report.found_blocks,
        None if report.cold is None else report.cold.removeprefix("cold: "),
        tuple((each.name, each.reason) for each in report.ignored),
    )
