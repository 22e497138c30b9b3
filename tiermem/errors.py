"""Every error a user can cause, each as one clear line.

    TiermemError                 exit status 1
    |-- InputError               a file, line or key is wrong
    |   `-- UnknownName          a name that is not there; says the nearest one that is
    |-- DoesNotFit               weights, blocks or a tier larger than the memory meant for them
    |-- TierUnavailable          the memory or device of a tier is not there, or not usable
    |-- Denied                   a lease that its tier can never hold
    |-- TimedOut                 a call that got no answer in time
    |-- RuntimeFault             the runtime was closed, forked, or has stopped
    |-- TensorLost, NotDurable   what `tiermem.offload` cannot give back, or keep (defined there)
    |-- RunFolderNotEmpty        results are never mixed
    |-- AllRejected              the run finished and served nobody
    |-- Undrawn                  results are saved, what was to follow them failed
    `-- Unfinished               exit status 3: requests were left waiting or running

Mistakes of ours are `assert`s; expected outcomes (a miss, no room) are values. Neither is here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class TiermemError(Exception):
    """A mistake in the input or the set-up. `str(error)` is one line that says how to mend it."""

    exit_status = 1


class InputError(TiermemError):
    """Something written by the user is wrong; the line starts with `file:line: key:`."""

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        place = ""
        if path is not None:
            place = f"{path}:{line}: " if line is not None else f"{path}: "
        elif line is not None:
            place = f"line {line}: "
        where = f"{key}: " if key else ""
        super().__init__(" ".join(f"{place}{where}{message}".split()))
        self.path, self.line, self.key = path, line, key


class UnknownName(InputError):
    """No `kind` is called `name`; the nearest known name, in any case, is in the message."""

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        *,
        path: str | Path | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        names = sorted(known)
        near = nearest(name, names, cutoff=0.5)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names) or 'none'}"
        super().__init__(f"unknown {kind} {name!r}; {hint}", path=path, line=line, key=key)
        self.kind, self.name, self.known, self.nearest = kind, name, names, near


class DoesNotFit(TiermemError):
    """More bytes than the memory has; the message shows the arithmetic."""


class TierUnavailable(TiermemError):
    """A tier's memory node or device is missing or refused; the message says which there are."""


class Denied(TiermemError):
    """What was asked for can never fit its tier, or nothing could be moved out of its way."""


class TimedOut(TiermemError):
    """A call of the runtime got no answer in time; the message says what it waited for."""


class RuntimeFault(TiermemError):
    """The runtime cannot be used: closed, forked, or stopped by an error that the message names."""


class RunFolderNotEmpty(TiermemError):
    """The output folder holds something already and overwriting was not asked for."""


class AllRejected(TiermemError):
    """Every request of the trace was rejected, so there is no result to report."""


class Undrawn(TiermemError):
    """The results of a comparison are in place, but drawing or printing them was cut short."""

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class Unfinished(TiermemError):
    """The run ended with requests that were neither completed nor rejected."""

    exit_status = 3


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that was probably meant by `name`, whatever the case; None if none is."""
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None
