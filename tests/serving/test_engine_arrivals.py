"""Batching over time: arrivals between passes, cut runs, and the batch limits.

A pass takes 100 ns (see `serve`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.messages import Begin, Run, Wake

Serve = Callable[..., Any]
LOAD = [(0, 30, 40), (350, 20, 3), (351, 25, 6), (400, 300, 2), (2_000, 9, 9), (20_000, 30, 5)]


def test_an_unchanged_batch_is_one_run(serve: Serve) -> None:
    """Design section 14: 399 passes between which nothing happens are one event."""
    server = serve()
    server.ask(30, 400)
    server.run()
    assert [step.steps for step in server.steps()] == [1, 399]


def test_an_arrival_shortens_the_run(serve: Serve) -> None:
    """It is let in at the first boundary after it came: at 350, so the pass that ends at 400."""
    server = serve()
    server.ask(30, 40)
    server.ask(20, 1, at=350)
    server.run()
    runs = [(now, run.operator.steps) for now, run in server.said(Run)]
    assert runs[1][0] == 100
    assert runs[2] == (400, 1)
    assert server.tokens(1) == [(500, 1)]
    assert server.tokens(0)[-1][0] == 100 * 40


@pytest.mark.parametrize("at", [301, 350, 399, 400])
def test_an_arrival_waits_for_the_pass_under_way(serve: Serve, at: int) -> None:
    """Up to the boundary itself it is in time for the next pass."""
    server = serve()
    server.ask(30, 40)
    server.ask(20, 1, at=at)
    server.run()
    assert server.tokens(1) == [(500, 1)]


def test_ahead_of_time_and_live_are_the_same(serve: Serve) -> None:
    """A trace submitted in one go and the same requests posted at their arrival times: the same
    tokens at the same nanoseconds."""
    ahead, live = serve(hbm=400), serve(hbm=400)
    for at, prompt, output in LOAD:
        ahead.ask(prompt, output, at=at)
    ahead.run()
    waiting = list(LOAD)

    def arrive(_: object) -> None:
        at, prompt, output = waiting.pop(0)
        live.ask(prompt, output, at=at)

    for number, (at, *_) in enumerate(LOAD):
        live.body.submit(Wake(-1 - number, at), arrive)
    live.run()
    assert waiting == []
    for request in range(len(LOAD)):
        assert sum(tokens for _, tokens in live.tokens(request)) == LOAD[request][2]
        assert live.tokens(request) == ahead.tokens(request)


def test_a_later_request_can_be_announced_in_the_middle_of_a_run(serve: Serve) -> None:
    """While a long run is under way a request is submitted for a time within it: it is let in at
    the boundary after that time, not at the end of the run."""
    server = serve()
    server.ask(30, 400)
    server.run(100)
    server.ask(20, 1, at=350)
    server.run()
    assert server.tokens(1) == [(500, 1)]


def test_equal_arrivals_share_a_pass(serve: Serve) -> None:
    """Requests of one instant are read together, at the start of a trace as anywhere later."""
    for at in (0, 1000):
        server = serve()
        for _ in range(3):
            server.ask(10, 1, at=at)
        server.run()
        assert [step.prefill for step in server.steps()] == [((10, 0),) * 3]


def test_equal_arrivals_keep_their_order(serve: Serve) -> None:
    """Fault A17: requests of one instant are admitted in the order of the trace."""
    server = serve(max_sequences=2)
    for _ in range(6):
        server.ask(10, 2, at=1000)
    server.run()
    assert [begin.request for _, begin in server.said(Begin)] == list(range(6))


def test_no_more_sequences_than_allowed(serve: Serve) -> None:
    """`max_sequences`: the third waits for a place, not for room."""
    server = serve(max_sequences=2)
    for _ in range(3):
        server.ask(10, 11)
    server.run()
    assert max(step.decodes for step in server.steps()) == 2
    begun = {begin.request: now for now, begin in server.said(Begin)}
    assert begun[2] == 1100


def test_a_step_has_no_more_tokens_than_allowed(serve: Serve) -> None:
    """`max_step_tokens`: prompts are chunked, and decodes count too."""
    server = serve(max_step_tokens=32)
    for _ in range(5):
        server.ask(50, 20)
    server.run()
    for step in server.steps():
        assert step.decodes + sum(new for new, _ in step.prefill) <= 32
    assert sum(new for step in server.steps() for new, _ in step.prefill) == 5 * 50
    assert server.engine.left == 0


def test_those_that_decode_are_not_stopped_by_a_prompt(serve: Serve) -> None:
    """Chunked prefill: while a prompt of 100 is read in pieces of at most 19, the other request
    gains a token in every pass."""
    server = serve(max_step_tokens=20)
    server.ask(20, 31)
    server.ask(100, 1, at=150)
    server.run()
    assert server.tokens(0) == [(100, 1), (3100, 30)]
    assert server.tokens(1) == [(200 + 600, 1)]


def test_an_idle_server_sleeps_until_the_next_arrival(serve: Serve) -> None:
    """One Wake for a gap, however long; nothing runs meanwhile."""
    server = serve()
    server.ask(10, 1)
    server.ask(10, 1, at=10**12)
    server.ask(10, 1, at=2 * 10**12)
    server.run()
    assert server.tokens(2) == [(2 * 10**12 + 100, 1)]
    assert [wake.when for _, wake in server.said(Wake)] == [0, 10**12, 2 * 10**12]
    assert len(server.steps()) == 3


def test_one_that_waits_for_its_prefix_does_not_hold_up_the_others(serve: Serve) -> None:
    """While bytes move in for one request, the batch goes on; when they are here, the run is cut
    so that it joins at the next boundary."""
    server = serve(hbm=200)
    server.ask(100, 1, tuple(range(10)))
    server.run()
    server.ask(200, 1)
    server.run()
    start = server.body.now()
    server.ask(10, 90, at=start)
    server.ask(100, 1, tuple(range(10)), at=start)
    server.run()
    [(first, _)] = server.tokens(3)
    assert server.sources(3) == {"dram": 99, "recompute": 1}
    assert server.tokens(2)[-1][0] - server.tokens(2)[0][0] == 89 * 100
    assert first < server.tokens(2)[-1][0]
    assert (first - server.tokens(2)[0][0]) % 100 == 0


def test_those_that_are_left_can_be_named(serve: Serve) -> None:
    """Fault B48: requests that are neither done nor rejected are listed, wherever they wait."""
    server = serve(hbm=60, max_sequences=2)
    for at in (0, 0, 0, 10**9):
        server.ask(25, 9, at=at)
    server.run(100)
    assert server.engine.unfinished == [0, 1, 2, 3]
    server.run()
    assert (server.engine.unfinished, server.engine.left) == ([], 0)
