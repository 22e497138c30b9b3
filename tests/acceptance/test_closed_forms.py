"""Closed forms within 1 %: the simulator against arithmetic that can be done by hand.

The machine and the model are made of round numbers. Per token the model has 80,128 parameters in
matrix products: two layers of 64 x 64 twice, 64 x 32 twice and 64 x 128 three times, and an output
matrix of 64 x 100. So a token takes 160,256 FLOPs, as many bytes are read for the weights of a
pass, a pair of tokens takes 4 x 2 x 64 = 512 FLOPs, and a token adds 2 x 2 x 2 x 16 x 2 = 256
bytes to the cache. The GPU makes 1e11 FLOP/s and reads 1e9 bytes/s; a pass starts in 2 us.
"""

from __future__ import annotations

import numpy as np
import pytest

from tiermem.core.messages import Done, Move
from tiermem.models.link import Link
from tiermem.models.llm import LLM
from tiermem.models.presets import EngineRoom, System
from tiermem.models.roofline import Roofline
from tiermem.models.tier import Compute, Tier
from tiermem.models.topology import Topology
from tiermem.scenario import Run, Scenario, simulate
from tiermem.sim.executor import SimExecutor
from tiermem.traces.trace import Trace, intern

GPU = Compute(1e11, 1e9, 1, 1.0, 1.0, 1.0, 1000, 1.0)
TOY = LLM("toy", 2, 64, 4, 2, 16, vocab=100, ffn=128, max_context_tokens=8192, kernels_per_layer=1)
BLOCK = 100  # tokens, so 25,600 bytes
FAST = 1e12  # bytes/s: no time worth counting


def prefill_s(new: int, before: int = 0) -> float:
    """Launch, and the longer of computing and reading."""
    pairs = new * before + new * (new + 1) / 2
    flops = 160_256 * new + 512 * pairs
    read = 160_256 + 256 * (new + before)
    return 2e-6 + max(flops / 1e11, read / 1e9)


def decode_s(batch: int, context: int) -> float:
    """One token for each of `batch` sequences of `context` tokens: reading is the longer part."""
    assert batch * (160_256 + 512 * context) / 1e11 < 160_256 / 1e9
    return 2e-6 + (160_256 + 256 * context * batch) / 1e9


def machine(nvme_read: float | None = None, kv_blocks: int = 500) -> System:
    """HBM alone, or with a drive that writes at once and reads at `nvme_read` bytes/s."""
    tiers = [Tier("hbm", "hbm", 10**9, FAST, FAST, 0, GPU)]
    links = []
    if nvme_read is not None:
        tiers.append(Tier("nvme", "nvme", 10**9, nvme_read, FAST, 10_000))
        links = [Link(f"to {name}", (name, "host"), FAST, True, 0) for name in ("hbm", "nvme")]
    room = EngineRoom(0.9, kv_blocks, BLOCK)
    return System("toy", Topology(tuple(tiers), tuple(links)), room, ())


def ask(*requests: tuple[float, list[str], int, int]) -> Trace:
    """A trace of (arrival in s, names of the blocks, prompt tokens, output tokens)."""
    counts = [len(request[1]) for request in requests]
    return Trace(
        name="toy",
        block_tokens=BLOCK,
        arrival_ns=np.array([round(request[0] * 1e9) for request in requests]),
        prompt_tokens=np.array([request[2] for request in requests]),
        output_tokens=np.array([request[3] for request in requests]),
        block_ids=intern([name for request in requests for name in request[1]]),
        block_offsets=np.array([0, *np.cumsum(counts)]),
        synthetic=True,
    )


def blocks(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def latencies_s(run: Run, request: int) -> tuple[float, float]:
    """TTFT, and the time from the first token to the last."""
    row = run.tables["requests"].iloc[request]
    first = row["first_token_ns"] - row["arrival_ns"]
    return first / 1e9, (row["last_token_ns"] - row["first_token_ns"]) / 1e9


def test_one_request_alone() -> None:
    """TTFT is one pass over the prompt, and each later token one pass over one sequence."""
    run = simulate(Scenario(ask((0, blocks("a", 10), 1000, 51)), machine(), TOY))
    ttft, rest = latencies_s(run, 0)
    assert ttft == pytest.approx(prefill_s(1000), rel=0.01)
    assert rest == pytest.approx(sum(decode_s(1, 1000 + n) for n in range(50)), rel=0.01)


def test_a_batch_of_decodes() -> None:
    """Seven requests that waited together are read in one pass and then decode together."""
    busy = (0.0, blocks("z", 10), 1000, 1)
    seven = [(0.001, blocks(letter, 10), 1000, 51) for letter in "abcdefg"]
    run = simulate(Scenario(ask(busy, *seven), machine(), TOY))
    # The weights are read once for all of them, the FLOPs are seven times those of one.
    pass_s = 7 * (prefill_s(1000) - 2e-6) + 2e-6
    for request in range(1, 8):
        ttft, rest = latencies_s(run, request)
        assert ttft == pytest.approx(prefill_s(1000) - 0.001 + pass_s, rel=0.01)
        assert rest == pytest.approx(sum(decode_s(7, 1000 + n) for n in range(50)), rel=0.01)
    # Fifty steps of an unchanged batch are one event; the two prefills are one each.
    assert len(run.tables["steps"]) == 3


@pytest.mark.parametrize("bytes_per_s", [1e8, 1e7])
def test_a_prefix_from_nvme_against_its_recompute(bytes_per_s: float) -> None:
    """A thousand tokens of prefix, pushed out to the drive, and asked for again.

    256,000 bytes take 2.56 ms at 1e8 bytes/s and 25.6 ms at 1e7, computing them takes 4.16 ms less
    what the hundred new tokens cost anyway: the faster of the two ways is taken.
    """
    trace = ask(
        (0, blocks("a", 10), 1000, 1),
        (1, blocks("b", 15), 1500, 1),
        (2, [*blocks("a", 10), "c"], 1100, 1),
    )
    run = simulate(Scenario(trace, machine(bytes_per_s, kv_blocks=15), TOY))
    row = run.tables["requests"].iloc[2]
    ttft, _ = latencies_s(run, 2)
    fetch_s = 10e-6 + 256_000 / bytes_per_s
    if fetch_s + prefill_s(100, 1000) < prefill_s(1100):
        assert (row["tokens_nvme"], row["tokens_recompute"]) == (1000, 100)
        assert ttft == pytest.approx(fetch_s + prefill_s(100, 1000), rel=0.01)
    else:
        assert (row["tokens_nvme"], row["tokens_recompute"]) == (0, 1100)
        assert ttft == pytest.approx(prefill_s(1100), rel=0.01)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_transfers_that_start_together_share_the_link(count: int) -> None:
    """Two equal transfers on one link both end at twice the time of one alone."""
    topology = Topology(
        (Tier("hbm", "hbm", 10**9, FAST, FAST, 0, GPU), Tier("nvme", "nvme", 10**9, FAST, FAST, 0)),
        (Link("wire", ("hbm", "nvme"), 1e9, True, 0),),
    )
    body = SimExecutor(topology, Roofline(TOY, GPU))
    ended: dict[int, int] = {}

    def done(answer: Done) -> None:
        ended[answer.id] = body.now()

    for number in range(count):
        body.submit(Move(number, (number,), "nvme", "hbm", 50_000_000, "fetch"), done)
    body.run(lambda: False)
    assert sorted(ended) == list(range(count))
    assert all(end == pytest.approx(count * 50_000_000, rel=0.01) for end in ended.values())
