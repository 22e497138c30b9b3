"""What commands print: strict JSON for programs, small tables for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


class Terminal(Console):
    """Where tables for people go. A reader that went away is an error like any other."""

    def on_broken_pipe(self) -> None:
        """Pass the error on, where rich would end the process with a status of its own."""
        raise


def json_document(value: Any) -> None:
    """Strict JSON on stdout and nothing else: no NaN, no infinity."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def rows(found: Sequence[Mapping[str, Any]], title: str) -> None:
    """Rows with the same keys as a table; numbers stand to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="")
    for name, value in (found[0] if found else {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in found:
        table.add_row(*(text(value) for value in row.values()))
    Terminal().print(table, highlight=False, markup=False)


def pairs(found: Mapping[str, Any]) -> None:
    """A name and a value a line; what is nested has a line for each of its own names."""
    table = Table.grid(padding=(0, 2))
    for name, value in _flat(found):
        table.add_row(name, text(value))
    Terminal().print(table, highlight=False, markup=False)


def text(value: Any) -> str:
    """One value for people: digits in groups of three, `-` for what is undefined."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return "; ".join(text(item) for item in value) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text(item)}" for name, item in value.items())
    return str(value)


def _flat(found: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    lines: list[tuple[str, Any]] = []
    for name, value in found.items():
        if isinstance(value, Mapping) and value:
            lines += _flat(value, f"{before}{name}.")
        else:
            lines.append((f"{before}{name}", value))
    return lines
