"""Continuous batching: which tokens each pass holds."""

from __future__ import annotations

from tiermem.models.operators import Step
from tiermem.serving.batch import Batch, Sequence


def batch(*sequences: tuple[int, int], budget: int = 100) -> Batch:
    made = Batch(budget)
    for number, (prompt, output) in enumerate(sequences):
        made.add(Sequence(number, prompt, output))
    return made


def play(made: Batch) -> list[Step]:
    """Every step to the end."""
    steps = []
    while (step := made.next_step()) is not None:
        made.finish(step, step.steps)
        steps.append(step)
    return steps


def test_an_empty_batch_has_nothing_to_do() -> None:
    """No sequence, no step."""
    assert batch().next_step() is None
    assert len(batch()) == 0


def test_one_sequence_prefills_and_decodes_in_two_steps() -> None:
    """The pass that ends the prompt gives the first token; the other six are one step of six
    passes over a context that starts with the prompt."""
    made = batch((30, 7))
    assert play(made) == [Step(0, 0, ((30, 0),)), Step(1, 30, (), 6)]
    assert len(made) == 0


def test_a_long_prompt_is_cut_into_pieces() -> None:
    """250 tokens at 100 a pass: 100, 100 and 50, each after what came before."""
    assert play(batch((250, 1))) == [
        Step(0, 0, ((100, 0),)),
        Step(0, 0, ((100, 100),)),
        Step(0, 0, ((50, 200),)),
    ]


def test_prompts_share_a_pass_in_order() -> None:
    """What is left of the budget goes to the next in line, which is cut where it ends."""
    assert play(batch((60, 1), (60, 1), (10, 1))) == [
        Step(0, 0, ((60, 0), (40, 0))),
        Step(0, 0, ((20, 40), (10, 0))),
    ]


def test_decodes_go_beside_prefill_and_take_from_its_budget() -> None:
    """Three that decode leave 97 tokens of a pass; each of them gains one token in it."""
    made = batch((10, 9), (10, 9), (10, 9))
    step = made.next_step()
    assert step is not None
    made.finish(step, 1)
    made.add(Sequence(7, 150, 1))
    steps = play(made)
    assert steps[:3] == [
        Step(3, 30, ((97, 0),)),
        Step(3, 33, ((53, 97),)),
        Step(3, 36, (), 6),
    ]


def test_more_decodes_than_budget_still_let_one_token_in() -> None:
    """A prompt advances by a token a pass however many decode: nobody starves."""
    made = batch((1, 50), (1, 50), (1, 50), budget=2)
    for _ in range(3):
        step = made.next_step()
        assert step is not None
        made.finish(step, 1)
    made.add(Sequence(7, 2, 1))
    step = made.next_step()
    assert step is not None
    assert step.prefill == ((1, 0),)


def test_a_cached_prefix_is_not_read_again() -> None:
    """Prefill starts where the cache ends, and attends to all before it."""
    made = Batch(100)
    sequence = Sequence(1, 80, 1)
    sequence.computed = 64
    made.add(sequence)
    assert made.next_step() == Step(0, 0, ((16, 64),))


def test_steps_end_with_the_shortest_sequence() -> None:
    """Outputs of 3, 5 and 5 tokens: two passes of three, then two passes of two, whose context
    is what the two that are left hold."""
    assert play(batch((10, 3), (20, 5), (30, 5))) == [
        Step(0, 0, ((10, 0), (20, 0), (30, 0))),
        Step(3, 60, (), 2),
        Step(2, 54, (), 2),
    ]


def test_finish_says_who_started_and_who_is_done() -> None:
    """A sequence of one token does both at once; others are done with their last pass."""
    made = batch((10, 1), (10, 2))
    first = made.next_step()
    assert first is not None
    started, done = made.finish(first, 1)
    assert [s.request for s in started] == [0, 1]
    assert [s.request for s in done] == [0]
    second = made.next_step()
    assert second is not None
    started, done = made.finish(second, 1)
    assert (started, [s.request for s in done]) == ([], [1])
    assert made.decoding == len(made) == 0


def test_a_step_that_was_cut_goes_on_where_it_stopped() -> None:
    """Four of nine passes were made: five are left, with four more tokens of context each."""
    made = batch((10, 10), (20, 10))
    step = made.next_step()
    assert step is not None
    made.finish(step, 1)
    nine = made.next_step()
    assert nine == Step(2, 30, (), 9)
    assert made.finish(nine, 4) == ([], [])
    assert made.next_step() == Step(2, 38, (), 5)


def test_context_is_empty_when_all_have_left() -> None:
    """What sequences held leaves with them: a later batch starts from nothing."""
    made = batch((10, 4), (25, 9), (7, 1))
    play(made)
    made.add(Sequence(9, 5, 2))
    assert play(made) == [Step(0, 0, ((5, 0),)), Step(1, 5, (), 1)]
