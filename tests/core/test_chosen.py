"""From what a user writes to a policy: names, parameters, parts, files, and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiermem.core.messages import Hint
from tiermem.errors import InputError, UnknownName
from tiermem.policies.fifo import FIFO
from tiermem.policies.lfu import LFU
from tiermem.policies.lru import LRU
from tiermem.policies.s3fifo import S3FIFO
from tiermem.scenario import make_policy

ROOM = {"hbm": 100, "dram": 200}
WHOLE = '''
from tiermem.core.policy import Parts
from tiermem.policies.fifo import FIFO
from tiermem.policies.placement import NoPrefetch, Waterfall


class Whole(Parts):
    """A whole policy of one's own."""

    def __init__(self, capacities_bytes, share=0.5):
        super().__init__(FIFO, Waterfall(ahead=share), NoPrefetch(), capacities_bytes, "forward")


class Order(FIFO):
    """An eviction order of one's own."""
'''


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(WHOLE)
    return str(path)


@pytest.mark.parametrize(
    ("name", "kind"), [("lru", LRU), ("fifo", FIFO), ("lfu", LFU), ("s3fifo", S3FIFO)]
)
def test_built_ins_by_name(name: str, kind: type) -> None:
    """Each name gives its order, one for each tier; tail first, and the cheaper of fetch and
    recompute, unless told otherwise."""
    policy: Any = make_policy(name, ROOM)
    assert {tier: type(policy.evict(tier)) for tier in ROOM} == {"hbm": kind, "dram": kind}
    assert policy.touch_order == "reverse"
    assert "Cheapest" in policy.reuse.__qualname__


def test_the_parts_can_be_chosen() -> None:
    """`order`, `place` with its own parameters after a slash, and `prefetch`."""
    text = "lru:order=forward:place=waterfall/write_through=true/ahead=0.25:prefetch=hinted"
    policy: Any = make_policy(text, ROOM)
    assert policy.touch_order == "forward"
    assert policy.demote_ahead == 0.25
    assert "Waterfall" in policy.reuse.__qualname__
    assert tuple(policy.prefetch(Hint((1,), "hbm"), None)) == (1,)


def test_other_parameters_go_to_the_order() -> None:
    """What is not a part is the class's own, and checked by it."""
    assert isinstance(make_policy("s3fifo:small=0.3", ROOM).evict("hbm"), S3FIFO)
    with pytest.raises(InputError, match="small"):
        make_policy("s3fifo:small=2", ROOM)


def test_a_file_on_the_desk(file: str) -> None:
    """`path:Class` for an order, which is completed, or a whole policy, which is taken as it is."""
    order: Any = make_policy(f"{file}:Order:order=forward", ROOM)
    assert type(order.evict("hbm")).__name__ == "Order"
    assert order.touch_order == "forward"
    whole: Any = make_policy(f"{file}:Whole:share=0.125", ROOM)
    assert type(whole).__name__ == "Whole"
    assert whole.demote_ahead == 0.125


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lur", "lru"),
        ("lru:order=backward", "forward"),
        ("lru:place=watrefall", "waterfall"),
        ("lru:prefetch=all", "hinted"),
        ("lru:place=waterfall/aheed=0", "ahead"),
        ("lru:place=waterfall/ahead=2", "ahead"),
        ("lru:speed=2", "speed"),
        ("belady", "knows the future"),
        ("belady-bypass", "knows the future"),
        ("infinite", "knows the future"),
        ("math:floor", "neither victims"),
        ("", "NAME"),
    ],
)
def test_what_cannot_be_made_is_refused(text: str, words: str) -> None:
    """One line that names the nearest name, the key, or the reason."""
    with pytest.raises((InputError, UnknownName)) as error:
        make_policy(text, ROOM)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
