"""`<file>.meta.json` beside a trace file: what the trace format itself has no room for.

It says whether the trace is synthetic, how it was made and which content that is said of. A file
that lost its sidecar is still known as synthetic when its name says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from tiermem.errors import InputError
from tiermem.traces.trace import Trace

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What was written down about one trace."""

    synthetic: bool
    digest: str
    block_tokens: int
    meta: Mapping[str, Any] = field(default_factory=dict)


def path_of(trace_file: Path) -> Path:
    """Where the sidecar of `trace_file` lies."""
    return trace_file.with_name(trace_file.name + ".meta.json")


def said_by_name(trace_file: Path) -> bool:
    """Whether the name of the file itself says that the trace is synthetic."""
    return "synth" in trace_file.name.lower()


def is_described(ref: str | Path) -> bool:
    """Whether `ref` is a catalogue name, or a file with a sidecar beside it."""
    path = Path(ref)
    return not path.exists() or path_of(path).is_file()


def load(trace_file: Path) -> Sidecar | None:
    """The sidecar, or None when there is none. InputError when it is not what `dump` writes."""
    path = path_of(trace_file)
    try:
        record = orjson.loads(path.read_bytes())  # refuses NaN and infinities
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"the description of {trace_file.name}: {error}", path=path) from error
    kinds = {"format": int, "synthetic": bool, "digest": str, "block_tokens": int, "meta": dict}
    if not isinstance(record, dict):
        raise InputError("a JSON object is expected", path=path)
    for key, kind in kinds.items():
        if key not in record:
            raise InputError("is missing", path=path, key=key)
        if type(record[key]) is not kind:
            raise InputError(f"{record[key]!r} is not a {kind.__name__}", path=path, key=key)
    if record["format"] != FORMAT or record["block_tokens"] < 1:
        raise InputError("not a description that this version can read", path=path)
    return Sidecar(
        record["synthetic"], record["digest"], record["block_tokens"], dict(record["meta"])
    )


def attach(trace: Trace, trace_file: Path) -> Trace:
    """`trace`, just read from `trace_file`, with what its sidecar says of it."""
    found = load(trace_file)
    if found is None:
        return trace
    meta = {**found.meta, **trace.meta}
    if (found.digest, found.block_tokens) == (trace.digest, trace.block_tokens):
        return replace(trace, synthetic=trace.synthetic or found.synthetic, meta=meta)
    notice = f"{path_of(trace_file).name} describes other content than {trace_file.name} has now"
    return replace(
        trace,
        synthetic=trace.synthetic or found.synthetic,
        notices=(*trace.notices, notice),
    )


def dump(trace: Trace) -> bytes:
    """The sidecar of `trace` as the bytes of its file."""
    record = {
        "format": FORMAT,
        "synthetic": trace.synthetic,
        "digest": trace.digest,
        "block_tokens": trace.block_tokens,
        "meta": dict(trace.meta),
    }
    text = json.dumps(record, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=True)
    return text.encode() + b"\n"
