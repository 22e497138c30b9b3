"""The lines of a Mooncake file, each checked; what is wrong is named by line, key and text.

Reading is quick for lines that are plainly right. All others are read a second time, exactly:
integers of any size survive, and whatever is wrong becomes one InputError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import orjson

from tiermem.errors import InputError, nearest

COLUMNS = ("timestamp", "input_length", "output_length", "hash_ids")

TOKENS_MAX = 2**31 - 1
_ID_TYPES = frozenset((int, str))
_EXACT_FLOAT = 2**53
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Rows:
    """The columns of a file in file order, and the line that each row came from."""

    lines: list[int] = field(default_factory=list)
    stamps: list[int | float] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    ids: list[int | str] = field(default_factory=list)
    ignored: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _NoNumber:
    """NaN or an infinity, which JSON does not have, where a number should be."""

    text: str


def parse(data: bytes, path: Path) -> Rows:
    """The rows of `data`; `path` is only named in errors. InputError when there are none."""
    rows = Rows()
    for number, text in _lines(data):
        row: Any
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError:
            row = None
        # Each key has a colon behind it. More colons than keys: one key may be there twice.
        if not _is_plain(row) or text.count(b":") != len(row):
            row = _checked(text, path, number)
        ids = row["hash_ids"]
        rows.lines.append(number)
        rows.stamps.append(row["timestamp"])
        rows.prompts.append(row["input_length"])
        rows.outputs.append(row["output_length"])
        rows.counts.append(len(ids))
        rows.ids.extend(ids)
        if len(row) > len(COLUMNS):
            rows.ignored.update(dict.fromkeys(row))
    if not rows.lines:
        raise InputError("no requests in this file", path=path)
    return rows


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that hold something; a byte-order mark and CR are no part of any line."""
    for number, text in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        text = text.strip()
        if text:
            yield number, text


def _is_plain(row: Any) -> bool:
    """Whether a row is surely right as it stands; the others are looked at closely."""
    if type(row) is not dict:
        return False
    cells: Iterator[Any] = map(row.get, COLUMNS)
    stamp, prompt, output, ids = cells
    return (
        type(prompt) is int
        and 0 < prompt <= TOKENS_MAX
        and type(output) is int
        and 0 <= output <= TOKENS_MAX
        and type(stamp) in (int, float)
        and 0 <= stamp < _EXACT_FLOAT
        and type(ids) is list
        and _ID_TYPES.issuperset(map(type, ids))
    )


def _checked(text: bytes, path: Path, line: int) -> dict[str, Any]:
    """One line read slowly and exactly: integers of any size survive, anything wrong is named."""

    def fail(message: str, key: str | None = None) -> NoReturn:
        raise InputError(message, path=path, line=line, key=key)

    def record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            fail("given twice in one object", next(n for n in names if names.count(n) > 1))
        for name, value in pairs:
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, _NoNumber):
                    fail(f"{item.text} is not a number", name)
        return found

    if text.startswith(b"["):
        fail("a JSON list starts here, where one JSON object per line is expected")
    try:
        row = json.loads(text.decode(), parse_constant=_NoNumber, object_pairs_hook=record)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        fail(f"not a JSON object: {shown(text)} ({reason})")
    if not isinstance(row, dict):
        fail(f"{shown(text)} is not a JSON object")
    _check_columns(row, path, line)
    stamp, prompt, output, ids = (row[name] for name in COLUMNS)
    if type(stamp) not in (int, float) or not math.isfinite(_float_or_inf(stamp)) or stamp < 0:
        fail(f"{shown(stamp)} is not a time in ms of at least 0", "timestamp")
    for key, tokens, least in (("input_length", prompt, 1), ("output_length", output, 0)):
        if type(tokens) is not int or tokens < least:
            fail(f"{shown(tokens)} is not a whole number of tokens of at least {least}", key)
        if tokens > TOKENS_MAX:
            fail(f"{shown(tokens)} is not a number of tokens: {TOKENS_MAX:,} at most", key)
    if type(ids) is not list:
        fail(f"{shown(ids)} is not a list of block ids", "hash_ids")
    for name in ids:
        if type(name) not in _ID_TYPES:
            fail(f"{shown(name)} is not a block id: an integer or a text", "hash_ids")
    return row


def _check_columns(row: dict[str, Any], path: Path, line: int) -> None:
    missing = [name for name in COLUMNS if name not in row]
    if not missing:
        return
    spare = [name for name in row if name not in COLUMNS]
    near = [(name, nearest(name, spare)) for name in missing]
    hint = "".join(f"; {name} may be called {shown(found)} here" for name, found in near if found)
    raise InputError(
        f"missing {', '.join(missing)}; found {shown(', '.join(row)) if row else 'nothing'}{hint}",
        path=path,
        line=line,
        key=missing[0],
    )


def _float_or_inf(number: int | float) -> float:
    """A number as float; an integer beyond all floats as infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def shown(value: object) -> str:
    """The offending text, on one line, in ASCII, at most 80 characters of it."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    shown = ascii(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."
