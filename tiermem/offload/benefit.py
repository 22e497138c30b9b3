"""Whether loading a prefix is worth it: seconds a token to load, against seconds to compute one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

TOKENS_MIN = 256
"""Nothing is said of fewer tokens: set-up times would decide."""


@dataclass(slots=True)
class Benefit:
    """Tokens and seconds since the start, as a serving loop lived them.

    loaded_tokens, load_s     of prompts, out of the memory
    computed_tokens, prefill_s   of prompts, by the model; from the start of the forward to that of
                              the next, so that work which a device does later is in it
    store_s                   after the answer, until the new blocks were staged
    """

    loaded_tokens: int = 0
    load_s: float = 0.0
    computed_tokens: int = 0
    prefill_s: float = 0.0
    store_s: float = 0.0
    _under_way: tuple[int, float] | None = field(default=None, repr=False)

    def loaded(self, tokens: int, seconds: float) -> None:
        """A prefix of `tokens` came; looking for one that is not there counts for nobody."""
        if tokens:
            self.loaded_tokens += tokens
            self.load_s += seconds

    def computing(self, tokens: int) -> None:
        """A forward over `tokens` begins; one token is decoding, more are a prompt."""
        self.computed()
        if tokens > 1:
            self._under_way = (tokens, time.perf_counter())

    def computed(self) -> None:
        """What was under way is done."""
        if self._under_way is not None:
            tokens, started = self._under_way
            self.computed_tokens += tokens
            self.prefill_s += time.perf_counter() - started
            self._under_way = None

    @property
    def saved_s(self) -> float | None:
        """What the loaded tokens would have taken to compute, less their loading; None until both
        have been measured."""
        if not self.computed_tokens or not self.loaded_tokens:
            return None
        return self.loaded_tokens * self.prefill_s / self.computed_tokens - self.load_s

    @property
    def warning(self) -> str | None:
        """One line when hits cost more than they save; None otherwise."""
        if min(self.loaded_tokens, self.computed_tokens) < TOKENS_MIN:
            return None
        load_us = self.load_s / self.loaded_tokens * 1e6
        compute_us = self.prefill_s / self.computed_tokens * 1e6
        if load_us <= compute_us:
            return None
        return (
            f"a hit costs more than it saves: loading takes {load_us:.0f} us a token, computing "
            f"{compute_us:.0f}; give the memory a faster tier, or serve without it"
        )
