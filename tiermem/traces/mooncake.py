"""The Mooncake format: one JSON object per line, one line per request.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}

    timestamp       arrival in ms, a whole number; a fraction (27482.25) is read to the ns. Only
                    differences count: the first request arrives at 0.
    input_length    prompt tokens, a whole number of at least 1
    output_length   tokens to generate, a whole number of at least 0
    hash_ids        one id (integer of any size, or text) per block of the prompt, in order. The
                    file does not say how many tokens a block has (Mooncake: 512), so the numbers
                    are checked against `block_tokens`. An id that occurs twice in one request is
                    two references to one block.

Counts are strict (27.0 tokens is an error), times are not (27482.0 ms is what data frames write).
Lines out of order are sorted by time; lines with equal times keep the order of the file. Columns
with other names are ignored, and a notice says so.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import orjson

from tiermem.errors import InputError
from tiermem.traces import checks, container, sidecar
from tiermem.traces.rows import COLUMNS, TOKENS_MAX, Rows, parse, shown
from tiermem.traces.trace import Ints, Trace, intern, renumber, take
from tiermem.units import NS_PER_MS, NS_PER_S

BLOCK_TOKENS = 512
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")

_YEAR_NS = 365 * 86_400 * NS_PER_S
_GAP_NS_MAX = 10 * _YEAR_NS  # no recording pauses for ten years
_SPAN_NS_MAX = 292 * _YEAR_NS  # 2**63 ns, less half a year for the last requests to be served


def read(path: str | Path, *, block_tokens: int = BLOCK_TOKENS) -> Trace:
    """The trace in `path`: plain, gzip or zstd, whatever its name says.

    InputError names the file, the line, the key and the text that is wrong.
    """
    path = Path(path)
    if not 1 <= block_tokens <= TOKENS_MAX:
        said = f"a block of {block_tokens} tokens: it must have 1 to {TOKENS_MAX:,}"
        raise InputError(said, key="block_tokens")
    rows = parse(container.load(path), path)
    prompts, outputs, counts = (
        np.array(column, dtype=np.int64) for column in (rows.prompts, rows.outputs, rows.counts)
    )
    _check_fit(rows, prompts, counts, block_tokens, path)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids = intern(rows.ids)
    arrival_ns = _arrivals(rows.stamps)
    notices = _ignored_notices(rows)

    late = int((arrival_ns < np.maximum.accumulate(arrival_ns)).sum())
    if late:
        order = np.argsort(arrival_ns, kind="stable")
        arrival_ns, prompts, outputs = arrival_ns[order], prompts[order], outputs[order]
        ids, offsets = take(ids, offsets, order)
        ids = renumber(ids)
        rows.lines = [rows.lines[i] for i in order]
        notices.append(
            f"{late:,} of {len(order):,} lines are earlier than a line above them; requests "
            "are sorted by timestamp, equal ones in file order"
        )
    _check_origin(arrival_ns, rows.lines, path)
    notices += checks.arrival_notices(arrival_ns) + checks.chain_notices(ids, offsets)
    if not outputs.all():
        notices.append(f"{int((outputs == 0).sum()):,} requests ask for no output token")
    trace = Trace(
        name=_name(path),
        block_tokens=block_tokens,
        arrival_ns=arrival_ns,
        prompt_tokens=prompts,
        output_tokens=outputs,
        block_ids=ids,
        block_offsets=offsets,
        synthetic=sidecar.said_by_name(path),
        meta={"format": "mooncake", "file": path.name},
        notices=tuple(notices),
    )
    return sidecar.attach(trace, path)


def write(trace: Trace, path: str | Path) -> None:
    """Write `trace` as `.jsonl`, `.jsonl.gz` or `.jsonl.zst`, and its sidecar beside it.

    Reading it again gives the same arrays, digest and synthetic flag. Times are whole ms where
    they are whole ms, and decimal fractions of ms otherwise (exact up to 49 days). Equal traces
    give equal bytes. Either both files are there in the end or none is touched.
    """
    path = Path(path)
    if not path.name.endswith(SUFFIXES):
        raise InputError(f"a trace file ends in one of {', '.join(SUFFIXES)}", path=path)
    ids, offsets = trace.block_ids.tolist(), trace.block_offsets.tolist()
    lines = [
        orjson.dumps(
            {
                "timestamp": ns / NS_PER_MS if ns % NS_PER_MS else ns // NS_PER_MS,
                "input_length": prompt,
                "output_length": output,
                "hash_ids": ids[offsets[i] : offsets[i + 1]],
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for i, (ns, prompt, output) in enumerate(
            zip(
                trace.arrival_ns.tolist(),
                trace.prompt_tokens.tolist(),
                trace.output_tokens.tolist(),
                strict=True,
            )
        )
    ]
    data = container.compress(b"".join(lines), path)
    # The sidecar first: a crash between the two leaves one that does not match, never none.
    container.replace_all({sidecar.path_of(path): sidecar.dump(trace), path: data})


def _arrivals(stamps: list[int | float]) -> Ints:
    """ns since the earliest stamp, exactly: whole and fractional ms are converted apart."""
    exact = []
    for stamp in stamps:
        whole = math.floor(stamp)
        exact.append(whole * NS_PER_MS + round((stamp - whole) * NS_PER_MS))
    first = min(exact)
    return np.array([min(ns - first, 2**63 - 1) for ns in exact], dtype=np.int64)


def _check_origin(arrival_ns: Ints, lines: list[int], path: Path) -> None:
    if int(arrival_ns[-1]) > _SPAN_NS_MAX:
        late = int((arrival_ns > _SPAN_NS_MAX).argmax())
        raise InputError(
            "more than 292 years after the first request: times are in ms, from one origin",
            path=path,
            line=lines[late],
            key="timestamp",
        )
    gaps = np.diff(arrival_ns)
    if len(gaps) and int(gaps.max()) > _GAP_NS_MAX:
        after = int(gaps.argmax()) + 1
        raise InputError(
            f"{int(gaps.max()) / _YEAR_NS:.0f} years after the request before it: this "
            "file mixes times that count from different origins",
            path=path,
            line=lines[after],
            key="timestamp",
        )


def _check_fit(rows: Rows, prompts: Ints, counts: Ints, block_tokens: int, path: Path) -> None:
    wrong = checks.misfits(prompts, counts, block_tokens)
    if not len(wrong):
        return
    row = int(wrong[0])
    tokens, count = int(prompts[row]), int(counts[row])
    blocks = -(-tokens // block_tokens)
    fits = checks.fitting_block_tokens(prompts, counts)
    if count > tokens:
        hint = "no block size explains more ids than tokens"
    elif fits is None:
        hint = "no other block size fits every line"
    else:
        hint = f"a block size of {fits} tokens fits every line"
    raise InputError(
        f"{count} ids for {tokens} tokens, which are {blocks} blocks of {block_tokens}; "
        f"{len(wrong)} of {len(prompts)} lines do not fit, {hint}",
        path=path,
        line=rows.lines[row],
        key="hash_ids",
    )


def _ignored_notices(rows: Rows) -> list[str]:
    names = [name for name in rows.ignored if name not in COLUMNS]
    return [f"ignored columns: {shown(', '.join(names))}"] if names else []


def _name(path: Path) -> str:
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name
