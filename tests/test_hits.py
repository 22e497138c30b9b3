"""`count`: by hand on small traces, against its ceilings, and clear about mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem import hits, registry
from tiermem.errors import InputError, TiermemError, UnknownName
from tiermem.policies.lru import LRU
from tiermem.traces import synthetic
from tiermem.traces.trace import Trace, intern

Make = Callable[[list[list[int]]], Trace]


@pytest.fixture(scope="session")
def make() -> Make:
    """A trace of requests, each a list of ids that stand for one token."""

    def made(requests: list[list[int]]) -> Trace:
        counts = [len(blocks) for blocks in requests]
        return Trace(
            name="made",
            block_tokens=1,
            arrival_ns=np.arange(len(requests), dtype=np.int64),
            prompt_tokens=np.array(counts, dtype=np.int64),
            output_tokens=np.ones(len(requests), dtype=np.int64),
            block_ids=intern([block for blocks in requests for block in blocks]),
            block_offsets=np.array([0, *np.cumsum(counts)], dtype=np.int64),
            synthetic=True,
        )

    return made


@pytest.fixture(scope="session")
def small(make: Make) -> Trace:
    """A chain, another one, and the first again."""
    return make([[1, 2, 3], [4, 5], [1, 2, 3]])


def found(trace: Trace, policy: str, capacity: int, order: str = "reverse") -> tuple[int, int]:
    (row,) = hits.count(trace, [policy], [capacity], order)
    return row.block_hits, row.prefix_hits


def test_by_hand(small: Trace) -> None:
    """What is left of the chain 1 2 3 after 4 5 depends on the policy and on the order of use."""
    assert found(small, "lru", 4, "forward") == (0, 0)  # 5 pushes out 1, then 1 pushes out 2, ...
    assert found(small, "lru", 4, "reverse") == (2, 2)  # 3 was used first and left; 1 and 2 stayed
    assert found(small, "fifo", 4, "reverse") == (2, 2)
    for order in hits.ORDERS:
        assert found(small, "belady", 4, order) == (3, 3)  # 5 takes the place of 4
        assert found(small, "belady", 3, order) == (2, 2)  # 4 must enter, and 3 is used last
        assert found(small, "belady-bypass", 3, order) == (3, 3)  # 4 and 5 stay out
    assert found(small, "lru", 5) == found(small, "infinite", 1) == (3, 3)


def test_rows_keep_the_order_given(small: Trace) -> None:
    """Policies as given, capacities as given; infinite has one row, without a capacity."""
    rows = hits.count(small, ["s3fifo:small=0.2", "infinite", "lru"], [5, 2])
    assert [(row.policy, row.capacity_blocks, row.order) for row in rows] == [
        ("s3fifo:small=0.2", 5, "reverse"),
        ("s3fifo:small=0.2", 2, "reverse"),
        ("infinite", None, "reverse"),
        ("lru", 5, "reverse"),
        ("lru", 2, "reverse"),
    ]
    assert json.loads(json.dumps(rows[2].to_dict())) == {
        "policy": "infinite",
        "capacity_blocks": None,
        "order": "reverse",
        "references": 8,
        "block_hits": 3,
        "prefix_hits": 3,
    }


def test_a_policy_may_set_its_order(small: Trace) -> None:
    """`order=` of a spec wins over the call's, and the row says which order was used."""
    for policy in ("lru", "lfu", "belady", "infinite"):
        (row,) = hits.count(small, [f"{policy}:order=forward"], [4], "reverse")
        (plain,) = hits.count(small, [policy], [4], "forward")
        assert (row.order, row.block_hits) == ("forward", plain.block_hits)


@pytest.mark.parametrize("order", hits.ORDERS)
@settings(deadline=None, max_examples=25)
@given(
    requests=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=12),
    capacity=st.integers(1, 8),
)
def test_no_policy_passes_the_ceiling(
    make: Make, order: str, requests: list[list[int]], capacity: int
) -> None:
    """prefix hits <= block hits <= hits of the infinite cache, for every name there is."""
    trace = make(requests)
    (ceiling,) = hits.count(trace, ["infinite"], [], order)
    for row in hits.count(trace, [each["name"] for each in hits.policy_rows()], [capacity], order):
        assert row.prefix_hits <= row.block_hits <= ceiling.block_hits
        assert row.references == ceiling.references == sum(map(len, requests))


def test_array_code_equals_the_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """LRU and FIFO are counted without their classes; a subclass, which is run, agrees."""
    numbers = np.random.default_rng(5).zipf(1.4, 4000) % 300
    trace = make([list(map(int, part)) for part in np.array_split(numbers, 500)])

    class Run(LRU):
        pass

    monkeypatch.setitem(registry._registered, hits.GROUP, {"run-lru": Run})
    for order in hits.ORDERS:
        rows = hits.count(trace, ["lru", "run-lru"], [3, 40, 200], order)
        counts = [(row.block_hits, row.prefix_hits) for row in rows]
        assert counts[:3] == counts[3:]


