"""What a grant lets its holder do, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tiermem.runtime.runtime import Runtime


@pytest.fixture
def runtime(arena: Callable[..., Any], dict_store: Callable[..., Any]) -> Iterator[Runtime]:
    with Runtime({"dram": arena(4 * 4096), "nvme": dict_store(1 << 20)}, timeout_s=20) as made:
        yield made


def write(runtime: Runtime, name: int, nbytes: int = 10) -> int:
    block = runtime.block(bytes([name]) * 16, nbytes)
    with runtime.acquire([block]) as grant:
        for view in grant.views(block):
            view[:] = name
        grant.commit()
    return block


def test_what_is_missing_is_the_holders_to_write(runtime: Runtime) -> None:
    """What is there is to be read, and where it came from is said."""
    old = write(runtime, 1)
    new = runtime.block(b"n" * 16, 10)
    with runtime.acquire([old, new]) as grant:
        assert (grant.ready_blocks, grant.missing) == (1, {new})
        assert grant.hits == (("dram", 1),)
        assert bytes(grant.views(old)[0]) == bytes([1]) * 10


def test_without_a_commit_nothing_stays(runtime: Runtime) -> None:
    """A block that was never written is as if it had never been asked for."""
    block = runtime.block(b"n" * 16, 10)
    with runtime.acquire([block]):
        pass
    with runtime.acquire([block]) as grant:
        assert grant.ready_blocks == 0
    assert runtime.known([b"n" * 16]) == 0


def test_after_the_release_there_is_nothing_to_see(runtime: Runtime) -> None:
    """The bytes are somebody else's by then; releasing again changes nothing."""
    block = write(runtime, 1)
    grant = runtime.acquire([block])
    grant.release()
    grant.release()
    with pytest.raises(AssertionError, match="released"):
        grant.views(block)
    with pytest.raises(AssertionError, match="released"):
        grant.commit()


def test_a_rewritten_block_is_what_it_was_changed_to(runtime: Runtime) -> None:
    """Its copy in the file is dropped, so that the old bytes never come back."""
    block = write(runtime, 1)
    assert runtime.flush() == 0
    with runtime.acquire([block]) as grant:
        grant.views(block)[0][:] = 9
        grant.commit(rewritten=[block])
    for other in range(10, 16):  # enough to push it out of memory
        write(runtime, other)
    with runtime.acquire([block]) as grant:
        assert grant.hits == (("nvme", 1),)
        assert bytes(grant.views(block)[0]) == bytes([9]) * 10
