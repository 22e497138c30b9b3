"""A tap that counts: the counters of `tiermem.runtime.counters` as a fold over the log.

It sees what every other tap sees, events with their actions, and nothing else; so a log that was
written down gives the same counters again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tiermem.core.messages import (
    Acquire,
    Action,
    Adopt,
    Commit,
    Deny,
    Done,
    Drop,
    Event,
    Move,
    Ready,
    Release,
)
from tiermem.runtime.counters import NONE, Count, Counters
from tiermem.runtime.sums import Sums, TierSums

REMEMBERED_LOSSES = 1 << 16
"""Blocks of which it is remembered why the last copy went, to say why a lookup missed."""

_UPWARDS = ("fetch", "prefetch")


class Tally:
    """A tap that counts. `tiers` are the names, fastest first; any thread may take a snapshot."""

    def __init__(self, tiers: Sequence[str]) -> None:
        self._mutex = threading.Lock()
        self._tiers = {name: TierSums() for name in tiers}
        self._below = dict(pairwise(tiers))
        self._leases: dict[int, Acquire] = {}
        self._ready: set[int] = set()
        self._moves: dict[int, tuple[Move, tuple[int, ...]]] = {}  # with the sizes of its blocks
        self._gone: OrderedDict[int, str] = OrderedDict()  # block -> why its last copy went
        self._asked, self._missed, self._granted = Sums(), Sums(), 0
        self._events: dict[type, Callable[[int, Any, Sequence[Action]], None]] = {
            Adopt: self._adopt,
            Commit: self._commit,
            Done: self._done,
            Release: self._release,
        }
        self._actions: dict[type, Callable[[int, Any, Event], None]] = {
            Move: self._move,
            Drop: self._drop,
            Ready: self._answer,
            Deny: self._deny,
        }

    def __call__(self, now: int, event: Event, actions: Sequence[Action]) -> None:
        """Count one event with its answer."""
        with self._mutex:
            if type(event) is Acquire:
                self._leases[event.lease] = event
            elif (take := self._events.get(type(event))) is not None:
                take(now, event, actions)
            for action in actions:
                if (count := self._actions.get(type(action))) is not None:
                    count(now, action, event)

    def failed(self, tier: str, kind: str, blocks: int = 1) -> None:
        """The executor saw `blocks` fail at `tier`; `failed` itself counts from the log."""
        with self._mutex:
            faults = self._tiers[tier].faults
            faults[kind] = faults.get(kind, 0) + blocks

    def snapshot(self) -> Counters:
        """The counters now, as a value."""
        with self._mutex:
            return Counters(
                {name: tier.snapshot() for name, tier in self._tiers.items()},
                self._granted,
                self._asked.count("asked"),
                self._missed.counts(),
            )

    # -- events ----------------------------------------------------------------------------------

    def _adopt(self, now: int, event: Adopt, actions: Sequence[Action]) -> None:
        tier = self._tiers[event.tier]
        tier.hold(event.blocks, event.sizes)
        tier.words.add("adopted", len(event.blocks), sum(event.sizes))

    def _commit(self, now: int, event: Commit, actions: Sequence[Action]) -> None:
        """The missing blocks exist from now on; a rewritten one is stored anew."""
        lease = self._leases[event.lease]
        tier = self._tiers[lease.at]
        blocks, sizes = _missing(tier, lease.blocks, lease.sizes)
        if blocks:
            tier.words.add("stored", len(blocks), tier.hold(blocks, sizes))
            self._back(blocks)
        again = set(event.rewritten).difference(blocks)
        if again:
            pairs = zip(lease.blocks, lease.sizes, strict=True)
            nbytes = sum([size for block, size in pairs if block in again])
            for word in ("offered", "admitted", "stored"):
                tier.words.add(word, len(again), nbytes)

    def _done(self, now: int, event: Done, actions: Sequence[Action]) -> None:
        move, sizes = self._moves.pop(event.id, (None, ()))
        if move is None:
            return
        source, target = self._tiers[move.source], self._tiers[move.target]
        upwards = move.cause in _UPWARDS
        if upwards:
            source.load(-1, now)
        target.arriving.difference_update(move.blocks)
        blocks: Sequence[int] = move.blocks
        if not event.ok:
            lost = set(event.result or blocks)
            pairs = list(zip(blocks, sizes, strict=True))
            failed = [size for block, size in pairs if block in lost]
            (source if upwards else target).words.add("failed", len(failed), sum(failed))
            blocks = [block for block, _ in pairs if block not in lost]
            sizes = tuple(size for block, size in pairs if block not in lost)
        target.hold(blocks, sizes)
        self._back(blocks)
        target.words.add("promoted" if upwards else "stored", len(blocks), sum(sizes))
        if upwards:
            source.words.add("loaded", len(blocks), sum(sizes))

    def _release(self, now: int, event: Release, actions: Sequence[Action]) -> None:
        lease = self._leases.pop(event.lease, None)
        if lease is None:
            return
        if event.lease not in self._ready:
            self._refuse(lease.at, "gave_up", len(lease.blocks), sum(lease.sizes))
        unwritten = [a for a in actions if isinstance(a, Drop) and a.cause == "unwritten"]
        if unwritten:
            sizes = dict(zip(lease.blocks, lease.sizes, strict=True))
            for blocks, tier, cause in unwritten:
                nbytes = sum([sizes[block] for block in blocks])
                self._tiers[tier].dropped.add(cause, len(blocks), nbytes)
        self._ready.discard(event.lease)

    # -- actions ---------------------------------------------------------------------------------

    def _move(self, now: int, move: Move, event: Event) -> None:
        source, target = self._tiers[move.source], self._tiers[move.target]
        self._moves[move.id] = move, tuple(map(source.held.__getitem__, move.blocks))
        target.arriving.update(move.blocks)
        if move.cause in _UPWARDS:
            source.load(1, now)
        else:
            for word in ("offered", "admitted"):
                target.words.add(word, len(move.blocks), move.nbytes)

    def _drop(self, now: int, drop: Drop, event: Event) -> None:
        if drop.cause == "unwritten":
            return  # was never a copy; its lease has the sizes
        tier, blocks = self._tiers[drop.tier], len(drop.blocks)
        nbytes = tier.let_go(drop.blocks)
        if type(event) is Adopt:  # found, and more than fits
            self._refuse(drop.tier, drop.cause, blocks, nbytes)
        elif drop.cause in ("evict", "moved", "clean", "no_room"):
            tier.words.add("evicted", blocks, nbytes)
            lower = self._below.get(drop.tier)
            if lower is not None and drop.cause in ("evict", "no_room"):
                why = "policy" if drop.cause == "evict" else "no_room"
                self._refuse(lower, why, blocks, nbytes)
        if drop.cause == "moved":
            tier.words.add("demoted", blocks, nbytes)
            return
        tier.dropped.add(drop.cause, blocks, nbytes)
        self._remember(drop.blocks, drop.cause)

    def _answer(self, now: int, ready: Ready, event: Event) -> None:
        """A lease is filled: only now is it known what was a hit."""
        self._ready.add(ready.lease)
        lease = self._leases[ready.lease]
        here, sizes = self._tiers[lease.at], lease.sizes
        self._granted += 1
        self._asked.add("asked", len(sizes), sum(sizes))
        hits: dict[str, Count] = {}
        first = 0
        for name, blocks in ready.hits:
            before = hits.get(name, NONE)
            nbytes = sum(sizes[first : first + blocks])
            hits[name] = Count(before.blocks + blocks, before.nbytes + nbytes)
            first += blocks
        left = Count(len(sizes), sum(sizes))
        for name in (lease.at, *(name for name in self._tiers if name != lease.at)):
            found = hits.get(name, NONE)
            self._tiers[name].words.add("looked_up", *left)
            self._tiers[name].words.add("hit", *found)
            left = Count(left.blocks - found.blocks, left.nbytes - found.nbytes)
        if first < len(sizes):
            self._miss(lease.blocks[first:], sizes[first:])
            new, own = _missing(here, lease.blocks[first:], sizes[first:])
            for word in ("offered", "admitted"):
                here.words.add(word, len(new), sum(own))

    def _deny(self, now: int, deny: Deny, event: Event) -> None:
        lease = self._leases.pop(deny.lease)
        why = "too_large" if type(event) is Acquire else "stuck"
        self._refuse(lease.at, why, len(lease.blocks), sum(lease.sizes))

    # -- small steps -----------------------------------------------------------------------------

    def _refuse(self, tier: str, why: str, blocks: int, nbytes: int) -> None:
        self._tiers[tier].words.add("offered", blocks, nbytes)
        self._tiers[tier].refused.add(why, blocks, nbytes)

    def _miss(self, blocks: Sequence[int], sizes: Sequence[int]) -> None:
        """Book why each of these is no hit."""
        nowhere = self._nowhere(blocks)
        if len(nowhere) == len(blocks) and self._gone.keys().isdisjoint(nowhere):
            self._missed.add("new", len(blocks), sum(sizes))
            return
        gap = False
        for block, nbytes in zip(blocks, sizes, strict=True):
            gone = block in nowhere
            there = "gap" if gap else "recompute"
            self._missed.add(self._gone.get(block, "new") if gone else there, 1, nbytes)
            gap = gap or gone

    def _remember(self, blocks: Sequence[int], cause: str) -> None:
        """Why the last copies of some of these went, newest last."""
        for block in self._nowhere(blocks):
            self._gone.pop(block, None)
            self._gone[block] = cause
        while len(self._gone) > REMEMBERED_LOSSES:
            self._gone.popitem(last=False)

    def _back(self, blocks: Sequence[int]) -> None:
        """There are copies of these again."""
        if self._gone and not self._gone.keys().isdisjoint(blocks):
            for block in blocks:
                self._gone.pop(block, None)

    def _nowhere(self, blocks: Sequence[int]) -> set[int]:
        """Those of which no tier has a readable copy."""
        found = set(blocks)
        for tier in self._tiers.values():  # one by one: each walks the blocks, not the tier
            found = found.difference(tier.held)
        return found


def _missing(
    tier: TierSums, blocks: Sequence[int], sizes: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Those of a lease's blocks that are its holder's to write, with their sizes."""
    if tier.held.keys().isdisjoint(blocks) and tier.arriving.isdisjoint(blocks):
        return blocks, sizes
    held, arriving = tier.held, tier.arriving
    pairs = zip(blocks, sizes, strict=True)
    own = [pair for pair in pairs if pair[0] not in held and pair[0] not in arriving]
    return [block for block, _ in own], [size for _, size in own]
