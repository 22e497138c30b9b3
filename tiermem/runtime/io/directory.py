"""What a directory is, before a byte is moved: is it there, may we write, which file system, room.

All of it is asked in the first second, so that a wrong path is not found out after a long load.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

from tiermem.errors import InputError
from tiermem.units import format_bytes

MOUNTS = Path("/proc/self/mountinfo")

IN_MEMORY = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"}
OVER_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "lustre", "virtiofs"}
LAYERED = {"overlay", "aufs", "fuse.fuse-overlayfs", "ecryptfs"}


class Mount(NamedTuple):
    """One line of mountinfo: where a file system begins, and what it is."""

    point: str
    filesystem: str
    source: str
    read_only: bool

    def __str__(self) -> str:
        kinds = {"memory": IN_MEMORY, "the network": OVER_NETWORK, "a container layer": LAYERED}
        where = [f" ({kind})" for kind, names in kinds.items() if self.filesystem in names]
        return f"{self.filesystem}{''.join(where)} on {self.source}"


class Place(NamedTuple):
    """A directory that can be used."""

    directory: Path
    mount: Mount
    free_bytes: int
    total_bytes: int


def mount_of(directory: Path, mounts: Path = MOUNTS) -> Mount:
    """The file system that `directory` lies in; of type `unknown` where the kernel does not say.

    The last line of mountinfo that fits wins: later mounts hide earlier ones. proc(5).
    """
    place = os.path.realpath(directory)
    found = Mount("/", "unknown", "unknown", False)
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        point = _unescaped(fields[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found.point):
            read_only = "ro" in fields[5].split(",") or "ro" in kind[2].split(",")
            found = Mount(point, kind[0], _unescaped(kind[1]), read_only)
    return found


def inspect(directory: Path, *, needed_bytes: int = 0) -> Place:
    """The directory as it is, or one `InputError` that says what is wrong with it."""
    if not os.path.lexists(directory):
        raise InputError("there is no such directory; make it first", path=directory)
    if not directory.is_dir():
        said = link_trouble(directory) or "this is not a directory"
        raise InputError(said, path=directory)
    mount = mount_of(directory)
    if mount.read_only or os.statvfs(directory).f_flag & os.ST_RDONLY:
        said = f"the file system is mounted read-only ({mount}); choose another directory"
        raise InputError(said, path=directory)
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        owner = directory.stat()
        raise InputError(
            f"no permission to read and write here: it belongs to user {owner.st_uid} with mode"
            f" {owner.st_mode & 0o7777:o}, and this is user {os.geteuid()}",
            path=directory,
        )
    space = os.statvfs(directory)
    free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
    if free < needed_bytes:
        said = f"{format_bytes(free)} free ({free:,} bytes), {format_bytes(needed_bytes)} needed"
        raise InputError(f"{said}; make room or choose another directory", path=directory)
    return Place(directory, mount, free, total)


def link_trouble(path: Path) -> str | None:
    """Why a symbolic link leads nowhere; None if it does not, or is none."""
    if not path.is_symlink():
        return None
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a symbolic link that leads back to itself"
        if error.errno == errno.ENOENT:
            return f"a symbolic link to {os.readlink(path)}, which is not there"
    return None


def _unescaped(field: str) -> str:
    """mountinfo writes blanks, tabs, line ends and backslashes as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
