"""A log of the requests that a serving loop really served, line by line, to be replayed later.

    recorder = Recorder("chat.log.jsonl", "SmolLM2-135M", cache.layout.seed)
    with recorder.request("session-7", turn=2, kind="chat") as entry:
        model.generate(ids, cache=cache.begin(ids), streamer=entry)
        entry.loaded_tokens = cache.loaded_tokens

Each line is one write to the end of the file: a killed process loses the request that it was
serving, no other. What was said is not in the log: a prompt is written as the keys of its blocks.
`tiermem trace record` makes a trace of it (`tiermem.traces.record` has the columns).
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiermem.errors import InputError
from tiermem.offload.keys import prefix_keys

BLOCK_TOKENS = 16


class Entry:
    """One request while it is served. It is what `generate()` takes as `streamer`, and so sees the
    prompt, and when each token was there."""

    def __init__(self, arrival_s: float, begun_s: float) -> None:
        self.arrival_s, self.begun_s = arrival_s, begun_s
        self._begun = time.perf_counter()  # no clock that somebody may set meanwhile
        self.prompt: list[int] | None = None
        self.loaded_tokens = 0
        self.output_tokens = 0
        self.first_s = self.last_s = begun_s

    def put(self, value: Any) -> None:
        """Called by `generate()`: the whole prompt first, then each token (tensors or lists)."""
        tokens = value.reshape(-1).tolist() if hasattr(value, "reshape") else list(value)
        if self.prompt is None:
            self.prompt = tokens
            return
        self.last_s = self.begun_s + time.perf_counter() - self._begun
        if not self.output_tokens:
            self.first_s = self.last_s
        self.output_tokens += len(tokens)

    def end(self) -> None:
        """Called by `generate()` when nothing more comes."""


class Recorder:
    """Appends to one log; a line that a killed process left unfinished is cut off first.

    `seed` starts the keys of the blocks, so that they mean nothing to whoever lacks it; logs that
    are to be compared need the same. `about` is written once per run: machine, tokenizer, options.
    """

    def __init__(
        self,
        path: str | Path,
        model: str,
        seed: bytes,
        *,
        block_tokens: int = BLOCK_TOKENS,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if block_tokens < 1:
            raise InputError(f"a block of {block_tokens} tokens", key="block_tokens")
        self.path = Path(path)
        self._model, self._seed, self._block_tokens = model, seed, block_tokens
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.truncate(self._file, self.path.read_bytes().rfind(b"\n") + 1)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=self.path) from error
        self._append({"run": {"machine": machine(), **(about or {})}})

    @contextmanager
    def request(
        self, session: str, *, turn: int, kind: str, arrival_s: float | None = None
    ) -> Iterator[Entry]:
        """Serve one request inside; it is written when the block ends without an exception.

        `arrival_s` is when it was asked for (seconds since 1970), by default now. A request that
        waited for others arrived before it was begun, and its log says both.
        """
        begun_s = time.time()
        entry = Entry(begun_s if arrival_s is None else min(arrival_s, begun_s), begun_s)
        yield entry
        prompt = entry.prompt
        if prompt is None:
            raise InputError("no prompt was seen: give generate() the entry as streamer=")
        keys = prefix_keys(self._seed, prompt, self._block_tokens)
        self._append(
            {
                "session": session,
                "turn": turn,
                "kind": kind,
                "arrival_s": round(entry.arrival_s, 6),
                "prompt_tokens": len(prompt),
                "output_tokens": entry.output_tokens,
                "loaded_tokens": entry.loaded_tokens,
                "queued_s": round(entry.begun_s - entry.arrival_s, 6),
                "ttft_s": round(entry.first_s - entry.arrival_s, 6),
                "total_s": round(entry.last_s - entry.arrival_s, 6),
                "model": self._model,
                "block_tokens": self._block_tokens,
                "blocks": [key.hex() for key in keys],
            }
        )

    def close(self) -> None:
        """No more lines."""
        os.close(self._file)

    def _append(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
        os.write(self._file, data)


def machine() -> str:
    """The class of this machine in a few words: processor, cores, system."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {platform.system()}"
