"""A table of rows in tiered memory: pages of rows, brought up as rows are asked for.

The rows are state that nothing could compute again, so a page that a device cannot give back is an
error that says so, and never zeros.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch

from tiermem import registry
from tiermem.errors import InputError
from tiermem.offload import checks, views
from tiermem.offload.labels import KEY_BYTES
from tiermem.offload.layout import Layout
from tiermem.offload.memory import TieredMemory
from tiermem.offload.tensor import TensorLost
from tiermem.runtime.grants import Grant
from tiermem.runtime.sizes import GRANULE_BYTES, charged_bytes

Tensor: TypeAlias = Any

_IDEMPOTENT = ("lru", "fifo")
"""Orders to which using a block twice in a row is using it once."""


class Pages:
    """`rows` x `width` values of `dtype`, `page_rows` of them in a block.

    `lookups` counts the rows that were read by `take`, `hits` those whose page was in the fastest
    tier when its turn came.
    """

    def __init__(
        self, memory: TieredMemory, rows: int, width: int, dtype: Any, page_rows: int | None = None
    ) -> None:
        if not isinstance(memory, TieredMemory):
            raise InputError(f"{memory!r} is not a TieredMemory", key="memory")
        rows = checks.whole(rows, "num_embeddings", unit=" of rows")
        width = checks.whole(width, "embedding_dim", unit=" of values")
        if not isinstance(dtype, torch.dtype) or not _trainable(dtype):
            raise InputError(f"{dtype!r} is not a floating dtype that rows can have", key="dtype")
        if page_rows is None:
            page_rows = max(1, GRANULE_BYTES // (width * dtype.itemsize))
        page_rows = checks.whole(page_rows, "page_rows", unit=" of rows")
        self.rows, self.width, self.page_rows = rows, width, min(page_rows, rows)
        self.layout = Layout(dtype, (self.page_rows, width))
        self.lookups = self.hits = 0
        self._memory = memory
        self._fastest = memory.ledger.fastest[0]
        self._blocks: list[int] = []
        count = -(-rows // self.page_rows)
        memory.ledger.check(self.layout.nbytes)
        memory.ledger.check_all([self.layout.nbytes], each=count)
        self._used = np.zeros(count, dtype=np.int64)  # when, by page
        policy = memory.policy
        name = registry.parse_spec(policy).target if isinstance(policy, str) else ""
        self._merges = name in _IDEMPOTENT
        self._step = max(1, self.resident_pages // 2)  # pages at a time; the rest is for others

    @property
    def dtype(self) -> Any:
        """Of its values."""
        return self.layout.dtype

    @property
    def resident_pages(self) -> int:
        """How many pages fit the fastest tier."""
        return self._memory.fastest_bytes // charged_bytes(self.layout.nbytes)

    def fill(self, rows_of: Callable[[int, int], Tensor]) -> None:
        """Write every row, once: `rows_of(start, stop)` gives those of one page. Afterwards they
        are in the lower tiers, so that the first look-up of each is a miss."""
        assert not self._blocks, "a table is filled once"
        memory, stem = self._memory, os.urandom(KEY_BYTES - 8)
        for first in range(0, len(self), self._step):
            pages = range(first, min(first + self._step, len(self)))
            keys = [stem + page.to_bytes(8, "little") for page in pages]
            self._blocks += [memory.hold(key, self.layout.nbytes) for key in keys]
            with memory.runtime.acquire([self._blocks[page] for page in pages]) as grant:
                for page in pages:
                    start, stop = page * self.page_rows, (page + 1) * self.page_rows
                    held = self._page(grant, page)
                    held[: self.rows - start].copy_(rows_of(start, min(stop, self.rows)))
                    held[self.rows - start :].zero_()
                    self._write_back(grant, page, held)
                grant.commit()
            memory.sink()

    def take(self, ids: Tensor, *, grouped: bool = False) -> Tensor:
        """The rows of `ids`, one dimension of integers, in a new tensor on the device of `ids`.

        Row after row is looked up in order, so that what hits is what `tiermem hits` counts for
        the same ids (in pages) and capacity. `grouped`: each page once, many pages at a time, which
        is faster where pages come from a disk, and hits otherwise.
        """
        where = ids.device
        rows = ids.to("cpu", torch.int64)
        self._inside(rows)
        made = Layout(self.dtype, (len(rows), self.width))
        found = made.of_bytes(torch.empty(made.nbytes, dtype=torch.uint8))
        if grouped:
            self._take_grouped(rows, found)
            return found.to(where)
        pages, within = rows // self.page_rows, rows % self.page_rows
        for start, stop, page in _runs(pages.numpy(), merge=self._merges):
            with self._leased([page]) as grant:
                found[start:stop] = self._page(grant, page)[within[start:stop]]
            self.lookups += stop - start
            self.hits += stop - start - (grant.hits[0][0] != self._fastest)
            self._used[page] = self.lookups
        return found.to(where)

    def visit(self, ids: Tensor, look: Callable[[Tensor, Tensor], None]) -> None:
        """Look at the rows `ids`, each once: `look(rows, which)` gets a copy of some of them and
        which ones of `ids` they are. Not counted as look-ups."""
        for grant, parts in self._by_page(ids.to("cpu", torch.int64)):
            for page, within, which in parts:
                look(self._page(grant, page)[within], which)

    def edit(self, ids: Tensor, change: Callable[[Tensor, Tensor], None]) -> None:
        """Change the rows `ids`: as `visit`, and what `change` does to the rows is written back."""
        for grant, parts in self._by_page(ids.to("cpu", torch.int64)):
            for page, within, which in parts:
                held = self._page(grant, page)
                rows = held[within]
                change(rows, which)
                held[within] = rows
                self._write_back(grant, page, held)
            grant.commit(grant.blocks)

    def whole(self) -> Iterator[tuple[int, Tensor]]:
        """The first row of each page, in order, and a copy of its rows; not counted as look-ups."""
        for first in range(0, len(self), self._step):
            pages = list(range(first, min(first + self._step, len(self))))
            with self._leased(pages) as grant:
                for page in pages:
                    start = page * self.page_rows
                    yield start, self._page(grant, page)[: self.rows - start].clone()

    def free(self) -> None:
        """Delete the table in every tier."""
        blocks, self._blocks = self._blocks, []
        self._memory.forget(blocks)

    def __len__(self) -> int:
        return len(self._used)

    def __del__(self) -> None:
        for block in getattr(self, "_blocks", ()):
            self._memory.ledger.orphan(block)

    def _take_grouped(self, rows: Tensor, found: Tensor) -> None:
        for grant, parts in self._by_page(rows):
            for page, within, which in parts:
                found[which] = self._page(grant, page)[within]
                self.lookups += len(which)
                self.hits += len(which)
                self._used[page] = self.lookups
            self.hits -= sum(count for tier, count in grant.hits if tier != self._fastest)

    def _by_page(self, rows: Tensor) -> Iterator[tuple[Grant, list[tuple[int, Tensor, Tensor]]]]:
        """Grants of the pages of `rows`, some pages each; for each page the rows within it, and
        which ones of `rows` they are. Pages come in the order of their last use, so that they are
        left in that order."""
        self._inside(rows)
        order = torch.argsort(rows // self.page_rows, stable=True)
        pages, within = (rows // self.page_rows)[order].numpy(), (rows % self.page_rows)[order]
        runs = sorted(_runs(pages, merge=True), key=lambda run: int(self._used[run[2]]))
        for first in range(0, len(runs), self._step):
            some = runs[first : first + self._step]
            with self._leased([page for _, _, page in some]) as grant:
                yield grant, [(page, within[i:j], order[i:j]) for i, j, page in some]

    def _leased(self, pages: list[int]) -> Grant:
        """A grant of these pages, which become recent in this order."""
        if not self._blocks:
            raise InputError("this table was freed, and cannot be read any more")
        runtime = self._memory.runtime
        backwards = runtime.policy.touch_order == "reverse"
        blocks = [self._blocks[page] for page in pages]
        grant = runtime.acquire(blocks[::-1] if backwards else blocks)
        if grant.ready_blocks < len(blocks):
            grant.release()
            lost = grant.blocks[grant.ready_blocks]
            start = pages[blocks.index(lost)] * self.page_rows
            raise TensorLost(
                f"rows {start} to {min(start + self.page_rows, self.rows) - 1} are lost: no tier "
                "can give their page back, and it cannot be computed again (status() counts what "
                "failed); load a checkpoint"
            )
        return grant

    def _page(self, grant: Grant, page: int) -> Tensor:
        """A page where it lies; a copy where it lies in several pieces."""
        return views.opened(grant.views(self._blocks[page]), self.layout)

    def _write_back(self, grant: Grant, page: int, rows: Tensor) -> None:
        """Nothing where the page was changed where it lies."""
        held = grant.views(self._blocks[page])
        if len(held) > 1:
            views.write(held, rows)

    def _inside(self, rows: Tensor) -> None:
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.rows:
            wrong = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
            raise InputError(f"row {wrong} is not in a table of {self.rows} rows")


def _trainable(dtype: Any) -> bool:
    """float8 and smaller have no arithmetic."""
    return bool(dtype.is_complex or (dtype.is_floating_point and dtype.itemsize > 1))


def _runs(pages: Any, *, merge: bool) -> Iterator[tuple[int, int, int]]:
    """(start, stop, page) of each reference, or of each run of references to one page."""
    if not len(pages):
        return
    starts = np.flatnonzero(np.diff(pages, prepend=-1)) if merge else np.arange(len(pages))
    stops = np.append(starts[1:], len(pages))
    yield from zip(starts.tolist(), stops.tolist(), pages[starts].tolist(), strict=True)
