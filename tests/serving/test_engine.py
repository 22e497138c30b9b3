"""One request after another: what it is served from, what it takes, and when its tokens come.

A pass takes 100 ns, a token one byte, a block ten tokens (see `serve`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.messages import Begin, Drop

Serve = Callable[..., Any]


def test_one_request(serve: Serve) -> None:
    """Prompt in one pass: the first token after 100 ns, four more in one run of four passes."""
    server = serve()
    server.ask(25, 5)
    server.run()
    assert server.tokens(0) == [(100, 1), (500, 4)]
    assert [step.steps for step in server.steps()] == [1, 4]
    assert server.sources(0) == {"recompute": 25}


@pytest.mark.parametrize("output", [0, 1])
def test_no_answer_and_an_answer_of_one_token(serve: Serve, output: int) -> None:
    """The prompt is read, so there is a first token, and with it the request is done; one that
    asked for none is the same work."""
    server = serve()
    server.ask(25, output)
    server.run()
    assert server.tokens(0) == [(100, 1)]
    assert server.engine.left == 0


def test_output_kv_is_held_and_then_gone(serve: Serve) -> None:
    """25 prompt tokens and 5 of output: 29 bytes while it runs (the last token's KV is never
    needed); the prompt's 25 stay afterwards, and nobody can hit the output."""
    server = serve()
    server.ask(25, 5, (1, 2, 3))
    server.run(100)
    assert server.used() == 29
    server.run()
    assert server.used() == 25


def test_a_partial_tail_takes_the_bytes_of_its_tokens(serve: Serve) -> None:
    """Blocks of 10, 10 and 5 bytes; asked for again by the same prompt, all are hits."""
    server = serve()
    server.ask(25, 1, (1, 2, 3))
    server.run()
    copies = server.controller.table.rooms["hbm"].copies
    assert [copies[block].nbytes for block in (1, 2, 3)] == [10, 10, 5]


def test_a_tail_without_an_id_has_no_identity(serve: Serve) -> None:
    """Traces that name full blocks only: the last 5 tokens take room while the request runs, and
    are recomputed the next time."""
    server = serve()
    server.ask(25, 2, (1, 2))
    server.run(100)
    assert server.used() == 20 + 5 + 1
    server.run()
    assert server.used() == 20
    server.ask(25, 1, (1, 2))
    server.run()
    assert server.sources(1) == {"hbm": 20, "recompute": 5}


def test_at_least_the_last_token_is_computed(serve: Serve) -> None:
    """Every block is a hit, and still one prompt token goes through the model; it is booked to
    `recompute`, and the blocks are counted as the hits they are."""
    server = serve()
    for _ in range(2):
        server.ask(25, 3, (1, 2, 3))
        server.run()
    assert server.sources(1) == {"hbm": 24, "recompute": 1}
    assert [begin.hit_blocks for _, begin in server.said(Begin)] == [0, 3]
    assert server.steps()[2].prefill == ((1, 24),)


def test_a_shared_prefix_is_used_up_to_the_first_difference(serve: Serve) -> None:
    """Two of the three blocks are the same: 20 tokens from HBM, the rest anew."""
    server = serve()
    server.ask(30, 1, (1, 2, 3))
    server.run()
    server.ask(40, 1, (1, 2, 4, 3))
    server.run()
    assert server.sources(1) == {"hbm": 20, "recompute": 20}


def test_a_prefix_from_below_delays_the_first_token_by_its_transfer(serve: Serve) -> None:
    """20 bytes at a byte per nanosecond, then one pass over what is left."""
    server = serve(hbm=60)
    server.ask(20, 1, (1, 2))
    server.run()
    server.ask(60, 1)
    server.run()
    start = server.body.now()
    assert server.controller.view.where(1) == ("dram",)
    server.ask(30, 1, (1, 2, 3), at=start)
    server.run()
    assert server.sources(2) == {"dram": 20, "recompute": 10}
    [(first, _)] = server.tokens(2)
    # The demotion of 30 bytes comes first, for the room; then the fetch of 20; then a pass.
    assert first - start == 30 + 20 + 100


