"""The page for those without hits walks the counters, all of them, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.runtime.counters import WORDS
from tiermem.runtime.prometheus import MEANING
from tiermem.runtime.stores import FaultKind
from tiermem.runtime.why import MISSED, REFUSED

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE = (DOCS / "no-hits.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")


def test_steps_stand_in_the_order_of_a_blocks_way() -> None:
    """Offered, admitted, stored, missed, hit, loaded: whoever reads down finds the first zero."""
    steps = ("offered", "admitted", "stored", "missed", "hit")
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    places = [rows.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize("reason", [*MISSED, *REFUSED])
def test_every_reason_has_its_line(reason: str) -> None:
    """What the status says is explained here."""
    assert f"`{reason}`" in PAGE


@pytest.mark.parametrize("word", [*WORDS, *MEANING, "asked", "missed", "hit rate"])
def test_the_glossary_has_every_word(word: str) -> None:
    """Counters, metrics and pages use the words of the glossary."""
    rows = [line.split("|")[1] for line in GLOSSARY.splitlines() if line.startswith("| ")]
    words = {part.strip() for row in rows for part in row.split(",")}
    assert word.replace("_", " ") in words


@pytest.mark.parametrize("kind", list(FaultKind))
def test_the_glossary_has_every_kind_of_fault(kind: FaultKind) -> None:
    """A fault of the status can be looked up."""
    assert f"`{kind}`" in GLOSSARY
