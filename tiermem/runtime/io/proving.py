"""Whether a path works in a directory: bytes written, read back and compared, in a child process.

A library that can be imported may still fail, hang, lie or end the process at its first transfer,
so the transfer is made where that hurts nobody and with a limit on its time. Run as a program this
file is the child: `python -m tiermem.runtime.io.proving PATH FILE`, one JSON line on stdout.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiermem.runtime.io import pagecache, seam
from tiermem.runtime.io.paths import make
from tiermem.runtime.io.seam import FileIO, IoPath, OpenFile, Piece
from tiermem.runtime.stores import Buffer

LIMIT_S = 20.0

_SIZES = (4096, 65536, seam.PIECE_BYTES, seam.PIECE_BYTES, 12288)
_TRANSFER_S = 15.0  # the child's own limit, so that it can still say what hung
_children: list[subprocess.Popen[str]] = []  # that could not be ended: they hang in the kernel


class Proof(NamedTuple):
    """What the child found: it works (`reason` empty), or why not."""

    reason: str
    direct: bool = False  # the page cache was passed by


def prove(directory: Path, path: IoPath, *, limit_s: float = LIMIT_S) -> Proof:
    """Make a proving transfer over `path` in `directory`, and leave nothing there."""
    file = directory / f".tiermem-proof-{os.getpid()}-{os.urandom(4).hex()}"
    command = [sys.executable, "-m", "tiermem.runtime.io.proving", path, str(file)]
    root = str(Path(__file__).parents[3])
    known = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(known)},
            start_new_session=True,
        )
        return _verdict(child, limit_s)
    finally:
        with contextlib.suppress(OSError):
            file.unlink()


def _verdict(child: subprocess.Popen[str], limit_s: float) -> Proof:
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            child.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            _children.append(child)
        return Proof(f"the proving transfer did not end within {limit_s:g} s")
    lines = out.splitlines()
    if child.returncode == 0 and lines:
        with contextlib.suppress(ValueError, TypeError):
            return Proof(**json.loads(lines[-1]))
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        return Proof(f"the proving transfer's process was ended by {name}{_last(err)}")
    return Proof(f"the proving transfer's process ended with {child.returncode}{_last(err)}")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""


def transfer(path: IoPath, file: Path) -> Proof:
    """The child's part: the transfer itself, in this process."""
    try:
        io = make(path)
        opened = io.open(file, create=True)
    except ImportError as error:
        return Proof(" ".join(str(error).split()))
    except OSError as error:
        return Proof(_refused(path, error))
    except Exception as error:  # whatever a library raises
        return Proof(" ".join(str(error).split()) or type(error).__name__)
    try:
        return _round_trip(io, opened)
    finally:
        opened.close()


def _refused(path: IoPath, error: OSError) -> str:
    if error.errno == errno.EINVAL and path is not IoPath.POSIX_BUFFERED:
        return "the file system refuses O_DIRECT"
    return error.strerror or str(error)


def _round_trip(io: FileIO, opened: OpenFile) -> Proof:
    total = sum(_SIZES)
    wanted = np.frombuffer(os.urandom(total), dtype=np.uint8)
    source, target = _memory(io, total)
    _copy(source, wanted)
    for write, memory in ((True, source), (False, target)):
        pieces, offset = [], 0
        for size in _SIZES:
            pieces.append(Piece(opened, offset, (memory[offset : offset + size],), write))
            offset += size
        for fault in io.transfer(pieces, _TRANSFER_S):
            if fault is not None:
                return Proof(fault.detail.replace(f"{opened.path}: ", ""))
        if write:
            pagecache.drop(opened.fd)
    # The page cache may have kept some pages of the metadata's neighbours: a few are no matter.
    direct = pagecache.resident_share(opened.fd, 0, total) < 0.1
    if not np.array_equal(_host(target), wanted):
        return Proof("the bytes that were read are not those that were written")
    if os.pread(opened.fd, total, 0) != wanted.tobytes():
        return Proof("the bytes in the file are not those that were written")
    if not direct and io.path is not IoPath.POSIX_BUFFERED:
        return Proof("O_DIRECT is accepted and ignored: the pages are in the page cache")
    return Proof("", direct)


def _memory(io: FileIO, nbytes: int) -> tuple[Any, Any]:
    if io.path is not IoPath.GDS:
        return io.aligned(nbytes), io.aligned(nbytes)
    import torch

    source, target = (torch.zeros(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    return source, target


def _copy(memory: Any, wanted: Buffer) -> None:
    if isinstance(memory, np.ndarray):
        memory[: wanted.size] = wanted
        return
    import torch

    memory.copy_(torch.from_numpy(wanted.copy()))
    torch.cuda.synchronize()


def _host(memory: Any) -> Buffer:
    if isinstance(memory, np.ndarray):
        return memory[: sum(_SIZES)]
    found: Buffer = memory.cpu().numpy()
    return found


def main(arguments: list[str]) -> int:
    """The child: one JSON line; 0 whatever it says."""
    proof = transfer(IoPath(arguments[0]), Path(arguments[1]))
    print(json.dumps(proof._asdict()), flush=True)
    # Not `sys.exit`: a thread that hangs in a library must not keep the child from ending.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
