"""Whether a status file has what `tiermem status` prints: it may be damaged, or somebody else's.

Only what is printed is looked at, so that a later version may add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tiermem.runtime.counters import WORDS

NUMBER_MOST = 1 << 63


class Each(NamedTuple):
    """A list, or an object of any keys, whose values all have this shape."""

    kind: type
    shape: Any


TEXT, NUMBER, NONE = "a text", "a number", "null"
_TYPES: Mapping[type, str] = {list: "a list", dict: "an object"}

HEAD = {"pid": NUMBER, "pid_start_ticks": (NUMBER, NONE), "written_unix_s": NUMBER, "closed": bool}
"""What an entry needs for us to see whether its process lives."""

_BLOCKS = {"blocks": NUMBER}
_FILES = {
    "io_path": TEXT,
    "directory_bytes": (NUMBER, NONE),
    "found_blocks": NUMBER,
    "cold": (TEXT, NONE),
    "ignored_count": NUMBER,
    "ignored_files": Each(list, {"name": TEXT, "reason": TEXT}),
}
_COUNTERS: dict[str, Any] = {
    **dict.fromkeys(WORDS, _BLOCKS),
    "refused": Each(dict, _BLOCKS),
    "dropped": Each(dict, _BLOCKS),
    "faults": Each(dict, NUMBER),
}
_TIER = {
    "name": TEXT,
    "used_bytes": NUMBER,
    "capacity_bytes": NUMBER,
    "files": (_FILES, NONE),
    "counters": _COUNTERS,
    "why_no_hit": (TEXT, NONE),
    "warnings": Each(list, TEXT),
}
ENTRY = {
    **HEAD,
    "policy": (TEXT, NONE),
    "leases": NUMBER,
    "asked": _BLOCKS,
    "tiers": Each(list, _TIER),
    "why": TEXT,
    "warnings": Each(list, TEXT),
}
"""What is printed of an entry."""


def trouble(value: Any, shape: Any, at: str) -> str | None:
    """What is wrong with `value`, in a line that begins with the place `at`; None if nothing is."""
    if isinstance(shape, tuple) and not isinstance(shape, Each):
        found = [trouble(value, each, at) for each in shape]
        return None if None in found else found[0]
    if isinstance(shape, Each):
        if not isinstance(value, shape.kind):
            return f"{at} is not {_TYPES[shape.kind]}"
        inner: Any = value
        pairs = inner.items() if shape.kind is dict else enumerate(inner)
        return _first(trouble(each, shape.shape, f"{at}[{key}]") for key, each in pairs)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{at} is not an object"
        absent = next((key for key in shape if key not in value), None)
        if absent is not None:
            return f"{at} has no {absent}"
        return _first(trouble(value[key], each, f"{at}.{key}") for key, each in shape.items())
    wanted = "true or false" if shape is bool else shape
    return None if _is(value, shape) else f"{at} is not {wanted}"


def _first(found: Any) -> str | None:
    return next((each for each in found if each is not None), None)


def _is(value: Any, shape: Any) -> bool:
    if shape == NONE:
        return value is None
    if shape == TEXT:
        return isinstance(value, str)
    if shape is bool:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < NUMBER_MOST  # not true of NaN, nor of infinity
