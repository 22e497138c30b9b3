"""A TOML file checked against a pydantic model, with every complaint at its line.

Unknown keys are refused at every level. Nothing here knows what the files describe.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tiermem.errors import InputError, UnknownName

Place = Sequence[str | int]
_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEYS = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]")
_ENTRY = re.compile(rf"\s*({_KEYS})\s*=")
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class _UnknownKey(ValueError):
    """How a table says through pydantic which key it does not know."""

    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(key)
        self.key, self.known = key, known


class Document(BaseModel):
    """One table of a file: strict types, finite numbers, no unknown key."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, table: Any) -> Any:
        for key in table if isinstance(table, dict) else ():
            if key not in cls.model_fields:
                raise _UnknownKey(key, list(cls.model_fields))
        return table


D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Sheet(Generic[D]):
    """A file that passed: its content, and the text to point at when a later check fails."""

    path: Path
    content: D
    text: str

    def wrong(self, message: str, *place: str | int) -> InputError:
        """An error about the value at `place`, such as `("tier", 0, "count")`."""
        line = line_of(self.text, place)
        return InputError(message, path=self.path, line=line, key=_dotted(place))

    def unknown(self, kind: str, name: str, known: Sequence[str], *place: str | int) -> UnknownName:
        """An error about a name at `place` that nothing bears."""
        return UnknownName(kind, name, known, path=self.path, line=line_of(self.text, place))


def read(path: Path, kind: type[D]) -> Sheet[D]:
    """The file at `path` as a `kind`; `InputError` naming file, line and key otherwise."""
    text = _text(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _TOML_PLACE.search(message)
        last = len(text.splitlines()) or 1
        line = int(found[1]) if found and found[1] else last
        message = _TOML_PLACE.sub("", message)
        raise InputError(f"not valid TOML: {message}", path=path, line=line) from None
    try:
        return Sheet(path, kind.model_validate(table), text)
    except ValidationError as error:
        raise _complaint(error, path, text) from None


def line_of(text: str, place: Place) -> int | None:
    """The line that writes `place`, or the table nearest around it; None if neither is written."""
    best, depth = None, 0
    for number, written in _written(text):
        shared = min(len(written), len(place))
        if shared > depth and tuple(place[:shared]) == written[:shared]:
            best, depth = number, shared
    return best


def _written(text: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    """Each line of a TOML text that names a table or a key, with the full place it names."""
    arrays: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = ()
            *outer, last = _parts(header[2])
            for part in outer:
                table += (part,)
                if table in arrays:
                    table += (arrays[table],)
            table += (last,)
            if header[1] == "[[":
                arrays[table] = arrays.get(table, -1) + 1
                table += (arrays[table],)
            yield number, table
        elif entry := _ENTRY.match(line):
            yield number, table + tuple(_parts(entry[1]))


def _parts(keys: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, keys)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason}", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None


def _complaint(error: ValidationError, path: Path, text: str) -> InputError:
    """The first error of a validation; a misspelt key before whatever its absence caused."""
    found = error.errors(include_url=False)
    for one in found:
        cause = one.get("ctx", {}).get("error")
        if isinstance(cause, _UnknownKey):
            line = line_of(text, [*one["loc"], cause.key])
            return UnknownName("key", cause.key, cause.known, path=path, line=line)
    first = found[0]
    place = first["loc"]
    line = line_of(text, place)
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        message = "is missing"
    elif not isinstance(first["input"], dict | list) and first["type"] != "value_error":
        message += f", not {first['input']!r}"
    return InputError(message, path=path, line=line, key=_dotted(place))


def _dotted(place: Place) -> str:
    """`("tier", 0, "count")` as `tier[0].count`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
