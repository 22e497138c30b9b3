"""What a comparison must not end quietly about: policies that raised, requests not served.

It decides which error closes a comparison whose results are saved already; it raises nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiermem.errors import AllRejected, TiermemError, Unfinished


@dataclass(frozen=True, slots=True)
class Failure:
    """A policy that raised: a line for people, and the traceback for its author."""

    policy: str
    error: str
    traceback: str

    @classmethod
    def of(cls, policy: str, error: BaseException, when: str) -> Failure:
        """`error` as one line that says where it was raised and `when`."""
        said = " ".join(f"{type(error).__name__}: {error}".split())
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        text = "".join(traceback.format_exception(error))
        return cls(policy, f"raised {said}{place} {when}", text)


def must_end(runs: Sequence[Mapping[str, Any]], failures: Sequence[Failure]) -> bool:
    """Whether a comparison with these entries of results.json has to end with an error."""
    unfinished = any(run["requests"]["unfinished"] for run in runs)
    return bool(failures) or unfinished or _nobody_served(runs)


def verdict(
    runs: Sequence[Mapping[str, Any]], failures: Sequence[Failure], where: str
) -> TiermemError:
    """The error to end with, once `must_end`.

    `where` says where the results lie. Unfinished requests come first (exit status 3), then nobody
    served, then policies that raised; each line is kept.
    """
    lines = [f"policy {failure.policy} {failure.error}" for failure in failures]
    left = [run for run in runs if run["requests"]["unfinished"]]
    lines += [
        f"{run['policy']}: {run['requests']['unfinished']:,} of"
        f" {run['requests']['generated']:,} requests unfinished"
        f" ({'; '.join(run['warnings']) or 'no reason was given'})"
        for run in left
    ]
    kind = Unfinished if left else AllRejected if _nobody_served(runs) else TiermemError
    if kind is AllRejected:
        why = runs[0]["warnings"][0] if runs[0]["warnings"] else "no reason was given"
        lines.append(f"every request was rejected ({why})")
    assert lines, "nothing went wrong"
    return kind("; ".join([*lines, where] if runs else lines))


def _nobody_served(runs: Sequence[Mapping[str, Any]]) -> bool:
    counted = [run["requests"] for run in runs]
    return bool(counted) and all(found["rejected"] == found["generated"] for found in counted)
