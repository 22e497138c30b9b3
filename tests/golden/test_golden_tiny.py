"""Golden counts worked out by hand: `tiny.toml` against `hits`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem import hits
from tiermem.traces.trace import Trace, intern

CASES = tomllib.loads((Path(__file__).parent / "tiny.toml").read_text())["case"]


def chains(requests: list[str]) -> Trace:
    names = [word[: n + 1] for word in requests for n in range(len(word))]
    lengths = np.array([len(word) for word in requests], dtype=np.int64)
    return Trace(
        name="golden",
        block_tokens=1,
        arrival_ns=np.arange(len(requests)),
        prompt_tokens=lengths,
        output_tokens=np.ones(len(requests), dtype=np.int64),
        block_ids=intern(names),
        block_offsets=np.concatenate([[0], np.cumsum(lengths)]),
        synthetic=True,
    )


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_hits_by_hand(case: dict[str, Any]) -> None:
    """Block and prefix hits of each policy are those of the page."""
    trace = chains(case["requests"])
    rows = hits.count(trace, list(case["hits"]), [case["capacity"]])
    counted = {row.policy: [row.block_hits, row.prefix_hits] for row in rows}
    assert counted == case["hits"]
