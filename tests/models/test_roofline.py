"""How long a batch takes, against sums done by hand.

The toy model: 2 layers, hidden 64, 4 heads of 16 over 2 KV heads, feed-forward 128 gated,
vocabulary 100, two kernels a layer. Its matrices hold 2 x (64*64 twice + 64*32 twice + 3*64*128)
+ 64*100 = 80,128 numbers, so a token takes 160,256 FLOPs and a pass reads 160,256 bytes of
weights; a pair of tokens takes 4 x 2 x 64 = 512 FLOPs, and a token adds 2*2*2*16*2 = 256 bytes.
The toy GPU: 1e11 FLOP/s at efficiency 0.5 for products and 0.25 for attention, 1e10 bytes/s at
0.8, 100 ns a kernel: 400 ns a pass.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.models.llm import LLM, Experts
from tiermem.models.operators import Step
from tiermem.models.roofline import Lines, Roofline
from tiermem.models.tier import Compute

GPU = Compute(1e11, 1e10, 1, 0.5, 0.25, 0.8, 100, 1.0)
TOY = LLM("toy", 2, 64, 4, 2, 16, vocab=100, ffn=128, max_context_tokens=8192, kernels_per_layer=2)
FLOPS, PAIR, KV, LAUNCH = 160_256, 512, 256, 400
COST = Roofline(TOY, GPU)


def pass_ns(decodes: int, context: int, *pieces: tuple[int, int]) -> float:
    """One pass: launch, and the longer of computing and reading. FLOP/s, bytes/s as reached."""
    tokens = decodes + sum(new for new, _ in pieces)
    pairs = context + sum(new * before + new * (new + 1) / 2 for new, before in pieces)
    compute = tokens * FLOPS / 50 + pairs * PAIR / 25
    read = FLOPS + KV * (context + sum(new + before for new, before in pieces))
    return LAUNCH + max(compute, read / 8)


@pytest.mark.parametrize(("new", "before"), [(1, 0), (1000, 0), (100, 1000), (1, 5000)])
def test_prefill_by_hand(new: int, before: int) -> None:
    """New tokens times the weights, pairs with everything before and half of themselves."""
    assert COST.prefill_ns(new, before) == round(pass_ns(0, 0, (new, before)))


def test_prefill_is_bound_by_computing_and_decode_by_reading() -> None:
    """1,000 tokens: 3,205,120 ns of products and 500,500 pairs; one token: 20,032 ns to read the
    weights, and 320,000 more for 10,000 tokens of KV."""
    assert COST.prefill_ns(1000, 0) == 400 + 3_205_120 + 10_250_240
    wide = Compute(1e13, 1e10, 1, 0.5, 0.25, 0.8, 100, 1.0)
    assert Roofline(TOY, wide).times(Step(1, 10_000)).end_ns(1) == 400 + 20_032 + 320_000


@pytest.mark.parametrize(
    ("decodes", "context", "passes"), [(1, 10, 50), (7, 7000, 211), (200, 30_000, 1000)]
)
def test_k_passes_are_the_sum_of_k_passes(decodes: int, context: int, passes: int) -> None:
    """The closed form of an unchanged batch equals adding up each pass: every pass, each
    sequence has one token of context more."""
    times = COST.times(Step(decodes, context, (), passes))
    total = 0.0
    for made in range(passes):
        total += pass_ns(decodes, context + decodes * made)
        assert times.end_ns(made + 1) == pytest.approx(total, abs=1)


def test_a_crossing_within_one_run() -> None:
    """A batch of 3 on a GPU whose attention is slow: reading is longer at first, and computing
    from some pass on; both parts are summed."""
    slow = Roofline(TOY, Compute(1e11, 1e10, 1, 0.5, 0.05, 0.8, 100, 1.0))

    def reading(made: int) -> float:
        return (FLOPS + KV * (3 + 3 * made)) / 8

    def computing(made: int) -> float:
        return 3 * FLOPS / 50 + (3 + 3 * made) * PAIR / 5

    assert reading(0) > computing(0)
    assert reading(99) < computing(99)
    total = sum(LAUNCH + max(reading(made), computing(made)) for made in range(100))
    assert slow.times(Step(3, 3, (), 100)).end_ns(100) == pytest.approx(total, abs=1)


def test_decode_beside_prefill_is_one_pass() -> None:
    """Tokens of both go through the weights together, and those are read once."""
    step = Step(5, 3000, ((100, 0), (50, 200)))
    assert COST.times(step).end_ns(1) == round(pass_ns(5, 3000, (100, 0), (50, 200)))


def test_a_group_of_devices_is_faster_by_its_efficiency() -> None:
    """Four devices at 0.8 do 3.2 times the work; kernels start side by side, so their time
    stays."""
    four = Roofline(TOY, Compute(1e11, 1e10, 4, 0.5, 0.25, 0.8, 100, 0.8))
    alone, group = COST.prefill_ns(1000, 0) - 400, four.prefill_ns(1000, 0) - 400
    assert group == pytest.approx(alone / 3.2, abs=1)


def test_experts_are_read_as_they_are_touched() -> None:
    """Of 8 experts, 2 a token: one token reads a quarter of their weights, a batch of n expects
    1 - (3/4)^n of them; FLOPs are always those of two."""
    dense = LLM("a", 2, 64, 4, 2, 16, vocab=100, ffn=0, max_context_tokens=99, kernels_per_layer=2)
    moe = LLM(
        *("b", 2, 64, 4, 2, 16, 100, 0, 99),
        kernels_per_layer=2,
        experts=Experts(count=8, active=2, ffn=128),
    )
    one = 2 * 3 * 64 * 128 * 2  # bytes of one expert in both layers
    router = 2 * 64 * 8 * 2
    wide = Compute(1e14, 1e10, 1, 1.0, 1.0, 0.8, 100, 1.0)  # reading is all that counts
    for batch in (1, 2, 10, 1000):
        touched = 8 * (1 - 0.75**batch)
        step = Step(batch, 0)
        extra = Roofline(moe, wide).times(step).end_ns(1) - Roofline(dense, wide).times(
            step
        ).end_ns(1)
        assert extra == pytest.approx((touched * one + router) / 8, abs=1)


lines = st.tuples(st.integers(1, 10**7), st.integers(0, 10**4))


@given(
    launch=st.integers(1, 10**5),
    one=lines,
    other=lines,
    most=st.integers(1, 400),
    share=st.fractions(0, Fraction(5, 4)),
)
def test_passes_until_is_a_search(
    launch: int, one: tuple[int, int], other: tuple[int, int], most: int, share: Fraction
) -> None:
    """The fewest passes, at least one and at most `most`, that last so long: as trying 1, 2, 3,
    ... finds it, before and after a crossing."""
    times = Lines(launch, one, other)
    elapsed = int(times.end_ns(most) * share)
    wanted = next((n for n in range(1, most) if times.end_ns(n) >= elapsed), most)
    assert times.passes_until(elapsed, most) == wanted


@given(launch=st.integers(0, 10**5), one=lines, other=lines, passes=st.integers(0, 300))
def test_two_lines_are_summed_exactly(
    launch: int, one: tuple[int, int], other: tuple[int, int], passes: int
) -> None:
    """The sum of the larger of two lines over the passes, wherever they cross, whichever is named
    first."""
    exact = sum(launch + max(one[0] + one[1] * n, other[0] + other[1] * n) for n in range(passes))
    assert Lines(launch, one, other).end_ns(passes) == exact
    assert Lines(launch, other, one).end_ns(passes) == exact


def test_no_passes_take_no_time() -> None:
    """Zero passes end at once; the first pass is never free."""
    assert COST.times(Step(1, 100, (), 5)).end_ns(0) == 0
    assert COST.times(Step(1, 100, (), 5)).passes_until(0, 5) == 1
