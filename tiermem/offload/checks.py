"""What a caller may give: each of these returns the value as it is used, or raises an `InputError`
of one line that names the argument, before anything was made of it."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Sequence
from typing import Any

from tiermem.core.chosen import WHOLE
from tiermem.errors import InputError


def whole(value: Any, key: str, *, unit: str = "") -> int:
    """An integer of at least 1, of Python or of numpy."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{value!r} is not a whole number{unit}", key=key) from None
    if isinstance(value, bool) or number < 1:
        raise InputError(f"{value!r} is not a number{unit}: 1 or more is expected", key=key)
    return number


def text(value: Any, key: str, *, empty: bool = True) -> str:
    """Text that can be written as UTF-8; `empty` says whether it may be none at all."""
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not text", key=key)
    if not value and not empty:
        raise InputError("it is empty; some text is expected", key=key)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{value!r} has surrogates, which are no text", key=key) from None
    return value


def folder(value: Any, key: str) -> str:
    """The path of a folder. An empty one is refused: it would mean the current folder."""
    try:
        path: str = os.fspath(value)
    except TypeError:
        raise InputError(f"{value!r} is not the path of a folder", key=key) from None
    if "\0" in text(path, key, empty=False):
        raise InputError(f"{path!r} has a NUL, which no path has", key=key)
    return path


def seconds(value: Any, key: str) -> float:
    """A time to wait: more than nothing, and no more than a thread can wait."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= threading.TIMEOUT_MAX:
        most = f"{threading.TIMEOUT_MAX:.0f}"
        raise InputError(f"{value!r} is not a time of more than 0 s, at most {most}", key=key)
    return float(value)


def taps(value: Any, key: str) -> Sequence[Any]:
    """Callables, in a list or another sequence."""
    if not isinstance(value, Sequence) or not all(callable(each) for each in value):
        raise InputError(f"{value!r} is not a list of callables", key=key)
    return value


def policy(value: Any, key: str) -> Any:
    """The name of a policy, or an object that answers what the core asks of one."""
    if isinstance(value, str):
        return text(value, key, empty=False)
    missing = [name for name in WHOLE if not hasattr(value, name)]
    if missing or isinstance(value, type):
        raise InputError(
            f"{value!r} is neither the name of a policy nor an object that is one", key=key
        )
    return value
