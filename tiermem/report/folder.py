"""The run folder: everything one comparison found, saved before anything is drawn, and read back.

    results.json                 what was found: one line per policy, strict JSON
    config.json                  the effective configuration, with the assumptions in it
    requests.parquet  moves.parquet  occupancy.parquet  steps.parquet  hits.parquet
    verdict.json                 which differences between policies are more than noise
    table.md                     the comparison for people
    digests.json                 SHA-256 of each file above
    run.json                     command, host, versions, wall clock
    *.png                        figures, drawn from the files above

All but run.json are byte-identical between equal runs. A folder appears whole or not at all: it
is written under another name and moved into place, results.json last. This module does not
simulate, fold or draw.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from tiermem.errors import InputError, RunFolderNotEmpty, UnknownName
from tiermem.report import evidence, metrics, parquet, tables

FIGURES = (
    "hit_rate.png",
    "prompt_token_sources.png",
    "ttft_distribution.png",
    "latency_percentiles.png",
    "occupancy.png",
)
RESULTS = "results.json"
VERDICT = "verdict.json"
_PARQUET = tuple(f"{kind}.parquet" for kind in parquet.KINDS)
_DIGESTED = ("config.json", *_PARQUET, "table.md", VERDICT, RESULTS)
_OWN = frozenset({*_DIGESTED, *FIGURES, "digests.json", "run.json"})
_PARTIAL = ".tiermem-partial-"


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into a run folder.

    `about` is merged into results.json beside `runs` (trace, system, llm, seed ...); `config` and
    `process` become config.json and run.json. `failed` names each policy that raised.
    """

    runs: Sequence[metrics.FinishedRun]
    hits: Sequence[parquet.HitCount]
    about: Mapping[str, Any]
    config: Mapping[str, Any]
    process: Mapping[str, Any]
    failed: Sequence[Mapping[str, str]] = field(default=())


