"""The adversary: random histories against a controller, completions in any order, any of which
may fail. After every event the books are counted again.

Hand it any policy: `Adversary(policy_factory, seed_data).play(draw)`. It raises `AssertionError`
naming the invariant that broke. `draw(low, high)` returns an integer; in a hypothesis test it is
`lambda low, high: data.draw(st.integers(low, high))`, which then shrinks the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiermem.core.controller import Controller
from tiermem.core.lease import Lease, LeaseState
from tiermem.core.messages import (
    Acquire,
    Action,
    Adopt,
    Commit,
    Deny,
    Done,
    Drop,
    Event,
    Forget,
    Hint,
    Move,
    Ready,
    Release,
)
from tiermem.core.policy import Policy
from tiermem.models.topology import Topology

Draw = Callable[[int, int], int]


class Adversary:
    """Plays one random history against one controller."""

    def __init__(
        self,
        topology: Topology,
        capacities_bytes: dict[str, int],
        policy: Policy,
        draw: Draw,
        *,
        may_fail: bool = True,
    ) -> None:
        self.controller = Controller(topology, capacities_bytes, policy)
        self.history: list[tuple[int, Event, list[object]]] = []
        self._tiers = topology.names
        self._draw = draw
        self._may_fail = may_fail
        self._now = 0
        self._next_lease = 0
        self._asked: set[int] = set()  # acquired, not answered, not released
        self._answered: set[int] = set()  # ready, not released
        self._moves: dict[int, Move] = {}
        self._sizes: dict[int, int] = {}
        self._readable: set[int] = set()
        self._newest: dict[int, int] = {}  # how often each block was rewritten
        self._version: dict[tuple[str, int], int] = {}  # what the copies hold; -1 is torn

    def play(self, steps: int) -> None:
        """Make `steps` random moves, then let everything end, and look for what was left over."""
        choices = (
            *(self._acquire, self._acquire, self._acquire),
            *(self._answer, self._answer, self._answer),
            *(self._commit, self._commit, self._commit),
            *(self._release, self._release),
            *(self._hint, self._forget, self._adopt, self._rewrite),
        )
        for _ in range(steps):
            choices[self._draw(0, len(choices) - 1)]()
        self._wind_down()

    def _post(self, event: Event) -> None:
        self._now += self._draw(0, 3)
        actions = self.controller.on(event, self._now)
        self.history.append((self._now, event, list(actions)))
        for action in actions:
            match action:
                case Move():
                    assert action.id not in self._moves, "INV-5: an id is used once"
                    self._moves[action.id] = action
                    assert action.nbytes == sum(self._sizes[b] for b in action.blocks)
                    for block in action.blocks:
                        held = self._version.get((action.source, block), 0)
                        self._version[action.target, block] = held
                case Ready(lease) | Deny(lease):
                    assert lease in self._asked, "INV-6: a lease is answered once"
                    self._asked.discard(lease)
                    if isinstance(action, Ready):
                        self._answered.add(lease)
                        self._check_hits(action)
        self._check_losses(actions)
        self._count()

    def _check_hits(self, ready: Ready) -> None:
        lease = self.controller.leases[ready.lease]
        copies = self.controller.table.rooms[lease.at].copies
        hits = sum(blocks for _, blocks in ready.hits)
        assert hits <= len(lease.blocks)
        for block in lease.blocks[:hits]:
            assert copies[block].state.name != "ARRIVING", "a hit is readable"
            held = self._version.get((lease.at, block), 0)
            assert held == self._newest.get(block, 0), "a hit is what was written last"
        for block in lease.blocks:
            assert copies[block].pins > 0, "INV-3: a lease pins its blocks"

    def _check_losses(self, actions: Sequence[Action]) -> None:
        rooms = self.controller.table.rooms.values()
        readable = {
            b for room in rooms for b, c in room.copies.items() if c.state.name != "ARRIVING"
        }
        causes = ("evict", "no_room", "failed", "forget")
        drops = [action for action in actions if isinstance(action, Drop)]
        said = {block for drop in drops if drop.cause in causes for block in drop.blocks}
        assert self._readable - readable <= said, "INV-4: no last copy is lost without a reason"
        self._readable = readable

    def _count(self) -> None:
        scratch: dict[str, int] = {}
        for lease in self.controller.leases.values():
            if lease.state is not LeaseState.QUEUED:
                scratch[lease.at] = scratch.get(lease.at, 0) + lease.scratch_bytes
        self.controller.table.check(scratch)

    def _acquire(self) -> None:
        start, length = self._draw(0, 11), self._draw(1, 5)
        blocks = tuple(range(start, start + length))
        for block in blocks:
            self._sizes.setdefault(block, self._draw(1, 3))
        at = self._tiers[self._draw(0, len(self._tiers) - 1) if self._draw(0, 3) == 0 else 0]
        lease, self._next_lease = self._next_lease, self._next_lease + 1
        self._asked.add(lease)
        sizes = tuple(self._sizes[block] for block in blocks)
        self._post(Acquire(lease, blocks, sizes, at, self._draw(0, 3)))

    def _answer(self) -> None:
        if self._moves:
            index = self._draw(0, len(self._moves) - 1)
            move = self._moves.pop(sorted(self._moves)[index])
            ok = not (self._may_fail and self._draw(0, 5) == 0)
            part = None if ok else move.blocks[: self._draw(0, len(move.blocks))]
            self._post(Done(move.id, ok, part))

    def _commit(self) -> None:
        if self._answered:
            ready = sorted(self._answered)
            lease = self.controller.leases[ready[self._draw(0, len(ready) - 1)]]
            self._write(lease)
            self._post(Commit(lease.id))

    def _write(self, lease: Lease) -> None:
        for block, copy in zip(lease.blocks, lease.copies, strict=True):
            if copy.state.name == "ARRIVING":
                self._version[lease.at, block] = self._newest.get(block, 0)

    def _release(self) -> None:
        leases = sorted(self._answered | self._asked)
        if leases:
            lease = leases[self._draw(0, len(leases) - 1)]
            self._asked.discard(lease)
            self._answered.discard(lease)
            self._post(Release(lease))

    def _hint(self) -> None:
        start = self._draw(0, 11)
        self._post(Hint(tuple(range(start, start + 3)), self._tiers[0]))

    def _forget(self) -> None:
        tier = self._draw(0, len(self._tiers))
        self._post(Forget((self._draw(0, 15),), (*self._tiers, None)[tier]))

    def _adopt(self) -> None:
        """Something is found in the lowest tier; a block somebody knows already is not new."""
        tier, block = self._tiers[-1], self._draw(0, 15)
        rooms = self.controller.table.rooms
        if not any(block in room.copies for room in rooms.values()):
            size = self._sizes.setdefault(block, self._draw(1, 3))
            self._version[tier, block] = self._newest.get(block, 0)
            self._post(Adopt((block,), (size,), tier))

    def _rewrite(self) -> None:
        """The holder of a lease changes one of its blocks in place; moves of it are torn."""
        if not self._answered:
            return
        ready = sorted(self._answered)
        lease = self.controller.leases[ready[self._draw(0, len(ready) - 1)]]
        block = lease.blocks[self._draw(0, len(lease.blocks) - 1)]
        rooms = self.controller.table.rooms
        copies = [room.copies.get(block) for name, room in rooms.items() if name != lease.at]
        if any(copy is not None and copy.pins for copy in copies):
            return
        for move in self._moves.values():
            if move.source == lease.at and block in move.blocks:
                self._version[move.target, block] = -1
        self._write(lease)
        self._newest[block] = self._newest.get(block, 0) + 1
        self._version[lease.at, block] = self._newest[block]
        self._post(Commit(lease.id, (block,)))

    def _wind_down(self) -> None:
        """Answer every move, release every lease that is ready: nobody may be left waiting."""
        for _ in range(100_000):
            if self._moves:
                move = self._moves.pop(min(self._moves))
                self._post(Done(move.id, True))
            elif self._answered:
                lease = min(self._answered)
                self._answered.discard(lease)
                self._post(Release(lease))
            else:
                break
        assert not self._asked, f"INV-6: leases {sorted(self._asked)} were left waiting"
        assert not self.controller.leases, "a released lease is forgotten"
        for room in self.controller.table.rooms.values():
            assert room.pinned_bytes == 0, "nothing is pinned when nobody holds a lease"
            for copy in room.copies.values():
                assert copy.state.name == "READY", "nothing is on its way when nothing moves"
                assert copy.ranked, "a copy that can leave is known to the eviction order"
