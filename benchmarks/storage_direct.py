"""Contenders of `storage.py` that pass by the page cache: fio, NIXL, LMCache and DeepSpeed.

Those that write Python bytes from our memory are compared byte by byte; fio moves its own.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from storage_peers import Absent, Buffer, Contender, needed

from tiermem.runtime.io import native


class DeepSpeed(Contender):
    """DeepSpeed's async_io handle, two threads, 1 MiB pieces, depth 32, a file a block."""

    def start(self) -> None:
        with needed():
            import torch
            from deepspeed.ops.op_builder import AsyncIOBuilder

            library = AsyncIOBuilder().load(verbose=False)
        self.torch = torch
        self.handle = library.aio_handle(1 << 20, 32, False, True, 2)

    def _all(self, blocks: Sequence[Buffer], call: Any) -> None:
        for number, block in enumerate(blocks):
            assert call(self.torch.from_numpy(block), str(self.folder / str(number)), 0) == 0
        self.handle.wait()

    def write(self, blocks: Sequence[Buffer]) -> None:
        self._all(blocks, self.handle.async_pwrite)
        for number in range(self.count):
            fd = os.open(self.folder / str(number), os.O_RDWR)
            os.fdatasync(fd)
            os.close(fd)

    def read(self, blocks: Sequence[Buffer]) -> None:
        self._all(blocks, self.handle.async_pread)


class Nixl(Contender):
    """NIXL's POSIX plug-in, io_uring, one file, pieces of at most 1 MiB, polled without a pause."""

    def start(self) -> None:
        with needed():
            self.agent = native._agent()
        flags = os.O_RDWR | os.O_CREAT | os.O_DIRECT
        self.fd = os.open(self.folder / "a", flags)
        self.known = self.agent.register_memory([(0, 1 << 62, self.fd, "")], "FILE")

    def _all(self, blocks: Sequence[Buffer], operation: str) -> None:
        step = min(self.size, 1 << 20)
        memory, places = [], []
        for number, block in enumerate(blocks):
            base = block.ctypes.data
            for at in range(0, self.size, step):
                memory.append((base + at, step, 0))
                places.append((number * self.size + at, step, self.fd))
        agent, handles = self.agent, []
        for at in range(0, len(memory), 64):
            descriptors = [
                agent.get_xfer_descs(np.array(rows[at : at + 64], dtype=np.uint64), kind)
                for rows, kind in ((memory, "DRAM"), (places, "FILE"))
            ]
            handles.append(agent.initialize_xfer(operation, *descriptors, agent.name))
            assert agent.transfer(handles[-1]) != "ERR"
            if len(handles) == 4:
                self._end(handles.pop(0))
        for handle in handles:
            self._end(handle)

    def _end(self, handle: Any) -> None:
        while self.agent.check_xfer_state(handle) == "PROC":
            pass
        handle.release()

    def write(self, blocks: Sequence[Buffer]) -> None:
        self._all(blocks, "WRITE")
        os.fdatasync(self.fd)

    def read(self, blocks: Sequence[Buffer]) -> None:
        self._all(blocks, "READ")

    def close(self) -> None:
        self.agent.deregister_memory(self.known)
        os.close(self.fd)


class LMCacheFiles(Contender):
    """LMCache's fs_native: its C++ workers, O_DIRECT, a file a block."""

    def start(self) -> None:
        with needed():
            from lmcache.lmcache_fs import LMCacheFSClient
        self.client = LMCacheFSClient(str(self.folder), 4, "", True, 0)
        self.keys = [f"model@0x00000001@0@{number:032x}" for number in range(self.count)]
        self.poll = select.poll()
        self.poll.register(self.client.event_fd(), select.POLLIN)

    def _ended(self) -> None:
        while not (done := self.client.drain_completions()):
            self.poll.poll(60_000)
        assert all(entry[1] for entry in done), done[0]

    def before_write(self) -> None:
        """It skips what is there, so a rewrite is new files over new space."""
        self.client.submit_batch_delete(self.keys)
        self._ended()

    def write(self, blocks: Sequence[Buffer]) -> None:
        self.client.submit_batch_set(self.keys, [memoryview(block) for block in blocks])
        self._ended()
        for path in self.folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDWR)
                os.fdatasync(fd)
                os.close(fd)

    def read(self, blocks: Sequence[Buffer]) -> None:
        self.client.submit_batch_get(self.keys, [memoryview(block) for block in blocks])
        self._ended()

    def close(self) -> None:
        self.client.close()


