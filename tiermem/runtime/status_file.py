"""`tiermem-status.json`: what the runtimes of a directory said last, for `tiermem status`.

One small file beside the blocks, replaced as a whole, with an entry for each runtime that uses the
directory. An entry outlives its process until another one writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from tiermem.errors import InputError
from tiermem.runtime.file.folder import STATUS_NAME
from tiermem.runtime.status import LIMIT_IS
from tiermem.runtime.status_shape import HEAD, TEXT, Each, trouble

SCHEMA = 1
EVERY_S = 5.0
TEXT_MOST = 16 << 20
RECENT_S = 60.0
"""An entry this young is kept, even if its process cannot be seen from here (a container)."""


class StatusFile:
    """One runtime's entry in the status file of `directory`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / STATUS_NAME
        self._id = secrets.token_hex(8)

    def write(self, document: Mapping[str, Any], *, closed: bool = False) -> None:
        """Replace our entry and drop those of processes that are gone. Raises OSError."""
        entry = {
            "id": self._id,
            "pid": os.getpid(),
            "pid_start_ticks": _start_ticks(os.getpid()),
            "written_unix_s": time.time(),
            "closed": closed,
            **document,
        }
        with _alone(self.path.parent):
            others = [other for other in _entries(self.path) if _stays(other, self._id)]
            whole = {
                "schema": SCHEMA,
                "tiermem": version("tiermem"),
                "limit_is": LIMIT_IS,
                "runtimes": [*others, entry],
            }
            text = json.dumps(whole, allow_nan=False)
            draft = self.path.with_name(f".{STATUS_NAME}.{self._id}")
            try:
                draft.write_text(text, encoding="utf-8")
                draft.replace(self.path)
            except OSError:
                draft.unlink(missing_ok=True)
                raise


class StatusWriter:
    """Writes a status now, every `every_s` seconds in a thread of its own, and at `close`."""

    def __init__(
        self, directory: Path, document: Callable[[], Mapping[str, Any]], every_s: float = EVERY_S
    ) -> None:
        self.fault: str | None = None
        """Why the last write failed; None if it did not."""
        self._file = StatusFile(directory)
        self._document = document
        self._every_s = every_s
        self._pid = os.getpid()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tiermem-status", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write for the last time; a directory that hangs is not waited for any longer."""
        self._end.set()
        if os.getpid() == self._pid:
            self._thread.join(timeout_s)

    def _serve(self) -> None:
        self._write()
        while not self._end.wait(self._every_s):
            self._write()
        self._write(closed=True)

    def _write(self, *, closed: bool = False) -> None:
        try:
            self._file.write(self._document(), closed=closed)
            self.fault = None
        except Exception as error:  # a status that cannot be told is no reason to stop
            self.fault = f"{type(error).__name__}: {error}"


def read_status(directory: Path) -> dict[str, Any]:
    """The status file of `directory`, each entry with `running` and `age_s`.

    Raises `InputError`, one line, if there is none or it cannot be understood.
    """
    path = directory / STATUS_NAME
    if not directory.is_dir():
        raise InputError("is no directory; name the one that was given as `disk`", path=directory)
    try:
        whole = _parsed(path)
    except FileNotFoundError:
        raise InputError(
            f"no {STATUS_NAME} here: no runtime with a file tier has used this directory yet",
            path=directory,
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except ValueError as error:
        raise InputError(f"is not a status of ours: {error}", path=path) from error
    if not isinstance(whole, dict) or whole.get("schema") != SCHEMA:
        found = whole.get("schema") if isinstance(whole, dict) else None
        raise InputError(f"has schema {found!r:.80}; this tiermem reads {SCHEMA}", path=path)
    wrong = trouble(whole, {"runtimes": Each(list, HEAD), "limit_is": TEXT}, "it")
    if wrong is not None:
        raise InputError(f"is not a status of ours: {wrong}", path=path)
    for entry in whole["runtimes"]:
        entry["age_s"] = max(0.0, time.time() - entry["written_unix_s"])
        entry["running"] = not entry["closed"] and _runs(entry)
    return whole


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One writer at a time, of all processes."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _parsed(path: Path) -> Any:
    """The JSON of a plain file; a pipe is not waited for. Raises OSError or ValueError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("not a regular file")
        text = file.read(TEXT_MOST + 1)
    if len(text) > TEXT_MOST:
        raise ValueError(f"longer than {TEXT_MOST:,} characters")
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _entries(path: Path) -> list[dict[str, Any]]:
    """What is there, if it can be read; a status is no reason to fail."""
    try:
        whole = _parsed(path)
        entries = whole["runtimes"] if whole["schema"] == SCHEMA else []
        return [each for each in entries if trouble(each, {"id": TEXT, **HEAD}, "it") is None]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _stays(entry: Mapping[str, Any], own: str) -> bool:
    if entry["id"] == own or entry["closed"]:
        return False
    return _runs(entry) or time.time() - entry["written_unix_s"] < RECENT_S


def _runs(entry: Mapping[str, Any]) -> bool:
    """Whether the very process that wrote this lives; a number may be used again by another."""
    ticks = _start_ticks(entry["pid"])
    if ticks is not None:
        return bool(ticks == entry["pid_start_ticks"])
    return False


def _start_ticks(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since boot; None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])
