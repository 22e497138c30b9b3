"""Continuous batching: who decodes, who prefills, and what the next step is.

Prompts are prefilled in order of readiness, in pieces of at most the step's token budget, beside
every sequence that decodes. While nobody prefills, the batch does not change until its shortest
sequence ends, so all steps up to there are one.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from tiermem.models.operators import Step


class Sequence:
    """One request in the engine: its prompt, its answer, and how far it got."""

    __slots__ = ("computed", "output_tokens", "prompt_tokens", "request")

    def __init__(self, request: int, prompt_tokens: int, output_tokens: int) -> None:
        self.request = request
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.computed = 0  # prompt tokens whose KV is in place


class Batch:
    """The sequences that have their room, and the passes of the model over them."""

    def __init__(self, max_step_tokens: int) -> None:
        self._max_step_tokens = max_step_tokens
        self._prefilling: deque[Sequence] = deque()
        self._ends: list[tuple[int, int, Sequence]] = []  # heap: pass of its last token
        self._passes = 0  # made so far, while anybody decoded
        self._context_tokens = 0  # KV of those that decode
        self._pieces: list[tuple[Sequence, int]] = []

    def __len__(self) -> int:
        return len(self._prefilling) + len(self._ends)

    @property
    def decoding(self) -> int:
        """Sequences that decode."""
        return len(self._ends)

    def add(self, sequence: Sequence) -> None:
        """A sequence whose prompt can be prefilled from `sequence.computed` on."""
        self._prefilling.append(sequence)

    def next_step(self) -> Step | None:
        """The step to run now; None when there is nothing to do."""
        decodes = len(self._ends)
        if self._prefilling:
            budget = max(1, self._max_step_tokens - decodes)
            pieces = self._pieces = []
            work = []
            for sequence in self._prefilling:
                tokens = min(budget, sequence.prompt_tokens - sequence.computed)
                pieces.append((sequence, tokens))
                work.append((tokens, sequence.computed))
                budget -= tokens
                if not budget:
                    break
            return Step(decodes, self._context_tokens, tuple(work), 1)
        if not decodes:
            return None
        return Step(decodes, self._context_tokens, (), self._ends[0][0] - self._passes)

    def finish(self, step: Step, passes: int) -> tuple[list[Sequence], list[Sequence]]:
        """After `passes` of `step`: sequences with their first token, and those with their last."""
        self._passes += passes
        self._context_tokens += step.decodes * passes
        done = []
        while self._ends and self._ends[0][0] <= self._passes:
            sequence = heappop(self._ends)[2]
            self._context_tokens -= sequence.prompt_tokens + sequence.output_tokens - 1
            done.append(sequence)
        started: list[Sequence] = []
        if not step.prefill:
            return started, done
        for sequence, tokens in self._pieces:
            sequence.computed += tokens
            if sequence.computed < sequence.prompt_tokens:
                continue
            self._prefilling.popleft()
            started.append(sequence)
            if sequence.output_tokens == 1:
                done.append(sequence)
                continue
            self._context_tokens += sequence.prompt_tokens
            end = self._passes + sequence.output_tokens - 1
            heappush(self._ends, (end, sequence.request, sequence))
        return started, done
