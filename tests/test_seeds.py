"""Random streams: named, independent, and the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys

from tiermem import seeds


def test_a_stream_is_its_seed_and_name() -> None:
    """The same seed and name give the same numbers; another of either gives others."""
    first = seeds.stream(7, "arrivals").random(5).tolist()
    assert seeds.stream(7, "arrivals").random(5).tolist() == first
    assert seeds.stream(7, "lengths").random(5).tolist() != first
    assert seeds.stream(8, "arrivals").random(5).tolist() != first


def test_streams_do_not_disturb_each_other() -> None:
    """A draw added to one stream moves nothing in another."""
    alone = seeds.stream(7, "a").random(3).tolist()
    one, other = seeds.stream(7, "a"), seeds.stream(7, "b")
    mixed = []
    for _ in range(3):
        other.random(10)
        mixed.append(float(one.random()))
    assert mixed == alone


def test_the_numbers_are_fixed() -> None:
    """The first draws of a stream never change, in whatever process or hash seed."""
    code = "from tiermem import seeds; print(seeds.stream(7, 'arrivals').integers(0, 10**9, 3))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "12345")
    }
    assert printed == {f"{seeds.stream(7, 'arrivals').integers(0, 10**9, 3)}\n"}
