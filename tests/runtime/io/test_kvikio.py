"""kvikio's own code over host memory, under a stub driver where there is no GPU.

This is kvikio under a stub, not GPUDirect: that needs a GPU and runs under the marker `gds`.
kvikio weighs 2 GB, so the test extra leaves it out; `.ci/run` adds it in a second step, with
TIERMEM_REQUIRE_KVIKIO=1, and then these tests do not skip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiermem.runtime.io import choose, paths
from tiermem.runtime.io.proving import prove
from tiermem.runtime.io.seam import IoPath

HERE = Path(__file__).parent
REQUIRED = os.environ.get("TIERMEM_REQUIRE_KVIKIO") == "1"


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not paths.installed(IoPath.KVIKIO):
        assert not REQUIRED, "TIERMEM_REQUIRE_KVIKIO=1, and kvikio is not installed"
        pytest.skip("kvikio is not installed (2 GB; see .ci/run)")


@pytest.fixture
def environment(stub_driver: Path) -> dict[str, str]:
    """As ours, with the stub on the loader's path."""
    return {**os.environ, "LD_LIBRARY_PATH": str(stub_driver), "TIERMEM_STUB_DRIVER": "1"}


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    """A child of this Python, within two minutes."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_doctor_says_kvikio(environment: dict[str, str], direct_directory: Path) -> None:
    """Its proving transfer works, so it is the path; why GPUDirect is not is said."""
    child = run(environment, "-m", "tiermem", "doctor", direct_directory, "--json")
    assert child.returncode == 0, child.stderr
    document = json.loads(child.stdout)
    assert document["io_path"] == "kvikio"
    assert [each["io_path"] for each in document["refused"]] == ["gds"]
    assert all(speed["read_cold"] for speed in document["bandwidth"])


def test_kvikio_reads_and_writes_every_size(
    environment: dict[str, str], direct_directory: Path
) -> None:
    """1 B to 32 MiB, byte-equal, and it is kvikio that moved them: its calls are counted."""
    child = run(environment, HERE / "kvikio_counts.py", direct_directory)
    assert child.returncode == 0, child.stderr
    found = [json.loads(line) for line in child.stdout.splitlines()]
    assert {each["size"] for each in found} >= {1, 511, 512, 513, 4097, 8_388_609, 32 << 20}
    for each in found:
        assert each["equal"], each
        pieces = -(-each["size"] // (2 << 20)) if each["by"] == "seam" else 1
        assert (each["pread"], each["pwrite"]) == (pieces, pieces), each


def test_the_seam_holds_over_kvikio(environment: dict[str, str]) -> None:
    """The contract of every path, run again with kvikio's host path."""
    child = run(
        environment,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "kvikio"),
        *(HERE / "test_seam_contract.py", "--rootdir", HERE.parent.parent.parent),
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert " passed" in child.stdout
    assert "skipped" not in child.stdout


def test_an_import_proves_nothing(direct_directory: Path) -> None:
    """Without a driver kvikio can be imported and every transfer fails: it is refused."""
    if choose.nvidia_devices():
        pytest.skip("this machine has a GPU")
    proof = prove(direct_directory, IoPath.KVIKIO)
    assert "libcuda.so.1" in proof.reason
    path, refused = choose.elect(direct_directory)
    assert path in (IoPath.NATIVE, IoPath.POSIX_DIRECT)
    (refusal,) = [each for each in refused if each.path is IoPath.KVIKIO]
    assert "driver" in refusal.next_step


@pytest.mark.gds
def test_gpudirect_moves_device_memory(direct_directory: Path) -> None:
    """On a machine with GPUDirect Storage the proving transfer of device memory works."""
    if not choose.nvidia_devices():
        pytest.skip("no NVIDIA device: no GPU has run this yet")
    assert prove(direct_directory, IoPath.GDS).reason == ""
