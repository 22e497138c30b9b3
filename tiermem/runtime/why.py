"""Why the hit rate is what it is: the counters walked in order, and said in words.

A block is offered, admitted or refused, stored, looked up, hit, loaded, or fails. The first step
at which nothing is left is the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiermem.runtime.counters import Count, Counters, TierCounters

MISSED = {
    "new": "was never stored before: content that does not come back, or keys that differ because"
    " model, layout or identity do",
    "evict": "had left the last tier that held it by then: give the lowest tier more bytes",
    "no_room": "had left its tier by then and found no room below: give the lower tiers more bytes",
    "failed": "was lost because its bytes could not be read: see `faults`, and run `tiermem doctor`"
    " on the directory",
    "forget": "had been deleted by its owner, or by clear()",
    "stale": "had been overwritten",
    "gap": "is there, but behind a block that is not, and only leading blocks are of use",
    "recompute": "is there, but the policy would rather compute it again than fetch it",
}
"""What is said of blocks that were asked for and missed, by why."""

REFUSED = {
    "policy": "the policy let them go instead",
    "no_room": "no room, with everything evicted that may leave",
    "too_large": "more bytes than the tier has",
    "stuck": "room could not be made, because moves to the tier below failed",
    "gave_up": "whoever asked gave up waiting for room that others held",
}
"""What is said of blocks that a tier did not get, by why."""


FULL = "the file system, or the tier's capacity, was full"
"""What is said of faults of the kind `space`."""


def why(counters: Counters) -> str:
    """The hit rate of all tiers together, and its reason."""
    full = [
        f" {name}: {tier.faults['space']:,} blocks could not be written: {FULL}."
        for name, tier in counters.tiers.items()
        if tier.faults.get("space")
    ]
    return _why(counters) + "".join(full)


def _why(counters: Counters) -> str:
    first = next(iter(counters.tiers.values()))
    asked, hit = counters.asked.blocks, counters.hit.blocks
    if not asked:
        return f"No hit rate: {_unasked(counters, first)}."
    missed = _most(counters.missed)
    if hit:
        tiers = [f"{t.hit.blocks:,} in {n}" for n, t in counters.tiers.items() if t.hit.blocks]
        rest = f"; {asked - hit:,} missed ({_listed(counters.missed)})"
        rest = f"{rest}, and most of that {MISSED[missed]}" if missed else ""
        return (
            f"Hit rate {100 * hit / asked:.3g} %: {hit:,} of {asked:,} blocks looked up were"
            f" there ({', '.join(tiers)}){rest}."
        )
    stored = sum(tier.stored.blocks + tier.adopted.blocks for tier in counters.tiers.values())
    if not stored:
        failed = sum(tier.failed.blocks for tier in counters.tiers.values())
        reason = f"{failed:,} failed" if failed else "their leases ended without commit()"
        return (
            f"Hit rate 0: {first.admitted.blocks:,} blocks were admitted and none was stored,"
            f" because {reason}."
        )
    assert missed is not None, "what was asked for and is no hit has missed"
    turned = [f"{name} refused {refusals(t)}" for name, t in counters.tiers.items() if t.refused]
    return (
        f"Hit rate 0: {stored:,} blocks were stored and {asked:,} looked up"
        f" ({_listed(counters.missed)}). What was looked up {MISSED[missed]}."
        + "".join(f" {sentence}." for sentence in turned)
    )


def why_tier(name: str, tier: TierCounters, *, fastest: bool) -> str | None:
    """Why this tier has had no hit, at the first step where nothing is left; None if it had one."""
    if tier.hit.blocks:
        return None
    stored = tier.stored.blocks + tier.adopted.blocks + tier.promoted.blocks
    if not tier.offered.blocks + stored:
        above = "nobody wrote a block" if fastest else "nothing had to leave the tier above yet"
        return f"{name}: nothing was offered to it ({above})."
    if not tier.admitted.blocks + stored:
        return (
            f"{name}: {tier.offered.blocks:,} blocks were offered, none admitted: {refusals(tier)}."
        )
    if not stored:
        faults = ", ".join(
            f"{kind} {n:,}{f': {FULL}' if kind == 'space' else ''}"
            for kind, n in sorted(tier.faults.items())
        )
        reason = f"{tier.failed.blocks:,} failed{f' ({faults})' if faults else ''}"
        if not tier.failed.blocks:
            reason = "they are not written yet" if tier.admitted.blocks else "none was admitted"
        return f"{name}: {tier.admitted.blocks:,} blocks were admitted, none stored: {reason}."
    if not tier.looked_up.blocks:
        return f"{name}: {stored:,} blocks were stored; all that was asked for was found above."
    looked = f"{tier.looked_up.blocks:,} blocks were looked up"
    if tier.failed.blocks and not tier.loaded.blocks:
        return f"{name}: {looked}; every load failed ({tier.failed.blocks:,})."
    return f"{name}: {looked}, and none of them was among the {stored:,} that were stored."


def refusals(tier: TierCounters) -> str:
    """`3 no_room (no room, ...)` for each reason."""
    return "; ".join(
        f"{count.blocks:,} {reason} ({REFUSED.get(reason, reason)})"
        for reason, count in sorted(tier.refused.items())
    )


def costs_more(loaded_s: float, recompute_s: float | None) -> str | None:
    """A warning when hits cost more time than computing their blocks again is estimated to take.

    `recompute_s` is None where nobody estimates it, and then nothing is said.
    """
    if recompute_s is None or loaded_s <= recompute_s:
        return None
    return (
        f"hits cost more than they save: loading took {loaded_s:.3g} s, and computing the same"
        f" blocks again would have taken {recompute_s:.3g} s (estimated): use a faster tier, larger"
        " blocks, or a policy that recomputes (place=cheapest)"
    )


def _unasked(counters: Counters, first: TierCounters) -> str:
    if first.offered.blocks:
        return f"{first.offered.blocks:,} blocks were offered and none admitted: {refusals(first)}"
    adopted = sum(tier.adopted.blocks for tier in counters.tiers.values())
    found = f"{adopted:,} blocks were found here at the start, and " if adopted else ""
    return f"{found}nothing was asked for yet"


def _most(missed: Mapping[str, Count]) -> str | None:
    """The reason that most missed blocks have."""
    return max(missed, key=lambda reason: missed[reason].blocks, default=None)


def _listed(missed: Mapping[str, Count]) -> str:
    parts = [f"{count.blocks:,} {reason}" for reason, count in sorted(missed.items())]
    return ", ".join(parts)
