"""How long a `Step` takes: the one seam behind which GPU times stand.

`StepCost` is all a simulated body asks. `Roofline` is the estimate used until measured operator
tables stand in its place: launch + max(FLOPs / reached FLOP/s, bytes / reached bytes/s), summed
over the passes in closed form.
"""

from __future__ import annotations

import math
from typing import Protocol

from tiermem.models.llm import LLM
from tiermem.models.operators import Step
from tiermem.models.tier import Compute
from tiermem.units import NS_PER_S


class StepTimes(Protocol):
    """The times of one step's passes, counted from its start."""

    def end_ns(self, passes: int) -> int:
        """Nanoseconds to the end of the first `passes` passes."""
        ...

    def passes_until(self, elapsed_ns: int, most: int) -> int:
        """The fewest passes, at least one, that last `elapsed_ns` or more; `most` if none do."""
        ...


class StepCost(Protocol):
    """Times of batches at one tier."""

    def times(self, step: Step) -> StepTimes:
        """How long each of the passes of `step` takes."""
        ...


class Lines:
    """Passes that each take a launch time and the larger of two straight lines in the pass number.

    Exact: the sum of a maximum of two lines is two arithmetic series, one before and one after
    the lines cross.
    """

    __slots__ = ("_crossing", "_first", "_growth", "_later", "_later_growth", "_launch_ns")

    def __init__(
        self, launch_ns: int, one: tuple[float, float], other: tuple[float, float]
    ) -> None:
        if other > one:
            one, other = other, one
        self._launch_ns = launch_ns
        self._first, self._growth = one
        self._later, self._later_growth = other
        self._crossing: float = math.inf
        if other[1] > one[1]:  # the smaller line grows faster, so it overtakes
            self._crossing = math.ceil((one[0] - other[0]) / (other[1] - one[1]))

    def end_ns(self, passes: int) -> int:
        """See `StepTimes`."""
        before = passes if passes <= self._crossing else int(self._crossing)
        total = before * (self._launch_ns + self._first + self._growth * (before - 1) / 2)
        if before < passes:
            after = passes - before
            last = self._later + self._later_growth * (before + passes - 1) / 2
            total += after * (self._launch_ns + last)
        return round(total)

    def passes_until(self, elapsed_ns: int, most: int) -> int:
        """See `StepTimes`. A first guess from the quadratic before the crossing, then corrected."""
        first, growth = self._launch_ns + self._first, self._growth
        linear = first - growth / 2
        if growth > 0:
            root = math.sqrt(linear * linear + 2 * growth * elapsed_ns)
            guess = int((root - linear) / growth)
        else:
            guess = int(elapsed_ns / first)
        guess = max(1, min(guess, most))
        while guess > 1 and self.end_ns(guess - 1) >= elapsed_ns:
            guess -= 1
        while guess < most and self.end_ns(guess) < elapsed_ns:
            guess += 1
        return guess


class Roofline:
    """A dense or MoE transformer on the compute of one tier.

    Formulas: prefill and decode rooflines with efficiencies and a per-kernel launch time, as in
    AIConfigurator and AttAcc (attention FLOPs causal, so a piece of n tokens after m attends
    n m + n (n + 1) / 2 pairs). Efficiencies and launch time come with the hardware description.
    """

    def __init__(self, llm: LLM, compute: Compute) -> None:
        self._ns_per_token = llm.linear_flops_per_token * NS_PER_S / compute.gemm_flops_per_s
        self._ns_per_pair = (
            llm.attention_flops_per_token_pair * NS_PER_S / compute.attention_flops_per_s
        )
        self._ns_per_decode_pair = (
            llm.decode_attention_flops_per_token_pair * NS_PER_S / compute.attention_flops_per_s
        )
        self._ns_per_byte = NS_PER_S / compute.memory_bytes_per_s
        self._launch_ns = compute.kernel_ns * llm.kernels_per_layer * llm.layers
        self._kv_bytes = llm.kv_bytes_per_token
        self._llm = llm
        # What a dense model reads does not depend on how many tokens it is for.
        self._dense_bytes = llm.weights_read_bytes(1) if llm.experts is None else 0.0

    def times(self, step: Step) -> Lines:
        """See `StepCost`."""
        tokens, pairs, read = step.decodes, 0, step.context_tokens
        for new, before in step.prefill:
            tokens += new
            pairs += new * before + new * (new + 1) // 2
            read += new + before
        llm = self._llm
        compute_ns = (
            tokens * self._ns_per_token
            + pairs * self._ns_per_pair
            + step.context_tokens * self._ns_per_decode_pair
        )
        weights = self._dense_bytes or llm.weights_read_bytes(tokens)
        memory_ns = (weights + read * self._kv_bytes) * self._ns_per_byte
        return Lines(
            self._launch_ns,
            (compute_ns, step.decodes * self._ns_per_decode_pair),
            (memory_ns, step.decodes * self._kv_bytes * self._ns_per_byte),
        )

    def prefill_ns(self, new_tokens: int, tokens_before: int) -> int:
        """A pass that reads `new_tokens` after `tokens_before` cached ones, and nothing else."""
        return self.times(Step(0, 0, ((new_tokens, tokens_before),))).end_ns(1)
