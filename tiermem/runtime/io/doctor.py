"""A directory's diagnosis: which path is at work, how fast it is, and why not a faster one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from tiermem.runtime.io import bandwidth, paths
from tiermem.runtime.io.bandwidth import Speed
from tiermem.runtime.io.choose import ORDER, Refusal, elect, nvidia_devices
from tiermem.runtime.io.directory import IN_MEMORY, Place, inspect
from tiermem.runtime.io.pool import THREADS
from tiermem.runtime.io.seam import IoPath

NEEDED_BYTES = 2 * bandwidth.FILE_BYTES_LEAST


class Gpu(NamedTuple):
    """Whether this process sees a GPU, and how that was found."""

    seen: bool
    detail: str


class Diagnosis(NamedTuple):
    """What `tiermem doctor` says."""

    place: Place
    path: IoPath
    threads: int
    speeds: list[Speed]
    copy_bytes_per_s: float
    gpu: Gpu
    refused: tuple[Refusal, ...]
    untried: tuple[IoPath, ...]
    seconds: float

    @property
    def in_memory(self) -> bool:
        """Whether no device stands behind this directory."""
        return self.place.mount.filesystem in IN_MEMORY

    def document(self) -> dict[str, Any]:
        """Strict JSON: units in the names, `io_path` one of the five."""
        mount = self.place.mount
        return {
            "directory": str(self.place.directory),
            "io_path": str(self.path),
            "io_threads": self.threads,
            "filesystem": mount.filesystem,
            "filesystem_source": mount.source,
            "in_memory": self.in_memory,
            "free_bytes": self.place.free_bytes,
            "total_bytes": self.place.total_bytes,
            "bandwidth": [
                {
                    "block_bytes": speed.size_bytes,
                    "write_bytes_per_s": round(speed.write_bytes_per_s),
                    "read_bytes_per_s": round(speed.read_bytes_per_s),
                    "read_cold": speed.cold,
                }
                for speed in self.speeds
            ],
            "host_copy_bytes_per_s": round(self.copy_bytes_per_s),
            "gpu_seen": self.gpu.seen,
            "gpu_detail": self.gpu.detail,
            "refused": [
                {"io_path": str(each.path), "reason": each.reason, "next_step": each.next_step}
                for each in self.refused
            ],
            "untried": [str(path) for path in self.untried],
            "seconds": round(self.seconds, 3),
        }


def diagnose(directory: Path, *, prefer: IoPath | None = None, threads: int = THREADS) -> Diagnosis:
    """Look, prove, measure; about ten seconds, and nothing is left in `directory`.

    Raises `InputError` within the first second for a directory that cannot be used.
    """
    start = time.monotonic()
    place = inspect(directory, needed_bytes=NEEDED_BYTES)
    path, refused = elect(directory, prefer=prefer)
    io = paths.make(path, threads=threads)
    try:
        room = min(bandwidth.FILE_BYTES, place.free_bytes // 2)
        speeds = bandwidth.measure(io, directory, file_bytes=room)
    finally:
        io.close()
    tried = {path, *(refusal.path for refusal in refused)}
    return Diagnosis(
        place,
        path,
        threads,
        speeds,
        bandwidth.copy_bytes_per_s(),
        find_gpu(),
        refused,
        tuple(each for each in ORDER if each not in tried),
        time.monotonic() - start,
    )


def find_gpu(devices: Path = Path("/dev"), proc: Path = Path("/proc/driver/nvidia")) -> Gpu:
    """By the driver's files alone: nothing of CUDA is started for it."""
    names = nvidia_devices(devices)
    try:
        version = (proc / "version").read_text(encoding="ascii", errors="replace").splitlines()[0]
    except (OSError, IndexError):
        version = ""
    if names:
        return Gpu(True, f"{', '.join(names)}; {version or 'driver version unknown'}")
    if version:
        return Gpu(False, f"a driver but no device file in {devices}; {version}")
    return Gpu(False, f"no NVIDIA driver and no device file in {devices}")
