"""What a result was made from: the subject, the effective configuration, the process.

The first two depend on the input alone. The third holds all that may differ between equal runs
(command, host, versions, wall clock) and goes into run.json and nowhere else.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tiermem.models.llm import LLM
from tiermem.models.presets import System
from tiermem.traces.trace import Trace

PACKAGES = (
    "tiermem",
    *("simpy", "numpy", "pandas", "pyarrow", "matplotlib", "pydantic", "joblib"),
)


def about(trace: Trace, system: System, llm: LLM, seed: int) -> dict[str, Any]:
    """The subject of a comparison, as results.json names it."""
    return {
        "trace": {
            "name": trace.name,
            "digest": trace.digest,
            "synthetic": trace.synthetic,
            "recorded": _recording(trace),
            "block_tokens": trace.block_tokens,
            "requests": len(trace),
            "prompt_tokens": int(trace.prompt_tokens.sum()),
            "output_tokens": int(trace.output_tokens.sum()),
            "references": trace.references,
            "unique_blocks": trace.unique_blocks,
            "notices": list(trace.notices),
        },
        "system": {"name": system.name, "assumptions": len(system.assumptions)},
        "llm": {"name": llm.name, "kv_bytes_per_token": llm.kv_bytes_per_token},
        "seed": seed,
        "versions": {"tiermem": _version("tiermem")},
    }


def _recording(trace: Trace) -> str | None:
    """What answered while the trace was recorded, if `tiermem trace record` made it."""
    told = trace.meta.get("recorded")
    return f"{told['model']} on {told.get('machine', 'an unnamed machine')}" if told else None


def config(
    subject: Mapping[str, Any],
    system: System,
    llm: LLM,
    policies: Sequence[str],
    kv_capacities_bytes: Mapping[str, int],
) -> dict[str, Any]:
    """The effective configuration: every value in use, also those nobody gave."""
    return {
        **subject,
        "policies": list(policies),
        "kv_capacities_bytes": dict(kv_capacities_bytes),
        "system": describe(system),
        "llm": {**describe(llm), "kv_bytes_per_token": llm.kv_bytes_per_token},
    }


def process(wall_s: Mapping[str, float], started: str) -> dict[str, Any]:
    """Command, host, versions and wall-clock seconds by phase, of the running process."""
    return {
        "started": started,
        "command": shlex.join(sys.argv),
        "host": platform.node(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "wall_s": {name: round(seconds, 3) for name, seconds in wall_s.items()},
    }


def describe(value: Any) -> Any:
    """A frozen value as JSON: the fields it was made from, by name, at every depth."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [f.name for f in dataclasses.fields(value) if f.init and f.name[0] != "_"]
        return {name: describe(getattr(value, name)) for name in given}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
