"""Synthetic chat: sessions of several turns over shared system prompts, in bursts.

Each turn sends the whole conversation again: the next prompt is the last prompt, its answer and
new text, so its leading blocks are those of the turn before. Nothing here is a recording. What
the numbers rest on is in `SOURCES`; the rest is chosen, and says so in `Chat`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from tiermem import seeds
from tiermem.errors import InputError, UnknownName
from tiermem.traces.trace import Ints, Trace, renumber
from tiermem.units import NS_PER_MS

Floats = npt.NDArray[np.float64]

SOURCES = {
    "CachedAttention": "Gao et al., USENIX ATC 2024, arXiv 2403.19708: 73 % of the ShareGPT "
    "conversations have more than one turn",
    "ServeGen": "Xiang et al., NSDI 2026, arXiv 2505.09999: input lengths are a log-normal body "
    "with a Pareto tail, output lengths exponential, arrivals burstier than Poisson; its public "
    "deepseek-r1 client statistics: inter-arrival CV 2.28, mean over windows weighted by rate",
    "KVCache-in-the-wild": "Wang et al., USENIX ATC 2025, arXiv 2506.02634: in the consumer "
    "trace 80 % of the reuses happen within 10 minutes, and few blocks carry most of the reuse",
    "Mooncake": "Qin et al., FAST 2025, public conversation trace, first 40 minutes, counted: "
    "prompt tokens median 7,284 and mean 12,428, output tokens mean 347, reuse ceiling 35.1 %",
    "kv-cache-tester": "Public coding-agent sessions (semianalysisai/cc-traces-weka-042026): "
    "498 to 7,460 system tokens and 890 to 17,300 tool tokens before the first user text",
}


@dataclass(frozen=True, slots=True)
class Chat:
    """What a chat load is like. Tokens and seconds; `chosen` marks what no source gives.

    sessions_per_s          mean rate at which sessions start (chosen: sets the load)
    burst_cv                coefficient of variation of the gaps between session starts, at
                            least 1 (1 is Poisson); hyperexponential (ServeGen)
    more_turns              probability that a session goes on after a turn; the number of turns
                            is geometric (CachedAttention)
    think_median_s          from the end of an answer to the next turn, log-normal (chosen)
    think_80_percent_s      its 80th percentile (KVCache-in-the-wild)
    answer_tokens_per_s     how fast answers are assumed to be generated, which delays the next
                            turn; no engine is consulted (chosen)
    system_prompts          how many there are (chosen)
    system_zipf             exponent of their popularity (chosen)
    system_tokens_min/max   lengths, log-uniform (max: kv-cache-tester; min: chosen)
    body_median_tokens      log-normal body of the text that opens a session (shape: ServeGen;
    body_sigma              numbers: fitted by eye to the prompt lengths of Mooncake)
    tail_share              share of texts from the Pareto tail instead: documents, pasted files
    tail_tokens_min         where the tail begins
    tail_alpha              its exponent
    follow_median_tokens    text of a later turn, log-normal, unless it brings a document with
    follow_sigma            probability tail_share as well (chosen)
    output_mean_tokens      exponential (shape: ServeGen; mean: Mooncake)
    context_tokens          a session ends before prompt and answer exceed this (chosen: the
                            131,072 of Llama 3.1)
    """

    sessions_per_s: float = 0.45
    burst_cv: float = 2.28
    more_turns: float = 0.73
    think_median_s: float = 60.0
    think_80_percent_s: float = 600.0
    answer_tokens_per_s: float = 50.0
    system_prompts: int = 40
    system_zipf: float = 1.0
    system_tokens_min: int = 64
    system_tokens_max: int = 24_760
    body_median_tokens: float = 1_500.0
    body_sigma: float = 1.2
    tail_share: float = 0.25
    tail_tokens_min: int = 6_000
    tail_alpha: float = 1.3
    follow_median_tokens: float = 120.0
    follow_sigma: float = 1.2
    output_mean_tokens: float = 347.0
    context_tokens: int = 131_072

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, whole = getattr(self, field.name), isinstance(field.default, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise InputError(f"{value!r} is not a {'whole ' * whole}number", key=field.name)
            if not 0 < value <= 1e9:
                raise InputError(f"{value} is not above 0 and at most 1e9", key=field.name)
        bounds = {
            "sessions_per_s": (1e-6, 1e6),
            "think_median_s": (1e-3, 1e6),
            "burst_cv": (1.0, 100.0),
            "more_turns": (0.0, 0.99),
            "tail_share": (0.0, 1.0),
            "tail_alpha": (0.1, 100.0),
            "body_sigma": (0.0, 10.0),
            "follow_sigma": (0.0, 10.0),
            "system_zipf": (0.0, 10.0),
            "system_prompts": (1, 1_000_000),
            "think_80_percent_s": (self.think_median_s, 1e6),
            "system_tokens_max": (self.system_tokens_min, self.context_tokens // 4),
        }
        for name, (least, most) in bounds.items():
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{getattr(self, name)} is not in {least} .. {most}", key=name)


def chat(*, requests: int, seed: int, block_tokens: int = 512, **parameters: Any) -> Trace:
    """The first `requests` requests of a chat load with the parameters of `Chat`.

    A longer trace of the same seed begins with the shorter one. UnknownName for a parameter
    that `Chat` does not have, InputError for a value out of range.
    """
    known = [field.name for field in dataclasses.fields(Chat)]
    for name in parameters:
        if name not in known:
            raise UnknownName("chat parameter", name, known)
    for key, number in (("requests", requests), ("block_tokens", block_tokens)):
        if number < 1:
            raise InputError(f"{number} is not at least 1", key=key)
    load = Chat(**parameters)
    turns = _turns(load, requests, seed)
    order = np.lexsort((turns.session, turns.arrival_ms))[:requests]
    session, prompt = turns.session[order], turns.prompt[order]
    ids, offsets = _blocks(turns, order, block_tokens)
    arrival_ms = turns.arrival_ms[order]
    if int(arrival_ms[-1] - arrival_ms[0]) * NS_PER_MS >= 2**63:
        raise InputError("too low: the trace exceeds 292 years", key="sessions_per_s")
    return Trace(
        name=f"synthetic-chat-{requests}",
        block_tokens=block_tokens,
        arrival_ns=(arrival_ms - arrival_ms[0]) * NS_PER_MS,
        prompt_tokens=prompt,
        output_tokens=turns.output[order],
        block_ids=ids,
        block_offsets=offsets,
        synthetic=True,
        meta={
            "generator": "chat",
            "parameters": {
                "requests": requests,
                "seed": seed,
                "block_tokens": block_tokens,
                **dataclasses.asdict(load),
            },
            "sessions": len(np.unique(session)),
            "sources": dict(SOURCES),
        },
    )


@dataclass(frozen=True, slots=True)
class _Turns:
    """All turns of all sessions, session by session, one row each."""

    session: Ints
    system: Ints
    system_tokens: Ints
    arrival_ms: Ints
    prompt: Ints
    output: Ints


def _turns(load: Chat, sessions: int, seed: int) -> _Turns:
    """`sessions` sessions: they hold every one of the first `sessions` requests."""

    def draw(purpose: str, count: int) -> Floats:
        return seeds.stream(seed, f"chat/{purpose}").random(count)

    starts_s = np.cumsum(_hyperexponential(draw, sessions, load.sessions_per_s, load.burst_cv))
    lengths = 1 + np.floor(np.log1p(-draw("turns", sessions)) / math.log(load.more_turns))
    turns = np.minimum(lengths, 1_000).astype(np.int64)
    first = np.cumsum(turns) - turns
    session = np.repeat(np.arange(sessions), turns)
    total = len(session)

    popular = np.cumsum(1.0 / np.arange(1, load.system_prompts + 1) ** load.system_zipf)
    picked = np.searchsorted(popular, draw("system/pick", sessions) * popular[-1], side="right")
    ratio = load.system_tokens_max / load.system_tokens_min
    drawn = load.system_tokens_min * ratio ** draw("system/length", load.system_prompts)
    system_tokens = np.floor(drawn).astype(np.int64)[picked]

    text = _texts(load, draw, total, first)
    # A quarter of the context at most for the system prompt, half for the text that opens a
    # session, an eighth for an answer: the first turn always fits.
    text[first] = np.minimum(text[first], load.context_tokens // 2)
    output = 1 + np.floor(_exponential(draw("output", total)) * (load.output_mean_tokens - 0.5))
    output = np.minimum(output, load.context_tokens // 8).astype(np.int64)
    grown = _within(text + output, first, turns) - output
    prompt = system_tokens[session] + grown

    sigma = math.log(load.think_80_percent_s / load.think_median_s) / NormalDist().inv_cdf(0.8)
    think_s = _lognormal(draw("think", total), load.think_median_s, sigma)
    think_s = np.minimum(think_s, 1e7)
    wait_s = np.concatenate([[0.0], (think_s + output / load.answer_tokens_per_s)[:-1]])
    wait_s[first] = starts_s
    # Summed in whole ms, so that a session is the same whatever comes before it.
    arrival_ms = _within(np.floor(wait_s * 1000).astype(np.int64), first, turns)

    kept = prompt + output <= load.context_tokens  # prompts grow: what is kept is a beginning
    assert bool(kept[first].all())
    return _Turns(
        session=session[kept],
        system=picked[session][kept],
        system_tokens=system_tokens[session][kept],
        arrival_ms=arrival_ms[kept],
        prompt=prompt[kept],
        output=output[kept],
    )


def _blocks(turns: _Turns, order: Ints, block_tokens: int) -> tuple[Ints, Ints]:
    """Ids and offsets of the turns `order`: system, session and tail blocks have ids of a kind.

    A full block belongs to the system prompt when it lies within it, else to the session; a
    partial tail belongs to its own turn alone and never recurs, as in the Mooncake traces.
    """
    prompt, session = turns.prompt[order], turns.session[order]
    counts = -(-prompt // block_tokens)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    shared = np.repeat(turns.system_tokens[order] // block_tokens, counts)
    full = np.repeat(prompt // block_tokens, counts)
    width = int(counts.max()) + 1
    groups = int(turns.session.max()) + 1
    of_system = np.repeat(turns.system[order], counts) * width + place
    of_session = np.repeat(session, counts) * width + place
    systems = (int(turns.system.max()) + 1) * width
    own = np.repeat(np.arange(len(order)), counts)
    ids = np.where(place < shared, of_system, systems + of_session)
    ids = np.where(place < full, ids, systems + groups * width + own)
    return renumber(ids), offsets


def _within(values: Ints, first: Ints, turns: Ints) -> Ints:
    """Running sums of `values` that start anew at each session."""
    sums = np.cumsum(values)
    return sums - np.repeat(sums[first] - values[first], turns)


def _texts(load: Chat, draw: Any, total: int, first: Ints) -> Ints:
    """Tokens of new user text per turn, at least 1."""
    body = draw("text/body", total)
    text = _lognormal(body, load.follow_median_tokens, load.follow_sigma)
    text[first] = _lognormal(body[first], load.body_median_tokens, load.body_sigma)
    tail = load.tail_tokens_min * (1.0 - draw("text/tail", total)) ** (-1.0 / load.tail_alpha)
    text = np.where(draw("text/kind", total) < load.tail_share, tail, text)
    return 1 + np.floor(np.minimum(text, load.context_tokens)).astype(np.int64)


def _exponential(uniforms: Floats) -> Floats:
    return -np.log1p(-uniforms)


def _lognormal(uniforms: Floats, median: float, sigma: float) -> Floats:
    normal = NormalDist()
    quantiles = [normal.inv_cdf(u) if u > 0 else -8.0 for u in uniforms.tolist()]
    return median * np.exp(sigma * np.array(quantiles, dtype=np.float64))


def _hyperexponential(draw: Any, count: int, rate_per_s: float, cv: float) -> Floats:
    """Gaps with mean 1 / rate and coefficient of variation `cv`: two phases, balanced means."""
    squared = cv * cv
    share = (1.0 + math.sqrt((squared - 1.0) / (squared + 1.0))) / 2.0
    short = draw("starts/phase", count) < share
    rates = np.where(short, 2.0 * share, 2.0 * (1.0 - share)) * rate_per_s
    return _exponential(draw("starts/gap", count)) / rates
