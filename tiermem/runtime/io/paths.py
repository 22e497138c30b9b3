"""One `FileIO` for each path, by name. Nothing optional is loaded before it is asked for."""

from __future__ import annotations

from importlib.util import find_spec

from tiermem.runtime.io.kvikio import KvikioIO
from tiermem.runtime.io.native import NativeIO
from tiermem.runtime.io.pool import THREADS
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.seam import FileIO, IoPath

MODULES = {IoPath.GDS: "kvikio", IoPath.KVIKIO: "kvikio", IoPath.NATIVE: "nixl_cu12"}
"""What a path needs beyond Python."""


def installed(path: IoPath) -> bool:
    """Whether what `path` needs is there. It may still not work."""
    module = MODULES.get(path)
    return module is None or find_spec(module) is not None


def make(path: IoPath, *, threads: int = THREADS) -> FileIO:
    """The path as it is, unproved. Raises ImportError or RuntimeError where it cannot be had."""
    if path in (IoPath.GDS, IoPath.KVIKIO):
        return KvikioIO(device=path is IoPath.GDS, threads=threads)
    if path is IoPath.NATIVE:
        return NativeIO(threads=threads)
    return PosixIO(direct=path is IoPath.POSIX_DIRECT, threads=threads)