class LMCacheRaw(Contender):
    """LMCache's RawBlockCore over one file, io_uring, O_DIRECT, zero copy, no checkpoint."""

    def start(self) -> None:
        with needed():
            import torch
            from lmcache.v1.storage_backend import raw_block as raw
        if find_spec("lmcache_rust_raw_block_io") is None:
            raise Absent("lmcache-rust-raw-block-io is not installed")
        self.torch = torch
        slot = self.size + 4096
        path = self.folder / "a"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, slot * (self.count + 1) + (64 << 20))
        config = raw.RawBlockCoreConfig(
            device_path=str(path),
            capacity_bytes=path.stat().st_size,
            block_align=4096,
            header_bytes=4096,
            slot_bytes=slot,
            use_odirect=True,
            enable_zero_copy=True,
            meta_total_bytes=16 << 20,
            meta_magic=b"TIERMEMB",
            meta_version=1,
            meta_checkpoint_interval_sec=3600,
            meta_idle_quiet_ms=1000,
            meta_enable_periodic=False,
            meta_verify_on_load=False,
            load_checkpoint_on_init=False,
            io_engine="io_uring",
        )
        self.core = raw.RawBlockCore(config, key_namespace="legacy")
        self.specs = [raw.RawBlockKeySpec(f"{n}", n + 1) for n in range(self.count)]
        self.names = [spec.encoded for spec in self.specs]

    def _objects(self, blocks: Sequence[Buffer]) -> list[Any]:
        metadata = SimpleNamespace(
            shape=self.torch.Size([self.size]),
            dtype=self.torch.uint8,
            cached_positions=None,
            fmt=None,
        )
        return [
            SimpleNamespace(
                byte_array=memoryview(block), data_ptr=block.ctypes.data, metadata=metadata
            )
            for block in blocks
        ]

    def before_write(self) -> None:
        self.core.delete_many(self.names)

    def write(self, blocks: Sequence[Buffer]) -> None:
        assert all(self.core.put_many(self.specs, self._objects(blocks)).results)
        fd = os.open(self.folder / "a", os.O_RDWR)
        os.fdatasync(fd)
        os.close(fd)

    def read(self, blocks: Sequence[Buffer]) -> None:
        assert all(self.core.load_many_into(self.names, self._objects(blocks)))

    def close(self) -> None:
        self.core.close()


class Fio(Contender):
    """fio: what the device gives. It moves its own bytes, so nothing of it can be compared. Its
    memory is on huge pages like everyone's here: on small ones it reads at a quarter of its speed.
    """

    checked = False
    engine, depth = "libaio", 8

    def start(self) -> None:
        if shutil.which("fio") is None:
            raise Absent("no fio on the path (Debian package fio)")
        self.core_s = self.wall_s = 0.0

    def _run(self, kind: str) -> None:
        command = [
            *("fio", "--name=a", f"--filename={self.folder / 'a'}", f"--rw={kind}", "--direct=1"),
            *(f"--bs={self.size}", f"--size={self.size * self.count}", "--output-format=json"),
            *(f"--ioengine={self.engine}", f"--iodepth={min(self.depth, self.count)}"),
            *("--iomem=malloc", "--iomem_align=2m"),
            *(("--overwrite=1",) if kind == "write" else ()),
        ]
        environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        out = run.stdout
        (job,) = json.loads(out[out.index("{") :])["jobs"]
        self.wall_s = self.size * self.count / job[kind]["bw_bytes"]
        self.core_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000

    def write(self, blocks: Sequence[Buffer]) -> None:
        self._run("write")
        start = time.perf_counter()
        fd = os.open(self.folder / "a", os.O_RDWR)
        os.fdatasync(fd)
        os.close(fd)
        self.wall_s += time.perf_counter() - start

    def read(self, blocks: Sequence[Buffer]) -> None:
        self._run("read")


def fio(engine: str, depth: int) -> type[Fio]:
    """fio with this engine and depth."""
    return type(f"Fio{engine}{depth}", (Fio,), {"engine": engine, "depth": depth})
