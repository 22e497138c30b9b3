"""The serving brain: requests come in, tokens go out, the controller keeps the memory.

A request waits for a place in the batch and for all of its room (prompt and answer), brings or
recomputes its prefix, prefills, decodes and leaves. The engine looks at new arrivals between
steps, as serving engines do. It knows no times: how long a step takes is the body's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tiermem.core.controller import Controller
from tiermem.core.messages import (
    Acquire,
    Action,
    Begin,
    Commit,
    Cut,
    Deny,
    Done,
    Emit,
    Event,
    Ready,
    Reject,
    Release,
    Run,
    Submit,
    Wake,
)
from tiermem.models.operators import Step
from tiermem.serving.batch import Batch, Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What one engine takes on.

    `max_sequences` and `max_step_tokens` are the batch limits engines call max_num_seqs and
    max_num_batched_tokens; `max_context_tokens` is the model's.
    """

    block_tokens: int
    kv_bytes_per_token: int
    max_context_tokens: int
    max_sequences: int = 256
    max_step_tokens: int = 8192


class Engine:
    """One model on one machine; `tier` is where it runs."""

    def __init__(
        self, controller: Controller, limits: Limits, tiers: tuple[str, ...], ids: Iterator[int]
    ) -> None:
        self._controller = controller
        self._limits = limits
        self._tier = controller.site(tiers)
        self._ids = ids
        self._batch = Batch(limits.max_step_tokens)
        self._arrivals: deque[Submit] = deque()  # still to come, in order of time
        self._waiting: deque[Submit] = deque()  # for a place in the batch
        self._active: dict[int, Submit] = {}  # those that hold or wait for a lease
        self._running: tuple[int, Step] | None = None
        self._wake = -1
        self._open_ended = False  # the run under way knows of no arrival to end at
        self._cut = False
        self._batch_grew = False  # while a step ran
        self._out: list[Action] = []
        self._answers: dict[type, Callable[[Any], None]] = {Ready: self._ready, Deny: self._deny}

    @property
    def unfinished(self) -> list[int]:
        """Requests that came in and are neither completed nor rejected."""
        late = [event.request for event in (*self._waiting, *self._arrivals)]
        return sorted([*self._active, *late])

    @property
    def left(self) -> int:
        """How many those are."""
        return len(self._active) + len(self._waiting) + len(self._arrivals)

    def on(self, event: Event, now: int) -> list[Action]:
        """Answer one event; see `tiermem.core.messages`."""
        self._out = []
        if type(event) is Done and self._running and event.id == self._running[0]:
            self._stepped(event.result, now)
        elif type(event) is Done and event.id == self._wake:
            self._wake = -1
        elif type(event) is Submit:
            assert not self._arrivals or event.at >= self._arrivals[-1].at, "arrivals in order"
            self._arrivals.append(event)
            if not self._running:  # look at what arrives at one instant together, in a moment
                if self._wake < 0:
                    self._wake_at(max(now, event.at))
                return self._out
        else:
            self._ask(event, now)
        self._advance(now)
        return self._out

    # -- between steps -------------------------------------------------------------------------

    def _advance(self, now: int) -> None:
        """Let arrivals in and start the next step; while a step runs, at most shorten it."""
        arrivals = self._arrivals
        if self._running:
            arrived = arrivals and arrivals[0].at <= now
            if self._batch_grew or arrived:
                self._cut_short()
            elif arrivals and self._open_ended and self._wake < 0:
                self._wake_at(arrivals[0].at)  # announced since the run began
            return
        while arrivals and arrivals[0].at <= now:
            self._waiting.append(arrivals.popleft())
        while self._waiting and len(self._active) < self._limits.max_sequences:
            self._admit(self._waiting.popleft(), now)
        step = self._batch.next_step()
        self._batch_grew = False
        until = arrivals[0].at if arrivals else None
        if step is not None:
            run = Run(next(self._ids), step, self._tier, until if step.steps > 1 else None)
            self._running = (run.id, step)
            self._open_ended = step.steps > 1 and until is None
            self._cut = False
            self._out.append(run)
        elif until is not None and self._wake < 0:
            self._wake_at(until)

    def _wake_at(self, when: int) -> None:
        self._wake = next(self._ids)
        self._out.append(Wake(self._wake, when))

    def _cut_short(self) -> None:
        assert self._running is not None
        run, step = self._running
        if step.steps > 1 and not self._cut:
            self._cut = True
            self._out.append(Cut(run))

    def _stepped(self, passes: int, now: int) -> None:
        assert self._running is not None
        step = self._running[1]
        self._running = None
        started, done = self._batch.finish(step, passes)
        for sequence in started:
            self._out.append(Emit(sequence.request, 1))
            self._ask(Commit(sequence.request), now)
        for sequence in done:
            if sequence.output_tokens > 1:
                self._out.append(Emit(sequence.request, sequence.output_tokens - 1))
            del self._active[sequence.request]
            self._ask(Release(sequence.request), now)

    # -- one request ---------------------------------------------------------------------------

    def _admit(self, event: Submit, now: int) -> None:
        """Ask for all the room the request will ever need, its last token excepted: the KV of
        the last token is never read, so it is never kept."""
        limits = self._limits
        output = max(1, event.output_tokens)
        if event.prompt_tokens + output > limits.max_context_tokens:
            total = event.prompt_tokens + output
            self._reject(event, f"{total} tokens > context of {limits.max_context_tokens}")
            return
        per_token, block_tokens = limits.kv_bytes_per_token, limits.block_tokens
        full = min(event.prompt_tokens // block_tokens, len(event.blocks))
        sizes = (block_tokens * per_token,) * full
        named = full * block_tokens
        if len(event.blocks) > full:  # the last block is partly filled
            sizes += ((event.prompt_tokens - named) * per_token,)
            named = event.prompt_tokens
        scratch_bytes = (event.prompt_tokens - named + output - 1) * per_token
        self._active[event.request] = event
        self._ask(Acquire(event.request, event.blocks, sizes, self._tier, scratch_bytes), now)

    def _ready(self, answer: Ready) -> None:
        """The request holds its room: book where its prompt comes from, and prefill the rest."""
        event = self._active[answer.lease]
        tokens, block_tokens, left = event.prompt_tokens, self._limits.block_tokens, 0
        sources, hit_blocks = [], 0
        for tier, blocks in answer.hits:
            hit_blocks += blocks
            reached = min(hit_blocks * block_tokens, tokens - 1)  # the last token is computed
            sources.append((tier, reached - left))
            left = reached
        sources.append(("recompute", tokens - left))
        sequence = Sequence(event.request, tokens, max(1, event.output_tokens))
        sequence.computed = left
        self._batch.add(sequence)
        self._batch_grew = True
        self._out.append(Begin(event.request, tuple(sources), hit_blocks))

    def _deny(self, answer: Deny) -> None:
        event = self._active.pop(answer.lease)
        self._reject(event, f"its KV needs {answer.missing_bytes} bytes more than {self._tier} has")

    def _reject(self, event: Submit, reason: str) -> None:
        self._out.append(Reject(event.request, reason))

    def _ask(self, event: Event, now: int) -> None:
        """Give the controller an event, pass its actions on, and act on its notices."""
        for action in self._controller.on(event, now):
            self._out.append(action)
            answer = self._answers.get(type(action))
            if answer is not None:
                answer(action)