class RunFolder:
    """A run folder on disk; files are read when asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @cached_property
    def results(self) -> dict[str, Any]:
        """results.json; `results["runs"]` has one entry per policy."""
        return self._json(RESULTS)

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json: the effective configuration."""
        return self._json("config.json")

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """verdict.json: what the policies say together; see `evidence.weigh`."""
        return self._json(VERDICT)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The entries of results.json, one per policy that finished, in the order asked for."""
        return list(self.results["runs"])

    @property
    def figures(self) -> list[Path]:
        """The figures that are there, in a fixed order."""
        return [self.path / name for name in FIGURES if (self.path / name).is_file()]

    def table(self, kind: str) -> pd.DataFrame:
        """One of the tables requests, moves, occupancy, steps and hits, with a policy column."""
        if kind not in parquet.KINDS:
            raise UnknownName("table", kind, parquet.KINDS, path=self.path)
        path = self.path / f"{kind}.parquet"
        try:
            return parquet.read(path)
        except FileNotFoundError as error:
            raise InputError("this table is missing from the run folder", path=path) from error
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"this table cannot be read: {error}", path=path) from error

    def frame(self, kind: str = "requests") -> pd.DataFrame:
        """One of the tables; that of requests has one row per (policy, request).

        It has queue_s, ttft_s, tpot_s and e2e_s in seconds besides. The other kinds are those of
        `table`: moves, occupancy, steps and hits.
        """
        table = self.table(kind)
        return metrics.per_request(table) if kind == "requests" else table

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"not a run folder: it has no {name}", path=self.path) from error
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        except ValueError as error:
            raise InputError(f"not JSON: {error}", path=path) from error
        if not isinstance(found, dict):
            raise InputError("not a JSON object, so not written by a run", path=path)
        return found


def load(path: str | Path) -> RunFolder:
    """Open a run folder; a folder that no run wrote is an InputError."""
    folder = RunFolder(path)
    if not folder.path.is_dir():
        raise InputError("no such run folder", path=path)
    if not isinstance(folder.results.get("runs"), list):
        raise InputError("no 'runs' in it, so not written by a run", path=folder.path / RESULTS)
    return folder


def settle(out: str | Path) -> Path:
    """`out` as a path that means the same before and after it is made: `absent/../out` is `out`."""
    path = Path(out)
    try:
        target = path.resolve()
        target.stat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop, before Python 3.13
        said = getattr(error, "strerror", None) or "its links lead in a circle"
        raise InputError(f"this folder cannot be written: {said}", path=out) from error
    if ".." not in path.parts:
        return path
    return target if path.is_absolute() else Path(os.path.relpath(target))


def check(out: str | Path, *, overwrite: bool = False) -> None:
    """Refuse, before any work, an output folder that `write` could not write later.

    A folder that holds something raises RunFolderNotEmpty; with `overwrite` only when what it
    holds was not written by a run. A place that cannot be written is an InputError.
    """
    target = settle(out).resolve()
    try:
        if target.is_dir():
            _check_contents(Path(out), target, overwrite=overwrite)
        ground = next(place for place in (target, *target.parents) if place.exists())
        if not ground.is_dir():
            raise InputError(f"{ground.name} is a file, so no folder can be made here", path=out)
        probe = ground / f"{_PARTIAL}{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise InputError(f"this folder cannot be written: {error.strerror}", path=out) from error


def write(out: str | Path, contents: Contents, *, overwrite: bool = False) -> RunFolder:
    """Save `contents` as the run folder `out`; nothing is left of it when that fails."""
    out = settle(out)
    check(out, overwrite=overwrite)
    target = out.resolve()
    exists = target.is_dir()
    # An existing folder may be a mount point or somebody's current folder: it keeps its identity.
    ground = target if exists else target.parent
    stage = ground / f"{_PARTIAL}{os.getpid()}"
    try:
        stage.mkdir(parents=True)
        _write_files(stage, contents)
        if exists:
            _remove_own(target, keep=stage)
            for name in sorted(_names(stage), key=lambda name: name == RESULTS):
                (stage / name).replace(target / name)
            stage.rmdir()
        else:
            stage.rename(target)
    except OSError as error:
        raise InputError(f"this folder cannot be written: {error.strerror}", path=out) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return RunFolder(out)


def _write_files(stage: Path, contents: Contents) -> None:
    for kind in parquet.RUN_KINDS:
        parquet.write(parquet.run_table(kind, contents.runs), stage / f"{kind}.parquet")
    hits = parquet.hits_table(contents.hits)
    parquet.write(hits, stage / "hits.parquet")
    runs = [metrics.results(run) for run in contents.runs]
    rest = {**contents.about, "definitions": metrics.DEFINITIONS}
    results = {"runs": runs, "failed": list(contents.failed), **rest}
    _write_text(stage / RESULTS, results_text(results))
    _write_text(stage / "config.json", _json_text(contents.config))
    verdict = evidence.weigh(contents.runs, int(contents.about.get("seed", 0)))
    _write_text(stage / VERDICT, _json_text(verdict))
    counted = parquet.read(stage / "hits.parquet")
    _write_text(stage / "table.md", tables.markdown(results, counted, verdict))
    digests = {n: hashlib.sha256((stage / n).read_bytes()).hexdigest() for n in _DIGESTED}
    _write_text(stage / "digests.json", _json_text(digests))
    _write_text(stage / "run.json", _json_text(contents.process))


def results_text(results: Mapping[str, Any]) -> str:
    """results.json: each run on a line of its own, so that another policy only adds lines."""
    lines = [json.dumps(run, ensure_ascii=False, allow_nan=False) for run in results["runs"]]
    runs = "\n,\n".join(lines)
    rest = {name: value for name, value in results.items() if name != "runs"}
    return f'{{"runs": [\n{runs}\n],\n{_json_text(rest)[1:].lstrip()}'


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def _check_contents(out: Path, target: Path, *, overwrite: bool) -> None:
    held = _names(target)
    if not held:
        return
    if not overwrite:
        raise RunFolderNotEmpty(
            f"{out}: this folder is not empty; choose another one, or overwrite the run in it"
            " (--overwrite)"
        )
    foreign = [name for name in held if not _is_own(target / name)]
    if not foreign and not all(name.startswith(_PARTIAL) for name in held):
        load(out)
    if foreign:
        raise RunFolderNotEmpty(
            f"{out}: {foreign[0]!r} was not written by a run, so nothing here is overwritten"
        )


def _remove_own(target: Path, *, keep: Path) -> None:
    """Remove what earlier runs left, results.json first: without it a folder is no run folder."""
    for name in sorted(_names(target), key=lambda name: name != RESULTS):
        path = target / name
        if path == keep or not _is_own(path):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_own(path: Path) -> bool:
    if path.is_dir():
        return path.name.startswith(_PARTIAL)
    return path.name in _OWN
