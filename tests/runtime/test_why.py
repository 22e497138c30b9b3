"""For each way in which nothing is hit there is a sentence that names the step."""

from __future__ import annotations

import pytest

from tiermem.core.messages import Drop
from tiermem.runtime.counters import Count, Counters, TierCounters
from tiermem.runtime.why import MISSED, costs_more, why, why_tier

N = Count


def counters(
    dram: TierCounters, nvme: TierCounters | None = None, *, asked: int = 0, **missed: int
) -> Counters:
    tiers = {"dram": dram} | ({} if nvme is None else {"nvme": nvme})
    return Counters(tiers, 1, N(asked), {why: N(n) for why, n in missed.items()})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (counters(TierCounters()), "No hit rate: nothing was asked for yet."),
        (
            counters(TierCounters(), TierCounters(adopted=N(7))),
            "7 blocks were found here at the start, and nothing was asked for yet",
        ),
        (
            counters(TierCounters(offered=N(9), refused={"too_large": N(9)})),
            "9 blocks were offered and none admitted: 9 too_large (more bytes than the tier has)",
        ),
        (
            counters(TierCounters(offered=N(4), admitted=N(4)), asked=4, new=4),
            "4 blocks were admitted and none was stored, because their leases ended without commit",
        ),
        (
            counters(TierCounters(stored=N(5)), asked=9, new=9),
            "5 blocks were stored and 9 looked up (9 new). What was looked up was never stored",
        ),
        (
            counters(
                TierCounters(stored=N(5)),
                TierCounters(offered=N(5), refused={"policy": N(5)}),
                asked=9,
                new=2,
                evict=7,
            ),
            "(7 evict, 2 new). What was looked up had left the last tier that held it by then: give"
            " the lowest tier more bytes. nvme refused 5 policy (the policy let them go instead).",
        ),
        (
            counters(TierCounters(stored=N(5)), TierCounters(failed=N(3)), asked=3, failed=3),
            "was lost because its bytes could not be read",
        ),
    ],
)
def test_a_hit_rate_of_0_has_a_reason(given: Counters, said: str) -> None:
    """The first step at which nothing is left is named, with its numbers."""
    assert said in why(given)


def test_hits_are_told_by_tier() -> None:
    """With the share, and what most of the rest missed for."""
    given = counters(TierCounters(hit=N(3)), TierCounters(hit=N(1)), asked=8, new=1, evict=3)
    said = why(given)
    assert said.startswith(
        "Hit rate 50 %: 4 of 8 blocks looked up were there (3 in dram, 1 in nvme)"
    )
    assert "; 4 missed (3 evict, 1 new), and most of that had left" in said
    assert why(counters(TierCounters(hit=N(2)), asked=2)).endswith("(2 in dram).")


@pytest.mark.parametrize(
    ("tier", "fastest", "said"),
    [
        (TierCounters(), True, "nothing was offered to it (nobody wrote a block)"),
        (TierCounters(), False, "nothing was offered to it (nothing had to leave the tier above"),
        (
            TierCounters(offered=N(3), refused={"policy": N(2), "no_room": N(1)}),
            False,
            "3 blocks were offered, none admitted: 1 no_room (no room, with everything evicted that"
            " may leave); 2 policy",
        ),
        (
            TierCounters(offered=N(3), admitted=N(3), failed=N(3), faults={"space": 3}),
            False,
            "3 blocks were admitted, none stored: 3 failed (space 3: ",
        ),
        (TierCounters(offered=N(3), admitted=N(3)), False, "none stored: they are not written yet"),
        (TierCounters(offered=N(3), admitted=N(3), stored=N(3)), False, "was found above"),
        (
            TierCounters(stored=N(3), looked_up=N(8), failed=N(2)),
            False,
            "8 blocks were looked up; every load failed (2)",
        ),
        (TierCounters(adopted=N(3), looked_up=N(8)), False, "none of them was among the 3"),
    ],
)
def test_each_tier_has_its_own_reason(tier: TierCounters, fastest: bool, said: str) -> None:
    """Offered, admitted, stored, looked up, loaded: where it ended."""
    sentence = why_tier("t", tier, fastest=fastest)
    assert sentence is not None
    assert sentence.startswith("t: ")
    assert said in sentence


def test_a_tier_with_hits_needs_no_reason() -> None:
    """Nothing is said then."""
    assert why_tier("t", TierCounters(hit=N(1)), fastest=True) is None


def test_every_cause_of_a_drop_has_words() -> None:
    """A new cause in the core needs a sentence here; some never end a block's last copy."""
    assert Drop.__doc__ is not None
    causes = {word for word in Drop.__doc__.replace("`", " ").split() if word.isidentifier()}
    last = {"evict", "no_room", "forget", "failed", "stale"}
    assert last <= causes
    assert last <= set(MISSED)


def test_hits_that_cost_more_than_they_save() -> None:
    """Known fault: 40 s to load what prefill does in 0.9 s, everything green."""
    said = costs_more(40.0, 0.9)
    assert said is not None
    assert "loading took 40 s" in said
    assert "0.9 s (estimated)" in said
    assert costs_more(0.5, 0.9) is None
    assert costs_more(40.0, None) is None


def test_a_full_disk_is_said() -> None:
    """Whatever else is to be said, in the sentence of the runtime and in that of the tier."""
    nvme = TierCounters(offered=N(3), admitted=N(3), failed=N(3), faults={"space": 3})
    said = "3 blocks could not be written: the file system, or the tier's capacity, was full"
    assert said in why(counters(TierCounters(stored=N(5)), nvme, asked=9, new=9))
    assert "space 3: the file system" in (why_tier("nvme", nvme, fastest=False) or "")
