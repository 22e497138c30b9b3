"""Small scattered pieces in one native submission each batch: NIXL's POSIX plug-in with io_uring.

A Python thread for each piece costs more than a small transfer takes, so where pieces do not lie
next to each other in the file a ring is cheaper. Where they do, one long call of a thread is the
cheapest of all: those pieces go the way of `posix`. What a batch has met the plug-in does not say
piece by piece; a batch with an error is done again by `posix`, which does.

NIXL has no call that waits, so this one polls, ever more rarely. A request that is past its
deadline is kept, with its memory and its file, until the kernel has answered it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiermem.runtime.io import seam
from tiermem.runtime.io.pool import THREADS, Answer, Pool, bounds, overlap, runs, sorted_by_place
from tiermem.runtime.io.posix import move
from tiermem.runtime.io.seam import IoPath, OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault, FaultKind

SMALL_RUN_BYTES = 256 << 10
"""Runs of neighbours below this are scattered pieces. Measured: docs/decisions/0014."""

RING_PIECES_LEAST = 16
"""So many scattered pieces make a batch worth the ring; fewer are as fast in threads."""

GROUP_PIECES = 64  # NIXL submits so many at once and the rest only when polled
GROUPS_AHEAD = 4  # fill the plug-in's kernel queue of 256
LATE_MOST = 4  # requests that hang before everything is refused

_POLL_S, _POLL_MOST_S = 20e-6, 500e-6
_HOST_MEMORY = [(4096, (1 << 47) - 8192, 0, "")]  # the plug-in pins nothing: register it all, once
_WHOLE_FILE = 1 << 62


class Request(NamedTuple):
    """One submission that the kernel has not answered yet."""

    handle: Any
    indices: list[int]
    pieces: list[Piece]


class NativeIO:
    """See `FileIO`. Raises ImportError without NIXL, RuntimeError where it finds no io_uring."""

    path = IoPath.NATIVE

    def __init__(self, *, threads: int = THREADS) -> None:
        self._agent = _agent()
        self._lock = threading.Lock()  # the agent is not thread-safe
        self._late: list[Request] = []
        self._process = os.getpid()
        self._closed = False
        self.pool = Pool(self.path, move, threads)

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OpenFile:
        """Open a file, or raise OSError: EINVAL where O_DIRECT is refused."""
        plain = seam.open_file(path, create=create, read_only=read_only, direct=True)
        return _Registered(plain, self._agent, self._lock)

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Answer]:
        """See `FileIO.transfer`."""
        end = time.monotonic() + deadline_s
        refused = self._refusal()
        if refused is not None:
            return [refused] * len(pieces)
        answers: list[Answer] = [None] * len(pieces)
        long: list[int] = []
        scattered: list[int] = []
        for run in runs(pieces, sorted_by_place(pieces)):
            small = sum(pieces[index].nbytes for index in run) < SMALL_RUN_BYTES
            (scattered if small else long).extend(run)
        if len(scattered) < RING_PIECES_LEAST:
            long, scattered = long + scattered, []
        again = self._ring(pieces, scattered, answers, end)
        rest = long + again
        if rest:
            left = max(0.0, end - time.monotonic())
            found = self.pool.transfer([pieces[index] for index in rest], left)
            for index, answer in zip(rest, found, strict=True):
                answers[index] = answer
        return answers

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """See `FileIO.holds`."""
        self._settle()
        with self._lock:
            late = [each for request in self._late for each in request.pieces]
        return self.pool.holds(buffers) or overlap(buffers, late)

    def aligned(self, nbytes: int) -> Buffer:
        """Whole pages."""
        return seam.aligned(nbytes)

    def close(self) -> None:
        """Take no more transfers and end the threads."""
        self._closed = True
        self.pool.close()

    def _refusal(self) -> Fault | None:
        if self._closed:
            return seam.closed(self.path)
        if self._process != os.getpid():
            return Fault(FaultKind.CLOSED, f"{self.path}: opened before a fork; open it again")
        self._settle()
        if len(self._late) >= LATE_MOST:
            detail = f"{self.path}: {len(self._late)} earlier requests hang in the kernel"
            return Fault(FaultKind.TIMEOUT, detail)
        return None

    def _ring(
        self, pieces: Sequence[Piece], wanted: list[int], answers: list[Answer], end: float
    ) -> list[int]:
        """Transfer `wanted`; the indices of those that must be done again to know what they met."""
        groups = self._groups(pieces, wanted, answers)
        flying: deque[Request] = deque()
        try:
            return self._fly(pieces, groups, flying, answers, end)
        finally:
            with self._lock:  # not one is left, but after a deadline or a mistake in a check
                self._late.extend(flying)

    def _fly(
        self,
        pieces: Sequence[Piece],
        groups: Iterator[list[int]],
        flying: deque[Request],
        answers: list[Answer],
        end: float,
    ) -> list[int]:
        again: list[int] = []
        while True:
            while len(flying) < GROUPS_AHEAD and (group := next(groups, None)) is not None:
                request = self._post(pieces, group)
                if request is None:
                    again += group
                else:
                    flying.append(request)
            if not flying:
                return again
            state = self._wait(flying[0], end)
            if state == "PROC":
                for index in chain(*(request.indices for request in flying), *groups):
                    answers[index] = seam.late(pieces[index].file.path)
                return again
            request = flying.popleft()
            self._end(request)
            if state == "DONE":
                for index, piece in zip(request.indices, request.pieces, strict=True):
                    if piece.check is not None and not piece.write:
                        answers[index] = piece.check()
            else:
                again += request.indices

    def _groups(
        self, pieces: Sequence[Piece], wanted: list[int], answers: list[Answer]
    ) -> Iterator[list[int]]:
        """`wanted` cut to what one request takes; the checks before a write are done."""
        group: list[int] = []
        for index in wanted:
            piece = pieces[index]
            if piece.write and piece.check is not None:
                answers[index] = piece.check()
            if answers[index] is not None:
                continue
            if group and (len(group) == GROUP_PIECES or pieces[group[0]].write != piece.write):
                yield group
                group = []
            group.append(index)
        if group:
            yield group

    def _post(self, pieces: Sequence[Piece], group: list[int]) -> Request | None:
        """Give one group to the kernel; None where NIXL, or a closed file, refused it."""
        held: list[Piece] = []
        memory, places = [], []
        for index in group:
            piece = pieces[index]
            if not piece.file.hold():
                break
            held.append(piece)
            offset = piece.offset
            for buffer in piece.buffers:
                start, after = bounds(buffer)
                memory.append((start, after - start, 0))
                places.append((offset, after - start, piece.file.direct_fd))
                offset += after - start
        if len(held) == len(group):
            handle = self._submit(held[0].write, memory, places)
            if handle is not None:
                return Request(handle, group, held)
        for piece in held:
            piece.file.let_go()
        return None

    def _submit(self, write: bool, memory: list[Any], places: list[Any]) -> Any:
        agent = self._agent
        with self._lock:
            try:
                handle = agent.initialize_xfer(
                    "WRITE" if write else "READ",
                    agent.get_xfer_descs(np.array(memory, dtype=np.uint64), "DRAM"),
                    agent.get_xfer_descs(np.array(places, dtype=np.uint64), "FILE"),
                    agent.name,
                )
                return handle if agent.transfer(handle) != "ERR" else None
            except Exception:  # of NIXL's bindings, which share no class
                return None

    def _state(self, request: Request) -> str:
        with self._lock:
            try:
                return str(self._agent.check_xfer_state(request.handle))
            except Exception:  # all its transfers have ended, one or more of them badly
                return "ERR"

    def _wait(self, request: Request, end: float) -> str:
        """DONE, ERR, or PROC when the time is up."""
        pause = _POLL_S
        while (state := self._state(request)) == "PROC" and time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 1.5, _POLL_MOST_S)
        return state

    def _end(self, request: Request) -> None:
        with self._lock:
            request.handle.release()
        for piece in request.pieces:
            piece.file.let_go()

    def _settle(self) -> None:
        """Let go of late requests that have ended meanwhile."""
        if not self._late:
            return
        landed = [request for request in self._late if self._state(request) != "PROC"]
        for request in landed:
            self._late.remove(request)
            self._end(request)


class _Registered(OpenFile):
    """A file that NIXL knows by its descriptor."""

    def __init__(self, plain: OpenFile, agent: Any, lock: threading.Lock) -> None:
        super().__init__(plain.path, plain.fd, plain.direct_fd)
        self._agent, self._agent_lock = agent, lock
        with lock:
            place = [(0, _WHOLE_FILE, self.direct_fd, "")]
            self._registration = agent.register_memory(place, "FILE")

    def _release(self) -> None:
        with self._agent_lock:
            self._agent.deregister_memory(self._registration)
        super()._release()


def _agent() -> Any:
    os.environ.setdefault("NIXL_LOG_LEVEL", "FATAL")  # its errors come back to us as answers
    import nixl_cu12 as nixl

    name = f"tiermem-{os.getpid()}"
    config = nixl.nixl_agent_config(enable_prog_thread=False, backends=[])
    agent = nixl.nixl_agent(name, config)
    agent.create_backend("POSIX", {"use_uring": "true"})
    agent.register_memory(_HOST_MEMORY, "DRAM")
    return agent
