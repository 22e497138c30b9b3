"""Which path moves the bytes of a directory: the first one that proved it, and why not the others.

Every path is proved in the directory it is for, by a transfer (`proving.py`) and never by an
import. What was refused says its reason and what can be done.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tiermem.errors import TierUnavailable
from tiermem.runtime.io import paths
from tiermem.runtime.io.directory import IN_MEMORY, LAYERED, inspect, mount_of
from tiermem.runtime.io.proving import Proof, prove
from tiermem.runtime.io.seam import FileIO, IoPath

ORDER = (
    IoPath.GDS,
    IoPath.KVIKIO,
    IoPath.NATIVE,
    IoPath.POSIX_DIRECT,
    IoPath.POSIX_BUFFERED,
)
"""Fastest to device memory first; for host memory see docs/decisions/0014."""

INSTALL = {
    IoPath.GDS: "pip install 'tiermem[cu13]' (or cu12)",
    IoPath.KVIKIO: "pip install 'tiermem[cu13]' (or cu12)",
    IoPath.NATIVE: "pip install 'tiermem[native]'",
}

Prove = Callable[[Path, IoPath], Proof]


class Refusal(NamedTuple):
    """A path that is not taken: why, and what can be done about it."""

    path: IoPath
    reason: str
    next_step: str


class Chosen(NamedTuple):
    """The path of a directory. `io` is shared by the whole process: nobody closes it."""

    io: FileIO
    path: IoPath
    refused: tuple[Refusal, ...]


_chosen: dict[tuple[int, int, IoPath | None], Chosen] = {}
_lock = threading.Lock()


def choose(directory: Path, *, prefer: IoPath | None = None) -> Chosen:
    """The first path of `ORDER` that works in `directory`, `prefer` before all others.

    Found out once for each device and process. Raises `InputError` for a directory that cannot be
    used at all, `TierUnavailable` where no path works.
    """
    inspect(directory)
    key = (os.getpid(), directory.stat().st_dev, prefer)
    with _lock:
        if key not in _chosen:
            _chosen[key] = _first(directory, prefer)
        return _chosen[key]


def _first(directory: Path, prefer: IoPath | None) -> Chosen:
    path, refused = elect(directory, prefer=prefer)
    return Chosen(paths.make(path), path, refused)


def elect(
    directory: Path, *, prefer: IoPath | None = None, proved: Prove = prove
) -> tuple[IoPath, tuple[Refusal, ...]]:
    """`choose` without a cache, and without making the path in this process."""
    order = ORDER if prefer is None else (prefer, *(path for path in ORDER if path is not prefer))
    refused: list[Refusal] = []
    for path in order:
        refusal = _beforehand(path)
        if refusal is None:
            proof = proved(directory, path)
            if not proof.reason:
                return path, tuple(refused)
            refusal = Refusal(path, proof.reason, next_step(directory, path, proof.reason))
        refused.append(refusal)
    last = refused[-1]
    raise TierUnavailable(
        f"{directory}: no way to write and read files works here; {last.path}: {last.reason};"
        f" {last.next_step}"
    )


def _beforehand(path: IoPath) -> Refusal | None:
    """Paths that need no transfer to be refused, or must not even be tried."""
    if not paths.installed(path):
        missing = paths.MODULES[path]
        return Refusal(path, f"the package {missing} is not installed", INSTALL[path])
    if path in (IoPath.GDS, IoPath.KVIKIO) and under_wsl():
        reason = "under WSL the GPUDirect library ends the process even in its compatibility mode"
        return Refusal(path, reason, "nothing to do: the other paths need no GPUDirect")
    if path is IoPath.GDS and not nvidia_devices():
        reason = "no NVIDIA device (/dev/nvidia0)"
        return Refusal(path, reason, "give the process a GPU; host memory needs none")
    return None


def under_wsl(release: str | None = None) -> bool:
    """Whether this kernel is the Windows Subsystem for Linux."""
    return "microsoft" in (release or platform.release()).lower()


def nvidia_devices(folder: Path = Path("/dev")) -> list[str]:
    """The GPUs whose device files this process sees."""
    return sorted(path.name for path in folder.glob("nvidia[0-9]*"))


def next_step(directory: Path, path: IoPath, reason: str, *, udev: Path = Path("/run/udev")) -> str:
    """What a person can do about `reason`."""
    mount = mount_of(directory)
    local = "put the directory on a local ext4 or XFS file system"
    steps: Sequence[tuple[bool, str]] = (
        ("libcuda" in reason, "install the NVIDIA driver; without one the other paths are right"),
        ("O_DIRECT" in reason and mount.filesystem in IN_MEMORY, f"{mount}: {local}"),
        ("O_DIRECT" in reason, f"{mount} does not do direct I/O: {local}"),
        ("compatibility mode" in reason or "GPUDirect" in reason, _gds_step(directory)),
        ("io_uring" in reason, "allow io_uring: kernel.io_uring_disabled=0, seccomp profile"),
        ("Permission denied" in reason, f"give this user write permission in {directory}"),
        ("Read-only" in reason, f"mount {mount.point} for writing, or choose another directory"),
        ("No space" in reason, f"make room on {mount}: a proof takes 5 MB for a moment"),
        ("RLIMIT_FSIZE" in reason, "raise it (ulimit -f unlimited) for this process"),
        ("did not end" in reason, f"look for I/O that hangs on {mount} (dmesg, /proc/PID/stack)"),
        (path in paths.MODULES and not udev.exists(), _UDEV),
        (mount.filesystem in LAYERED, f"{mount}: mount a volume of the host instead"),
        (path in paths.MODULES, "the other paths do not need this library"),
    )
    return next((step for applies, step in steps if applies), f"look at {mount} (dmesg)")


_UDEV = "mount /run/udev into the container (-v /run/udev:/run/udev:ro)"


def _gds_step(directory: Path) -> str:
    mount = mount_of(directory)
    if mount.filesystem not in ("ext4", "xfs"):
        return f"GPUDirect Storage wants ext4 or XFS on a local NVMe drive; this is {mount}"
    return "install nvidia-fs and check it with gdscheck -p; host memory needs none"
