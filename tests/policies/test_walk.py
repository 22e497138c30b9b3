"""The walk along a queue: whole, in order, and no dearer than what it yields."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tiermem.policies.walk import front_first


class Counted(OrderedDict[int, None]):
    """Counts how many keys any iteration has looked at."""

    looked = 0

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.looked += 1
            yield key


@given(size=st.integers(0, 60), removed=st.sets(st.integers(0, 59)), late=st.booleans())
def test_every_key_once_whatever_is_removed(size: int, removed: set[int], late: bool) -> None:
    """Keys come oldest first, each once, while those yielded vanish at once or one step later."""
    queue = OrderedDict.fromkeys(range(size))
    seen: list[int] = []
    for key in front_first(queue):
        seen.append(key)
        gone = seen[-2] if late and len(seen) > 1 else key
        if gone in removed:
            queue.pop(gone, None)
    assert seen == list(range(size))


def test_cost_follows_what_was_asked_for() -> None:
    """The first key of a long queue costs one look, and k keys cost a small multiple of k."""
    queue = Counted.fromkeys(range(100_000))
    assert next(front_first(queue)) == 0
    assert queue.looked == 1
    walk = front_first(queue)
    for _ in range(1000):
        next(walk)
    assert queue.looked < 5000