def test_blocks_are_hits_once_the_prompt_was_read(serve: Serve) -> None:
    """The second request comes while the first one decodes: its prompt is there already."""
    server = serve()
    server.ask(20, 50, (1, 2))
    server.ask(30, 1, (1, 2, 3), at=1000)
    server.run()
    assert server.sources(1) == {"hbm": 20, "recompute": 10}


def test_blocks_under_computation_are_no_hits(serve: Serve) -> None:
    """Two equal prompts at once: each computes its own tokens, the blocks take room once."""
    server = serve()
    server.ask(20, 3, (1, 2))
    server.ask(20, 3, (1, 2))
    server.run(100)
    assert server.used() == 20 + 2 + 2
    server.run()
    assert server.sources(0) == server.sources(1) == {"recompute": 20}
    assert server.used() == 20


def test_a_request_above_the_context_is_rejected(serve: Serve) -> None:
    """Prompt and answer together; one token less is served. Others are not held up."""
    server = serve(context=100)
    server.ask(90, 11)
    server.ask(90, 10)
    server.ask(100, 0)
    server.run()
    assert set(server.rejected()) == {0, 2}
    assert "101" in server.rejected()[0]
    assert "context of 100" in server.rejected()[0]
    assert server.tokens(1) == [(100, 1), (1000, 9)]
    assert server.engine.left == 0


def test_a_request_above_hbm_is_rejected(serve: Serve) -> None:
    """Fault B32: what can never fit is turned away at once, with the bytes that are missing."""
    server = serve(hbm=50)
    server.ask(45, 8)
    server.ask(45, 6)
    server.run()
    assert list(server.rejected()) == [0]
    assert "2 bytes more than hbm has" in server.rejected()[0]
    assert server.tokens(1) == [(100, 1), (600, 5)]


def test_requests_wait_when_hbm_is_full(serve: Serve) -> None:
    """Each needs 29 of 60 bytes: two run, the third starts when there is room again, and nobody
    overtakes it, though the fourth would fit."""
    server = serve(hbm=60)
    for prompt, output in ((25, 5), (25, 5), (25, 5), (2, 1)):
        server.ask(prompt, output, at=1000)
    server.run(1001)
    assert server.used() == 58
    server.run()
    begun = {begin.request: now for now, begin in server.said(Begin)}
    assert list(begun) == [0, 1, 2, 3]
    assert begun[0] == begun[1] == 1000
    # Two leave their prompts at 1500; those 25 + 1 bytes move down before the third has room.
    assert begun[2] > 1500
    assert begun[3] >= begun[2]
    assert server.engine.left == 0


def test_what_a_request_leaves_is_evicted_for_the_next(serve: Serve) -> None:
    """Prompts of the past go down when the room is needed, tails first; output KV moves never."""
    server = serve(hbm=60)
    server.ask(40, 11, (1, 2, 3, 4))
    server.run()
    server.ask(40, 1)
    server.run()
    assert server.controller.view.where(1) == ("hbm",)
    assert server.controller.view.where(4) == ("dram",)
    assert server.used("dram") == 20
    assert {drop.cause for _, drop in server.said(Drop)} == {"moved"}


def test_every_prompt_token_is_booked_once(serve: Serve) -> None:
    """Whatever is hit, the sources of a request sum to its prompt."""
    server = serve(hbm=200, dram=300)
    prompts = [20 + 7 * n % 60 for n in range(40)]
    for number, prompt in enumerate(prompts):
        first = 1 + number % 5 * 100
        blocks = tuple(first + n for n in range(-(-prompt // 10)))
        server.ask(prompt, 1 + number % 4, blocks, at=150 * number)
    server.run()
    assert [sum(server.sources(n).values()) for n in range(40)] == prompts
    assert {tier for n in range(40) for tier in server.sources(n)} == {"hbm", "dram", "recompute"}
