"""Handles of others and of the past, wrong arguments, and what is done after the end."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tiermem.errors import InputError, TiermemError
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TensorLost

Make = Callable[..., TieredMemory]


def test_a_handle_of_another_memory_is_refused(make: Make) -> None:
    """Both count their blocks from zero: it would read, or delete, another tensor."""
    one, other = make("64 KiB"), make("64 KiB")
    mine, theirs = one.put(torch.zeros(8)), other.put(torch.ones(8))
    assert mine.block == theirs.block
    for use in (one.get, one.free, lambda handle: one.lease(handle).__enter__()):
        with pytest.raises(
            InputError, match=r"TieredTensor\(\(8,\), torch.float32\) is of another"
        ):
            use(theirs)
    with pytest.raises(InputError, match="of another"):
        one.borrow((mine, theirs))
    wrong: Any = 3
    with pytest.raises(InputError, match="3 is not a TieredTensor"):
        one.get(wrong)
    assert mine.load().eq(0).all()
    assert theirs.load().eq(1).all()


def test_a_tensor_that_was_replaced_is_lost(make: Make) -> None:
    """Its handle says so at once, frees nothing of what came after it, and the memory goes on."""
    memory = make("64 KiB", "16 MiB")
    first = memory.put(torch.zeros(8), name="n")
    memory.put(torch.ones(8), name="n")
    memory.flush()
    with pytest.raises(TensorLost, match=r"'n', .* was replaced or freed"):
        first.load()
    newest = memory.put(torch.full((8,), 2.0), name="n")  # where the label of the first was
    first.free()
    memory.put(torch.full((8,), 3.0), name="n").load()
    newest.free()  # never durable, and replaced
    memory.flush()
    found = memory.find("n")
    assert found is not None
    assert found.load().eq(3).all()


def test_a_tensor_that_was_freed_by_its_name_is_lost(make: Make) -> None:
    """All handles of one tensor end with it."""
    memory = make("64 KiB", "16 MiB")
    handle = memory.put(torch.ones(8), name="n")
    found = memory.find("n")
    assert found is not None
    found.free()
    for use in (handle.load, lambda: handle.lease().__enter__()):
        with pytest.raises(TensorLost, match="'n'"):
            use()
    later = memory.put(torch.zeros(8), name="n")
    handle.free()
    assert later.load().eq(0).all()
    assert memory.find("n") is not None


def test_a_copy_of_a_handle_takes_nothing_along(make: Make) -> None:
    """There is none."""
    memory = make("64 KiB")
    handle = memory.put(torch.ones(8))
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(InputError, match="neither copied nor pickled"):
            copied(handle)
    memory.collect()
    assert handle.load().eq(1).all()


def test_closing_inside_a_lease_hides_no_exception(make: Make) -> None:
    """What the user did wrong is what is raised; freeing afterwards changes nothing."""
    memory = make("64 KiB", "16 MiB")
    handle = memory.put(torch.ones(8), name="n")
    with pytest.raises(ZeroDivisionError), handle.lease():  # noqa: PT012
        memory.close()
        raise ZeroDivisionError
    handle.free()
    handle.free()
    with pytest.raises(TiermemError):
        handle.load()
    assert make("64 KiB", "16 MiB").find("n") is not None


def test_a_memory_that_is_not_made_leaves_nothing(make: Make) -> None:
    """No thread and no open file, whatever it was that failed."""

    def left() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    make("64 KiB", "4 MiB").close()
    before = left()
    for policy in ("nope", "lru:nope=1", "tests.nothing:Here"):
        with pytest.raises(TiermemError):
            make("1 MiB", "4 MiB", policy=policy)
    assert left() == before


WRONG: tuple[tuple[str, Any], ...] = (
    *(("policy", wrong) for wrong in (None, 3)),
    *(("codec", wrong) for wrong in (3, b"int8")),
    *(("identity", wrong) for wrong in (None, 3, b"x")),
    *(("timeout_s", wrong) for wrong in (float("inf"), float("nan"), 0, -1, "3")),
    ("taps", 3),
    *(("disk", wrong) for wrong in ("", "a\0b", "\ud800", 3)),
)


@pytest.mark.parametrize(("key", "wrong"), WRONG)
def test_arguments_are_looked_at(key: str, wrong: Any, tmp_path: Path) -> None:
    """Each is named, in one line, before a folder is made."""
    given: Any = {"disk": tmp_path / "disk", key: wrong}
    with pytest.raises(InputError, match=f"^{key}: "):
        TieredMemory("64 KiB", disk_bytes="4 MiB", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", ["", 3, b"n", "\ud800"])
def test_names_are_text(make: Make, wrong: Any) -> None:
    """Of at least one letter."""
    memory = make("64 KiB", "4 MiB")
    with pytest.raises(InputError, match=r"^name: "):
        memory.put(torch.ones(2), name=wrong)
    with pytest.raises(InputError, match=r"^name: "):
        memory.find(wrong)
    assert memory.status()["held"]["blocks"] == 0