@pytest.mark.parametrize(
    ("policies", "capacities", "order", "message"),
    [
        (["lru"], [0], "reverse", "capacity: 0 is not a number of blocks"),
        (["lru"], [-5], "reverse", "capacity: -5 is not a number of blocks"),
        (["lru"], [2.5], "reverse", "capacity: 2.5 is not a number of blocks"),
        (["lru"], [True], "reverse", "capacity: True is not a number of blocks"),
        (["lru"], [], "reverse", "no capacity was given"),
        ([], [10], "reverse", "no policy was named"),
        (["lru"], [10], "revers", "unknown order 'revers'; did you mean 'reverse'?"),
        (["lru:order=fwd"], [10], "reverse", "unknown order 'fwd'"),
        (["lru", "s3fifa"], [10], "reverse", "unknown policy 's3fifa'; did you mean 's3fifo'?"),
        (["beladi"], [10], "reverse", "unknown policy 'beladi'; did you mean 'belady'?"),
        (["belady:small=1"], [10], "reverse", "unknown parameter of 'belady'"),
        (["s3fifo:smal=0.1"], [10], "reverse", "'smal'; did you mean 'small'?"),
        (["s3fifo:small=2"], [10], "reverse", "s3fifo: small: 2 is not a share between 0 and 1"),
        (["lru:small=0.1"], [10], "reverse", "unknown parameter of policy 'lru'"),
        (["lru:place=waterfall"], [10], "reverse", "place= has no meaning for hits"),
        (["nothing_here:Sieve"], [10], "reverse", "no module 'nothing_here'"),
    ],
)
def test_mistakes_are_named_in_one_line(
    small: Trace, policies: list[str], capacities: list[int], order: str, message: str
) -> None:
    """Each wrong value, name or parameter is an InputError with the nearest valid name."""
    with pytest.raises(InputError) as caught:
        hits.count(small, policies, capacities, order)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_its_own_error(small: Trace) -> None:
    """Callers can tell a wrong name from a wrong value, and see the nearest one."""
    with pytest.raises(UnknownName) as caught:
        hits.count(small, ["lr"], [10])
    assert caught.value.nearest == "lru"


class Fails(LRU):
    """Raises in the midst of a run, with text over two lines."""

    def victims(self) -> Iterator[int]:
        raise KeyError("no\nidea")


class Refuses(LRU):
    """Cannot be made."""

    def __init__(self, capacity: int) -> None:
        raise RuntimeError("not today")


@pytest.mark.parametrize(
    ("policy", "message"),
    [(Fails, "policy 'mine' failed at 2 blocks: KeyError"), (Refuses, "RuntimeError: not today")],
)
def test_a_policy_that_raises_is_named(
    small: Trace, monkeypatch: pytest.MonkeyPatch, policy: type, message: str
) -> None:
    """Somebody's bug is one line with the policy's name and what it raised, not a traceback."""
    monkeypatch.setitem(registry._registered, hits.GROUP, {"mine": policy})
    with pytest.raises(TiermemError) as caught:
        hits.count(small, ["mine"], [2])
    assert message in str(caught.value)
    assert "'mine'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_policy_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name with its kind and a summary; a broken plug-in does not hide the others."""
    monkeypatch.setitem(registry._registered, hits.GROUP, {"mine": LRU})
    rows = {row["name"]: row for row in hits.policy_rows()}
    assert {"lru", "fifo", "lfu", "s3fifo", "mine", *hits.bounds()} <= set(rows)
    for name, row in rows.items():
        assert row["kind"] == ("bound" if name in hits.bounds() else "evict")
        assert row["simulate"] is (name not in hits.bounds())
        assert row["summary"].endswith(".")
    real = registry.find

    def find(group: str, target: str, *, kind: str) -> Any:
        if target == "mine":
            raise ImportError("gone")
        return real(group, target, kind=kind)

    monkeypatch.setattr(registry, "find", find)
    rows = {row["name"]: row for row in hits.policy_rows()}
    assert rows["mine"]["summary"] == "cannot be loaded: ImportError: gone"
    assert "lru" in rows


@pytest.mark.parametrize("ending", [SystemExit(0), GeneratorExit()], ids=repr)
def test_a_policy_cannot_end_the_process(
    ending: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What calls sys.exit() while it is counted has failed; Ctrl-C is nobody's failure."""

    class Leaves(LRU):
        raised: BaseException = ending

        def insert(self, block: int, size: int) -> None:
            raise self.raised

    monkeypatch.setitem(registry._registered, hits.GROUP, {"leaves": Leaves})
    trace = synthetic.chat(requests=3, seed=1)
    with pytest.raises(InputError, match="policy 'leaves' failed at 5 blocks: "):
        hits.count(trace, ["leaves"], [5])
    monkeypatch.setattr(Leaves, "raised", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        hits.count(trace, ["leaves"], [5])


def test_placement_is_left_out_for_hits() -> None:
    """A simulation's spec, as hits take it: without place and prefetch, all else as it was."""
    assert hits.without_placement("s3fifo:place=waterfall:small=0.2:order=forward") == (
        "s3fifo:small=0.2:order=forward"
    )
    assert hits.without_placement("desk:Mine:prefetch=none") == "desk:Mine"


def test_needs_nothing_heavy() -> None:
    """Counting loads neither pandas nor the simulator: it starts at once."""
    heavy = {"pandas", "pyarrow", "simpy", "matplotlib"}
    code = f"import sys, tiermem.hits; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
