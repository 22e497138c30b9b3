"""Work that a tier can do: how much of it there is, not how long it takes."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """`steps` passes of the model over one batch that does not change meanwhile.

    In each pass `decodes` sequences, together holding `context_tokens` of KV before the first
    pass, gain one token each, and `prefill` pieces `(new_tokens, tokens_before)` are read.
    With prefill there is one pass.
    """

    decodes: int
    context_tokens: int
    prefill: tuple[tuple[int, int], ...] = ()
    steps: int = 1
