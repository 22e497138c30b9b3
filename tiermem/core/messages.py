"""What goes into a brain and what comes out: dead data, immutable, compared by value.

Events go in, actions come out. A `Move`, `Run` or `Wake` takes time and is answered by exactly
one `Done`; a `Cut` shortens a `Run` under way and is not answered; the rest are notices.
Blocks travel in tuples: everything is a batch, and one block is a batch of one. Times are
integer nanoseconds, sizes integer bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from tiermem.models.operators import Step

Runs: TypeAlias = tuple[tuple[str, int], ...]
"""Leading blocks by the tier they were found in, in prefix order: `(("hbm", 10), ("nvme", 4))`."""


# -- events in ---------------------------------------------------------------------------------


class Acquire(NamedTuple):
    """Ask for the right to use `blocks`, a chain in prefix order, at the tier `at`.

    `sizes` are their bytes. The leading blocks that exist are brought to `at`; the rest are the
    holder's to write, and exist after its `Commit`. `scratch_bytes` is room without identity
    (output KV), gone with the lease. All of the room is granted, or none.
    """

    lease: int
    blocks: tuple[int, ...]
    sizes: tuple[int, ...]
    at: str
    scratch_bytes: int = 0


class Adopt(NamedTuple):
    """Whole copies of `blocks` were found at `tier`, as after a restart. `sizes` are their bytes;
    those that come last are the most recent."""

    blocks: tuple[int, ...]
    sizes: tuple[int, ...]
    tier: str


class Commit(NamedTuple):
    """The lease's missing blocks have been written; those `rewritten` were there before and are
    not what they were, so that every copy elsewhere is stale. Nobody else may hold a lease on
    those in another tier."""

    lease: int
    rewritten: tuple[int, ...] = ()


class Release(NamedTuple):
    """The lease ends; what it pinned may leave."""

    lease: int


class Hint(NamedTuple):
    """`blocks` may be wanted at `at` soon; the policy decides whether to prefetch."""

    blocks: tuple[int, ...]
    at: str


class Forget(NamedTuple):
    """The user deletes `blocks`: every copy, or the one at `tier`, goes as soon as nothing pins
    it."""

    blocks: tuple[int, ...]
    tier: str | None = None


class Save(NamedTuple):
    """Copies of `blocks` are wanted at `tier` too, whatever the policy thinks of them."""

    blocks: tuple[int, ...]
    tier: str


class Done(NamedTuple):
    """The answer to one `Move`, `Run` or `Wake`. A failed one is `ok=False`, never an exception.

    The `result` of a move that failed in part is the tuple of the blocks that failed.
    """

    id: int
    ok: bool = True
    result: Any = None


class Submit(NamedTuple):
    """A request for the serving engine: a prompt of `prompt_tokens` whose leading tokens are
    `blocks` (with `block_tokens` each, the last one possibly fewer), to be answered with
    `output_tokens`. It arrives at the time `at`, now or later."""

    request: int
    at: int
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


# -- actions out: these take time --------------------------------------------------------------


class Move(NamedTuple):
    """Copy `blocks` from `source` to `target`. `cause`: fetch, demote, write or prefetch.

    The source copy stays readable until the answer."""

    id: int
    blocks: tuple[int, ...]
    source: str
    target: str
    nbytes: int
    cause: str


class Run(NamedTuple):
    """Run `operator` at tier `at`. It ends early at the first step boundary at or after `until`;
    `Done.result` is the number of steps made."""

    id: int
    operator: Step
    at: str
    until: int | None = None


class Wake(NamedTuple):
    """Answer at the time `when`."""

    id: int
    when: int


class Cut(NamedTuple):
    """End the `Run` called `id` at its next step boundary."""

    id: int


# -- actions out: notices ----------------------------------------------------------------------


class Drop(NamedTuple):
    """The copies of `blocks` at `tier` are gone. `cause` is one of

    `evict`: the policy let the copy go; `moved`: it is in the tier below now; `clean`: a copy was
    there already; `no_room`: no tier could take it; `forget`: the user said so; `failed`: it could
    not be read; `stale`: it was rewritten elsewhere; `unwritten`: its lease ended before that.
    """

    blocks: tuple[int, ...]
    tier: str
    cause: str


class Ready(NamedTuple):
    """The lease holds all its room; `hits` says where its leading blocks were found."""

    lease: int
    hits: Runs


class Deny(NamedTuple):
    """The lease cannot be granted: `missing_bytes` more than the tier can ever offer it."""

    lease: int
    missing_bytes: int


class Begin(NamedTuple):
    """A request enters prefill; `sources` books each prompt token once, by where it came from."""

    request: int
    sources: Runs
    hit_blocks: int


class Emit(NamedTuple):
    """`tokens` more output tokens of `request` exist now."""

    request: int
    tokens: int


class Reject(NamedTuple):
    """`request` can never be served here, for `reason`."""

    request: int
    reason: str


Event: TypeAlias = Acquire | Adopt | Commit | Release | Hint | Forget | Save | Done | Submit
Action: TypeAlias = Move | Run | Wake | Cut | Drop | Ready | Deny | Begin | Emit | Reject
