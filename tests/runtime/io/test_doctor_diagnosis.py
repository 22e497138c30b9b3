"""The diagnosis: strict JSON, every fallback with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiermem.runtime.io import bandwidth, doctor
from tiermem.runtime.io.choose import ORDER
from tiermem.runtime.io.doctor import diagnose, find_gpu
from tiermem.runtime.io.seam import IoPath


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "FILE_BYTES", 16 << 20)
    monkeypatch.setattr(bandwidth, "_EACH_S", 0.05)


def test_the_diagnosis_is_whole(tmp_path: Path) -> None:
    """Every path is taken, refused with a next step, or untried; nothing is left behind."""
    found = diagnose(tmp_path, threads=2)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["io_path"] in [str(path) for path in IoPath]
    refused = [each["io_path"] for each in document["refused"]]
    told = [document["io_path"], *refused, *document["untried"]]
    assert sorted(told) == sorted(str(path) for path in ORDER)
    assert all(each["reason"] and each["next_step"] for each in document["refused"])
    assert document["io_threads"] == 2
    assert [row["block_bytes"] for row in document["bandwidth"]] == list(bandwidth.SIZES)
    assert list(tmp_path.iterdir()) == []


def test_a_preferred_path_is_taken(tmp_path: Path) -> None:
    """The page cache can always be asked for."""
    found = diagnose(tmp_path, prefer=IoPath.POSIX_BUFFERED)
    assert found.path is IoPath.POSIX_BUFFERED
    assert found.refused == ()


def test_gpus_are_found_without_cuda(tmp_path: Path) -> None:
    """By device files and the driver's version; a driver without a device is no GPU."""
    proc = tmp_path / "proc"
    assert not find_gpu(tmp_path, proc).seen
    proc.mkdir()
    (proc / "version").write_text("NVRM version: 580.1\nGCC\n")
    assert find_gpu(tmp_path, proc) == doctor.Gpu(
        False, f"a driver but no device file in {tmp_path}; NVRM version: 580.1"
    )
    (tmp_path / "nvidia0").touch()
    assert find_gpu(tmp_path, proc) == doctor.Gpu(True, "nvidia0; NVRM version: 580.1")
