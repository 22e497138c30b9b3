"""The log: what every event and action said, in columns, with times. One schema for both bodies.

A `Log` is a tap on the driver. It costs a few appended integers per message; every table and
metric is a fold over it afterwards.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiermem.core.messages import (
    Action,
    Begin,
    Done,
    Drop,
    Emit,
    Event,
    Move,
    Reject,
    Run,
    Submit,
)
from tiermem.core.table import Room

CAUSES = ("fetch", "demote", "write", "prefetch")
DROPS = ("evict", "clean", "no_room", "forget", "failed", "unwritten", "stale", "moved")
_CAUSE = {cause: index for index, cause in enumerate(CAUSES)}
_DROP = {cause: index for index, cause in enumerate(DROPS)}

COLUMNS: dict[str, tuple[str, ...]] = {
    "submit": ("request", "arrival_ns", "prompt_tokens", "output_tokens"),
    "begin": ("request", "now_ns", "hit_blocks"),
    "source": ("request", "source", "tokens"),
    "emit": ("request", "now_ns", "tokens"),
    "reject": ("request", "now_ns"),
    "move": ("move", "cause", "source", "target", "blocks", "bytes", "start_ns"),
    "moved": ("move", "ok", "now_ns"),
    "run": ("run", "start_ns", "decodes", "prefill_tokens"),
    "ran": ("run", "now_ns", "steps"),
    "drop": ("tier", "cause", "blocks", "now_ns"),
}
"""The kinds of rows, and the integers in each; tiers, sources and causes are indices."""


class Log:
    """Columns of integers, filled as events happen.

    `sources` are the names that indices of tiers and sources stand for: the tiers of the machine,
    then `recompute`.
    """

    def __init__(self, rooms: Mapping[str, Room]) -> None:
        self.sources = (*rooms, "recompute")
        self.reasons: dict[int, str] = {}
        self.rows = {kind: array("q") for kind in COLUMNS}
        self.used = array("q")  # time, then the bytes used in each tier, at each change
        self._index = {name: index for index, name in enumerate(self.sources)}
        self._rooms = tuple(rooms.values())
        self._last: list[int] = []
        self._runs: set[int] = set()
        self._moves: set[int] = set()
        self._write: dict[type, Callable[[int, Any], None]] = {
            Submit: self._submit,
            Done: self._done,
            Begin: self._begin,
            Emit: self._emit,
            Reject: self._reject,
            Move: self._move,
            Run: self._run,
            Drop: self._drop,
        }

    def __call__(self, now: int, event: Event, actions: Sequence[Action]) -> None:
        """Write down one event and what was answered."""
        kinds = self._write
        kind: type = type(event)
        if kind in kinds:
            kinds[kind](now, event)
        for action in actions:
            kind = type(action)
            if kind in kinds:
                kinds[kind](now, action)
        used = [room.used_bytes for room in self._rooms]
        if used != self._last:
            self._last = used
            self.used.append(now)
            self.used.extend(used)

    def table(self, kind: str) -> dict[str, npt.NDArray[np.int64]]:
        """The rows of `kind` as columns, in the order they happened."""
        names = COLUMNS[kind]
        grid = np.array(self.rows[kind], dtype=np.int64).reshape(-1, len(names))
        return {name: grid[:, index] for index, name in enumerate(names)}

    def occupancy(self) -> npt.NDArray[np.int64]:
        """[changes, 1 + tiers]: time in ns, then the bytes used in each tier from then on."""
        return np.array(self.used, dtype=np.int64).reshape(-1, 1 + len(self._rooms))

    def _submit(self, now: int, event: Submit) -> None:
        self.rows["submit"].extend(
            (event.request, event.at, event.prompt_tokens, event.output_tokens)
        )

    def _begin(self, now: int, action: Begin) -> None:
        self.rows["begin"].extend((action.request, now, action.hit_blocks))
        for source, tokens in action.sources:
            self.rows["source"].extend((action.request, self._index[source], tokens))

    def _emit(self, now: int, action: Emit) -> None:
        self.rows["emit"].extend((action.request, now, action.tokens))

    def _reject(self, now: int, action: Reject) -> None:
        self.rows["reject"].extend((action.request, now))
        self.reasons[action.request] = action.reason

    def _move(self, now: int, action: Move) -> None:
        self._moves.add(action.id)
        self.rows["move"].extend(
            (
                action.id,
                _CAUSE[action.cause],
                self._index[action.source],
                self._index[action.target],
                len(action.blocks),
                action.nbytes,
                now,
            )
        )

    def _run(self, now: int, action: Run) -> None:
        self._runs.add(action.id)
        step = action.operator
        prefill_tokens = sum([tokens for tokens, _ in step.prefill]) if step.prefill else 0
        self.rows["run"].extend((action.id, now, step.decodes, prefill_tokens))

    def _done(self, now: int, event: Done) -> None:
        if event.id in self._runs:
            self._runs.remove(event.id)
            self.rows["ran"].extend((event.id, now, event.result))
        elif event.id in self._moves:
            self._moves.remove(event.id)
            self.rows["moved"].extend((event.id, event.ok, now))

    def _drop(self, now: int, action: Drop) -> None:
        self.rows["drop"].extend(
            (self._index[action.tier], _DROP[action.cause], len(action.blocks), now)
        )


class Tape:
    """Every event with its answer, whole: what the twin test replays (INV-10)."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, Event, tuple[Action, ...]]] = []

    def __call__(self, now: int, event: Event, actions: Sequence[Action]) -> None:
        """Keep one entry."""
        self.entries.append((now, event, tuple(actions)))
