"""How a comparison ends: what went wrong is never quiet, and the worst comes first."""

from __future__ import annotations

from typing import Any

from tiermem.errors import AllRejected, TiermemError, Unfinished
from tiermem.report.verdict import Failure, must_end, verdict


def run(policy: str, *, completed: int = 0, rejected: int = 0, unfinished: int = 0) -> Any:
    """An entry of results.json, as far as a verdict needs one."""
    counts = {"completed": completed, "rejected": rejected, "unfinished": unfinished}
    requests = {"generated": sum(counts.values()), **counts}
    return {"policy": policy, "requests": requests, "warnings": [f"warned by {policy}"]}


def broken() -> Failure:
    """A policy that divided by zero."""
    try:
        _ = 1 // 0
    except ZeroDivisionError as error:
        return Failure.of("mine", error, "while it was simulated")
    raise AssertionError("unreachable")


def test_all_settled_is_no_error() -> None:
    """Rejected requests are counted and the run goes on: exit status 0."""
    assert not must_end([run("a", completed=5, rejected=1)], [])


def test_a_policy_that_raised_is_named_with_its_place() -> None:
    """Checklist 36: the policy, the message, the file and line, on one line."""
    error = verdict([run("a", completed=5)], [broken()], "results are in out")
    assert type(error) is TiermemError
    text = str(error)
    assert text.startswith("policy mine raised ZeroDivisionError:")
    assert "(test_verdict.py:" in text
    assert text.endswith("while it was simulated; results are in out")
    assert "Traceback" in broken().traceback


def test_nobody_served_is_an_error() -> None:
    """Every request of every policy rejected: AllRejected with the reason."""
    error = verdict([run("a", rejected=3), run("b", rejected=3)], [], "here")
    assert isinstance(error, AllRejected)
    assert "warned by a" in str(error)
    assert must_end([run("a", rejected=3)], [])
    assert not must_end([run("a", rejected=3), run("b", completed=3)], [])


def test_unfinished_requests_end_with_status_three() -> None:
    """Unfinished comes before everything else, and loses no other line."""
    error = verdict([run("a", rejected=3), run("b", unfinished=2)], [broken()], "here")
    assert must_end([run("b", unfinished=2)], [])
    assert isinstance(error, Unfinished)
    assert error.exit_status == 3
    assert "b: 2 of 2 requests unfinished (warned by b)" in str(error)
    assert "policy mine raised" in str(error)


def test_no_policy_left_has_no_results() -> None:
    """When every policy raised there is no folder to point at."""
    error = verdict([], [broken()], "results are in out")
    assert must_end([], [broken()])
    assert "results" not in str(error)
