"""The page of invariants and the tests that guard them name each other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (INV-\d+) .*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
NUMBER = re.compile(r"INV-\d+")
RANGE = re.compile(r"INV-(\d+) to INV-(\d+)|INV-(\d+)\.\.(\d+)")


def named(path: Path) -> set[str]:
    """The numbers that a file names, those of a range included."""
    text = path.read_text(encoding="utf-8")
    found = set(NUMBER.findall(text))
    for match in RANGE.finditer(text):
        low, high = [int(number) for number in match.groups() if number]
        found |= {f"INV-{number}" for number in range(low, high + 1)}
    return found


def guards(section: str) -> list[str]:
    """The files after the words "Guarded by"."""
    return re.findall(r"`(tests/[\w/]+\.py)`", section[section.index("Guarded by") :])


def test_twelve_invariants_in_order() -> None:
    """The page has INV-1 to INV-12, each once."""
    assert list(SECTIONS) == [f"INV-{number}" for number in range(1, 13)]


def test_each_invariant_names_its_guards() -> None:
    """Every number has tests, they exist, and each of them says the number."""
    for number, section in SECTIONS.items():
        files = guards(section)
        assert files, number
        for name in files:
            assert (ROOT / name).is_file(), f"{number}: {name}"
            assert number in named(ROOT / name), f"{name} does not say {number}"


def test_no_number_is_made_up() -> None:
    """What code and tests call INV-n is on the page."""
    files = [*(ROOT / "tiermem").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    unknown = {
        f"{path.relative_to(ROOT)}: {number}"
        for path in files
        if path != Path(__file__).resolve()
        for number in named(path) - set(SECTIONS)
    }
    assert unknown == set()
