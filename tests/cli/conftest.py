"""One command line, run in this process, with what it printed and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tiermem.cli import main


@dataclass(frozen=True)
class Ended:
    """Exit status, and both streams as text."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Strict JSON from stdout; NaN and infinity are refused."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.stdout, parse_constant=refuse)


Tiermem = Callable[..., Ended]


@pytest.fixture
def tiermem(capsys: pytest.CaptureFixture[str]) -> Tiermem:
    """`tiermem("hits", "x.jsonl")` as a shell would run it."""

    def run(*words: object) -> Ended:
        capsys.readouterr()
        status = main([str(word) for word in words])
        streams = capsys.readouterr()
        return Ended(status, streams.out, streams.err)

    return run
