"""The directory: which files are ours, who holds them, how many bytes they take.

Any number of processes may share one. Each writes its own segments and holds a lock on each of
them for as long as it lives; a segment that nobody holds belongs to whoever takes it first. All
names are relative to the directory, so it can be moved.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tiermem.errors import InputError
from tiermem.runtime.io.directory import link_trouble
from tiermem.runtime.io.seam import OpenFile, fault_of
from tiermem.runtime.stores import Fault, FaultKind

SUFFIX = ".blocks"
LOCK_NAME = "tiermem.lock"
STATUS_NAME = "tiermem-status.json"
"""What the runtimes here say of themselves; a draft has a dot before, and an end of its own."""


class Folder:
    """A directory of segments, checked before anything is done in it."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Raises InputError if the directory cannot be used, and says what to change."""
        self.path = path
        self.read_only = read_only
        self._prefix = secrets.token_hex(4)
        self._numbers = count()
        self._threads = threading.Lock()
        self._lock_fd = self._fd = -1
        try:
            if not read_only:
                path.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "not a directory")
            os.listdir(path)
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if not read_only:
                self._lock_fd = self._open_lock()
        except OSError as error:
            self.close()
            raise unusable(path, error, read_only) from error

    def _follow(self) -> None:
        """The directory may have been moved while it is in use: find where it is now."""
        with contextlib.suppress(OSError):
            if self._fd >= 0 and not still_there(self._fd, self.path):
                here = Path(os.readlink(f"/proc/self/fd/{self._fd}"))
                if still_there(self._fd, here):
                    self.path = here

    def _open_lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path / LOCK_NAME, flags, 0o600)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all processes: for the moment in which files are made or taken over."""
        if self.read_only:
            yield
            return
        with self._threads:
            self._follow()
            if not os.fstat(self._lock_fd).st_nlink:  # deleted: others would lock a new one
                anew = self._open_lock()
                os.close(self._lock_fd)
                self._lock_fd = anew
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def new_path(self) -> Path:
        """A name that no other process uses."""
        return self.path / f"{self._prefix}-{next(self._numbers):05d}{SUFFIX}"

    def segments(self) -> list[Path]:
        """Files that are named as ours."""
        return [path for path in self._entries() if _is_segment(path)]

    def strangers(self) -> list[str]:
        """Names of everything else."""
        names = [path.name for path in self._entries() if not _is_segment(path)]
        known = (LOCK_NAME, STATUS_NAME, f".{STATUS_NAME}")
        return [name for name in names if not name.startswith(known)]

    def _entries(self) -> list[Path]:
        return sorted(self.path.iterdir())

    def free_bytes(self) -> int:
        """What the file system has left for us."""
        fields = os.statvfs(self.path)
        return fields.f_bavail * fields.f_frsize

    def disk_bytes(self) -> int | None:
        """What all files of the directory take, whoever wrote them; None if it cannot be read any
        more."""
        total = 0
        with self._threads:
            self._follow()
        try:
            entries = self._entries()
        except OSError:
            return None
        for path in entries:
            with contextlib.suppress(FileNotFoundError):  # another process removed it meanwhile
                total += file_bytes(path)
        return total

    def close(self) -> None:
        """Let the directory go; idempotent."""
        with self._threads:
            for fd in {self._fd, self._lock_fd} - {-1}:
                os.close(fd)
            self._fd = self._lock_fd = -1


def _is_segment(path: Path) -> bool:
    return path.suffix == SUFFIX and path.is_file()


def file_bytes(path: Path) -> int:
    """What one file takes: its blocks, or its length where that is more."""
    fields = path.stat(follow_symlinks=False)
    return max(fields.st_blocks * 512, fields.st_size) if stat.S_ISREG(fields.st_mode) else 0


def hold(fd: int) -> bool:
    """Make the file behind `fd` ours; False if another process, or store, has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def still_there(fd: int, path: Path) -> bool:
    """Whether `path` is the file behind `fd`: another process may have removed it before we had
    the lock."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def removed_fault(file: OpenFile) -> Fault | None:
    """Whether an open file has no name any more, and so ends with this process. One whose directory
    was moved has one."""
    if not file.hold():
        return None
    try:
        if os.fstat(file.fd).st_nlink:
            return None
    except OSError as error:
        return fault_of(error, file.path)
    finally:
        file.let_go()
    detail = "deleted while it was in use: its blocks are lost; leave the directory to the store"
    return Fault(FaultKind.MISSING, f"{file.path}: {detail}")


def unusable(path: Path, error: OSError, read_only: bool) -> InputError:
    """One line for whoever named this directory."""
    verb = "read" if read_only else "written to"
    reason = link_trouble(path) or (error.strerror or str(error)).lower()
    return InputError(
        f"the directory of a file store cannot be {verb}: {reason}; name one that you own, on a "
        "file system that is not mounted read-only",
        path=path,
    )
