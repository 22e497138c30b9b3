"""The choice: by proof, in order, with a reason and a next step for each refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem.errors import InputError, TierUnavailable
from tiermem.runtime.io import choose, paths
from tiermem.runtime.io.choose import ORDER, Refusal, elect, next_step, nvidia_devices, under_wsl
from tiermem.runtime.io.directory import Mount
from tiermem.runtime.io.proving import Proof
from tiermem.runtime.io.seam import IoPath

Prove = Callable[[Path, IoPath], Proof]


@pytest.fixture(autouse=True)
def _everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a GPU in the machine, and no choice of an earlier test."""
    monkeypatch.setattr(paths, "installed", lambda _: True)
    monkeypatch.setattr(choose, "nvidia_devices", lambda: ["nvidia0"])
    monkeypatch.setattr(choose, "under_wsl", lambda: False)
    monkeypatch.setattr(choose, "_chosen", {})


def working(*good: IoPath, seen: list[IoPath] | None = None) -> Prove:
    """A proof that only `good` paths pass."""

    def prove(_: Path, path: IoPath) -> Proof:
        if seen is not None:
            seen.append(path)
        return Proof("" if path in good else "broken", True)

    return prove


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_the_first_that_works_is_taken(tmp_path: Path, number: int) -> None:
    """Those before it are refused, in order; those after it are not tried."""
    seen: list[IoPath] = []
    path, refused = elect(tmp_path, proved=working(*ORDER[number:], seen=seen))
    assert path is ORDER[number]
    assert [each.path for each in refused] == list(ORDER[:number])
    assert seen == list(ORDER[: number + 1])
    assert all(each.reason == "broken" and each.next_step for each in refused)


def test_a_preferred_path_comes_first_and_still_has_to_prove_itself(tmp_path: Path) -> None:
    """Without it the order is as ever."""
    plain = IoPath.POSIX_BUFFERED
    assert elect(tmp_path, prefer=plain, proved=working(*ORDER)) == (plain, ())
    path, refused = elect(tmp_path, prefer=plain, proved=working(IoPath.GDS))
    assert path is IoPath.GDS
    assert [each.path for each in refused] == [plain]


def test_none_at_all_is_one_line(tmp_path: Path) -> None:
    """It names the directory, and the reason of the simplest path."""
    with pytest.raises(TierUnavailable, match="posix_buffered: broken") as found:
        elect(tmp_path, proved=working())
    assert str(tmp_path) in str(found.value)
    assert "\n" not in str(found.value)


def test_wsl_is_refused_before_anything_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known fault 96: there the library ends whatever process loads it."""
    monkeypatch.setattr(choose, "under_wsl", lambda: True)
    seen: list[IoPath] = []
    path, refused = elect(tmp_path, proved=working(*ORDER, seen=seen))
    assert path is IoPath.NATIVE
    assert seen == [IoPath.NATIVE]
    assert all("WSL" in each.reason for each in refused)


def test_what_is_not_installed_says_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra of this project, by name."""
    monkeypatch.setattr(paths, "installed", lambda path: path not in paths.MODULES)
    path, refused = elect(tmp_path, proved=working(*ORDER))
    assert path is IoPath.POSIX_DIRECT
    assert refused[2] == Refusal(
        IoPath.NATIVE, "the package nixl_cu12 is not installed", "pip install 'tiermem[native]'"
    )


def test_no_gpu_means_no_proof_of_gpudirect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no device memory to move."""
    monkeypatch.setattr(choose, "nvidia_devices", list)
    path, refused = elect(tmp_path, proved=working(*ORDER))
    assert path is IoPath.KVIKIO
    assert [each.path for each in refused] == [IoPath.GDS]


@pytest.mark.parametrize(
    ("filesystem", "path", "reason", "step"),
    [
        ("ext4", "kvikio", "libcuda.so.1: cannot open shared object file", "NVIDIA driver"),
        ("tmpfs", "posix_direct", "O_DIRECT is accepted and ignored", "tmpfs (memory)"),
        ("overlay", "posix_direct", "the file system refuses O_DIRECT", "overlay (a container"),
        ("overlay", "kvikio", "internal error", "/run/udev"),
        ("nfs4", "gds", "GPUDirect Storage is not available", "nfs4 (the network)"),
        ("xfs", "gds", "the cuFile driver says that GPUDirect Storage is not", "gdscheck"),
        ("ext4", "native", "Failed to initialize io_uring instance", "io_uring_disabled"),
        ("ext4", "posix_buffered", "Permission denied", "write permission"),
        ("ext4", "posix_buffered", "Read-only file system", "for writing"),
        ("ext4", "posix_buffered", "No space left on device", "make room"),
        ("ext4", "posix_direct", "the proving transfer did not end within 20 s", "hangs"),
        ("ext4", "posix_buffered", "Input/output error", "dmesg"),
    ],
)
def test_each_refusal_has_a_next_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    filesystem: str,
    path: str,
    reason: str,
    step: str,
) -> None:
    """Known faults 94, 95, 97, 102: it names the file system, the missing mount or the setting."""
    monkeypatch.setattr(choose, "mount_of", lambda _: Mount("/mnt", filesystem, "/dev/x", False))
    assert step in next_step(tmp_path, IoPath(path), reason, udev=tmp_path / "none")


def test_the_choice_is_made_once_for_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two directories of one device share path and threads: stores do not multiply them (known
    fault 99)."""
    seen: list[IoPath] = []
    proof = working(IoPath.POSIX_BUFFERED, seen=seen)

    def elected(directory: Path, *, prefer: IoPath | None = None) -> object:
        return elect(directory, prefer=prefer, proved=proof)

    monkeypatch.setattr(choose, "elect", elected)
    (tmp_path / "a").mkdir()
    first, second = choose.choose(tmp_path), choose.choose(tmp_path / "a")
    assert first.io is second.io
    assert first.path is IoPath.POSIX_BUFFERED
    assert seen == list(ORDER)
    with pytest.raises(InputError, match="no such directory"):
        choose.choose(tmp_path / "b")
    first.io.close()


def test_wsl_is_known_by_its_kernel() -> None:
    """As Microsoft names it."""
    assert under_wsl("5.15.90.1-microsoft-standard-WSL2")
    assert not under_wsl("6.1.0-18-amd64")


def test_gpus_are_known_by_their_device_files(tmp_path: Path) -> None:
    """nvidia0 and its like; the control device alone is none."""
    for name in ("nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert nvidia_devices(tmp_path) == ["nvidia0", "nvidia1"]
