"""Files, buffers and one `FileIO` for each path that this machine has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.io import paths, seam
from tiermem.runtime.io.seam import FileIO, IoPath
from tiermem.runtime.stores import Buffer

STUB = "TIERMEM_STUB_DRIVER"  # set by test_kvikio.py, which runs the contract under a stub driver
HOST_PATHS: tuple[IoPath, ...] = (IoPath.POSIX_DIRECT, IoPath.POSIX_BUFFERED, IoPath.NATIVE)
if STUB in os.environ:
    HOST_PATHS = (*HOST_PATHS, IoPath.KVIKIO)


@pytest.fixture
def random_bytes() -> Callable[..., Buffer]:
    """`random_bytes(nbytes, seed=0)`: the same for the same seed, in aligned memory."""

    def made(nbytes: int, seed: int = 0) -> Buffer:
        memory = seam.aligned(nbytes)[:nbytes]
        memory[:] = np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)
        return memory

    return made


def _require(path: IoPath, directory: Path) -> None:
    """Skip where `path` cannot be had, with the reason."""
    if not paths.installed(path):
        pytest.skip(f"{paths.MODULES[path]} is not installed")
    if path is not IoPath.POSIX_BUFFERED:
        try:
            os.close(os.open(directory / "probe", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
        except OSError as error:
            pytest.skip(f"the temporary directory refuses O_DIRECT: {error.strerror}")


@pytest.fixture(params=HOST_PATHS)
def io(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileIO]:
    """Each path to host memory in turn."""
    _require(request.param, tmp_path)
    made = paths.make(request.param)
    yield made
    made.close()


@pytest.fixture
def direct_directory(tmp_path: Path) -> Path:
    """A directory whose file system takes O_DIRECT."""
    _require(IoPath.POSIX_DIRECT, tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def stub_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a CUDA driver library without a device, compiled now."""
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("stub_driver.c")
    command = ["gcc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        assert os.environ.get("TIERMEM_REQUIRE_KVIKIO") != "1", "no gcc to compile the stub with"
        pytest.skip("no gcc to compile the stub driver with")
    return folder
