"""Where each number of a system or a model comes from, and which of them are assumptions.

It reads checked tables; it neither opens files nor knows what a number means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tiermem.models.documents import Said
from tiermem.models.sheet import Document, Sheet
from tiermem.units import format_bytes

LABELS = frozenset({"name", "hardware", "ends", "kind", "compute"})
"""Words of a table that are no numbers and need no source."""

UNSURE = frozenset({"memory", "chosen", "unstated"})
"""The confidences whose values are assumptions of a run."""


@dataclass(frozen=True, slots=True)
class Number:
    """A value, how well it is known, and where it comes from.

    `confidence` is one of `documents.Confidence`, or "unstated" where a file gives no source, or
    "given" where the caller set the value.
    """

    key: str
    value: float
    confidence: str
    source: str

    def __str__(self) -> str:
        size = self.key.rpartition(".")[2].startswith("capacity")
        value = format_bytes(self.value) if size else f"{self.value:g}"
        if isinstance(self.value, bool):
            value = str(self.value).lower()
        return f"{self.key} = {value} ({self.confidence}: {self.source})"


def written(table: Document | None) -> dict[str, Any]:
    """The numbers that a table of a file states itself, by key."""
    if table is None:
        return {}
    stated = (key for key in type(table).model_fields if key in table.model_fields_set)
    values = ((key, getattr(table, key)) for key in stated if key not in LABELS)
    return {key: value for key, value in values if value is not None}


def numbers(prefix: str, values: Mapping[str, Any], said: Mapping[str, Said]) -> list[Number]:
    """`values` joined to what is `said` of them, keys prefixed with `prefix.`."""
    silence = Said(confidence="chosen", source="no source given")
    result = []
    for key, value in values.items():
        word = said.get(key, silence)
        confidence = "unstated" if word is silence else word.confidence
        result.append(Number(f"{prefix}.{key}", value, confidence, word.source))
    return result


def check_sources(
    sheet: Sheet[Any], values: Mapping[str, Any], said: Mapping[str, Said], *place: str
) -> None:
    """Refuse a source for a number that the file does not state: a misspelt key, most often."""
    for key in said:
        if key not in values:
            raise sheet.unknown("number in [source]", key, list(values), "source", *place, key)


def assumptions(every: Iterable[Number]) -> tuple[str, ...]:
    """One line for each number that is remembered, chosen or without a source."""
    return tuple(str(number) for number in every if number.confidence in UNSURE)
