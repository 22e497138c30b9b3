"""Compare policies on one trace, machine and model, and leave a run folder with figures.

The order is fixed: refuse what cannot work, simulate, save, draw, then complain. So a mistake in
the input leaves no folder, and a policy that fails or requests that are left over still leave
one. Every policy is simulated by itself; what one finds does not depend on which others run.

joblib and matplotlib are imported inside functions: the first is optional (`n_jobs`), the second
slow to load and not needed before results are saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, TypedDict, Unpack

import numpy as np

from tiermem import hits, registry, shipped
from tiermem.core.chosen import make_policy
from tiermem.core.policy import Parts
from tiermem.errors import InputError, TiermemError
from tiermem.models import presets
from tiermem.models.llm import LLM
from tiermem.models.presets import System
from tiermem.report import folder, origin
from tiermem.report.folder import RunFolder
from tiermem.report.progress import ProgressLine
from tiermem.report.verdict import Failure, must_end, verdict
from tiermem.scenario.simulation import Run, Scenario, Simulation, capacities_for_kv, simulate
from tiermem.traces.catalog import open_trace
from tiermem.traces.trace import Trace

BOUNDS = ("lru", "belady", "belady-bypass", "infinite")
CURVE_POINTS = 12
ARRAY_CODE = frozenset({*BOUNDS, "fifo"})
LOOPED_REFERENCES = 1_000_000


class Settings(TypedDict, total=False):
    """What may be said besides trace, system, model, policies and output.

    capacities: bytes by tier, instead of the system's own; block_tokens: of the trace's blocks;
    kv_blocks, kv_block_tokens: what an engine reported; models_dir: a folder of descriptions to
    look into first; overwrite: replace the run in `out`; n_jobs: processes (same results);
    on_saved: called with the folder before figures are drawn; progress: where its line goes.
    """

    capacities: Mapping[str, int] | None
    block_tokens: int | None
    kv_blocks: int | None
    kv_block_tokens: int | None
    models_dir: Path | None
    seed: int
    overwrite: bool
    n_jobs: int
    on_saved: Callable[[RunFolder], object] | None
    progress: TextIO | None


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a comparison needs, read and checked."""

    trace: Trace
    system: System
    llm: LLM
    policies: tuple[str, ...]
    seed: int

    def scenario(self, policy: str) -> Scenario:
        """The simulation of one of the policies."""
        return Scenario(self.trace, self.system, self.llm, policy, self.seed)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one policy, and how long it took on this machine."""

    policy: str
    outcome: Run | Failure
    wall_s: float


def compare(
    *,
    trace: str | Path | Trace = shipped.DEFAULT_TRACE,
    system: str | System = shipped.DEFAULT_SYSTEM,
    llm: str | LLM = shipped.DEFAULT_LLM,
    policies: Sequence[str] = shipped.DEFAULT_POLICIES,
    out: str | Path,
    **settings: Unpack[Settings],
) -> RunFolder:
    """Simulate each policy, count hits over capacity, and write everything into `out`.

    Names, paths or values will do for trace, system and model. Raises before any work for input
    that is wrong (`InputError` and below, `DoesNotFit`, `RunFolderNotEmpty`); raises after the
    folder is written when a policy raised (`TiermemError`), when every request was rejected
    (`AllRejected`) or some were left (`Unfinished`).
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    overwrite = settings.get("overwrite", False)
    folder.check(out := folder.settle(out), overwrite=overwrite)
    question = read(trace, system, llm, policies, settings)
    wall_s: dict[str, float] = {}
    with ProgressLine(settings.get("progress")) as line:
        attempts = list(_attempts(question, settings.get("n_jobs", 1), line))
        wall_s |= {attempt.policy: attempt.wall_s for attempt in attempts}
        runs = [a.outcome for a in attempts if isinstance(a.outcome, Run)]
        failures = [a.outcome for a in attempts if isinstance(a.outcome, Failure)]
        if not runs:
            raise verdict([], failures, "")
        begun = time.perf_counter()
        curves, broken = hit_curves(question, [run.policy for run in runs], line)
        wall_s["hit curves"] = time.perf_counter() - begun
    failures += broken
    process = origin.process(wall_s, started)
    process["tracebacks"] = {fail.policy: fail.traceback for fail in failures}
    failed = [{"policy": fail.policy, "error": fail.error} for fail in failures]
    contents = _contents(question, runs, curves, process, failed)
    saved = folder.write(out, contents, overwrite=overwrite)
    if on_saved := settings.get("on_saved"):
        on_saved(saved)
    draw(saved)
    if must_end(saved.runs, failures):
        raise verdict(saved.runs, failures, f"results are in {saved.path}")
    return saved


def simulate_to(
    *,
    trace: str | Path | Trace,
    system: str | System,
    llm: str | LLM,
    policy: str,
    out: str | Path,
    **settings: Unpack[Settings],
) -> RunFolder:
    """`compare` with one policy."""
    return compare(trace=trace, system=system, llm=llm, policies=[policy], out=out, **settings)


def read(
    trace: str | Path | Trace,
    system: str | System,
    llm: str | LLM,
    policies: Sequence[str],
    settings: Settings,
) -> Question:
    """Open what is named and refuse what cannot be simulated, before any of it is."""
    unknown = sorted(set(settings) - set(Settings.__annotations__))
    if unknown:
        raise TypeError(f"compare() has no setting {unknown[0]!r}")
    labels = tuple(registry.parse_spec(policy).label for policy in policies)
    if not labels:
        raise InputError("no policy was named", key="policy")
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise InputError(f"{twice[0]!r} is named twice", key="policy")
    if not isinstance(trace, Trace):
        trace = open_trace(trace, block_tokens=settings.get("block_tokens"))
    if not isinstance(llm, LLM):
        llm = presets.llm(llm, models_dir=settings.get("models_dir"))
    system = _system(system, settings)
    question = Question(trace, system, llm, labels, settings.get("seed", 0))
    for label in labels:
        try:
            Simulation(question.scenario(label))
        except (TiermemError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also a plug-in that calls sys.exit()
            said = f"{label!r} cannot be made: {registry.reason(error)}"
            raise InputError(said, key="policy") from error
    return question


def hit_curves(
    question: Question, policies: Sequence[str], line: ProgressLine
) -> tuple[list[hits.HitRow], list[Failure]]:
    """Hits by capacity for `policies` and the bounds, tail before head; LRU also head first."""
    trace = question.trace
    capacities = curve_capacities(question)
    if not capacities:
        return [], []
    rows: list[hits.HitRow] = []
    failures = []
    rooms = capacities_for_kv(question.system, question.llm)
    asked = {hits.without_placement(policy): policy for policy in policies}
    names = list(dict.fromkeys([*asked, *BOUNDS]))
    for done, name in enumerate(names):
        line.update("hit curves", done, len(names), "policies")
        orders = ("reverse", "forward") if name == "lru" else ("reverse",)
        try:
            # What is more than an eviction order has no meaning in one tier without a clock.
            if name in asked and type(make_policy(asked[name], rooms)) is not Parts:
                continue
            for order in orders:
                sizes = affordable(name, capacities, trace.references)
                rows += hits.count(trace, [name], sizes, order)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failures.append(Failure.of(name, error, "while its hits were counted"))
    return rows, failures


def curve_capacities(question: Question) -> list[int]:
    """Capacities in blocks for the hit curves: even steps in the logarithm, from a few blocks to
    beyond the last useful one, and those of the tiers that lie between."""
    unique = question.trace.unique_blocks
    if not unique:
        return []
    top = 2 * unique
    low = max(1, min(unique, unique // 1000 + 4))
    steps = np.geomspace(low, top, CURVE_POINTS)
    block_bytes = question.trace.block_tokens * question.llm.kv_bytes_per_token
    rooms = capacities_for_kv(question.system, question.llm).values()
    tiers = [room // block_bytes for room in rooms]
    return sorted({*(round(step) for step in steps), *(n for n in tiers if low <= n <= top)})


def affordable(name: str, capacities: Sequence[int], references: int) -> Sequence[int]:
    """All capacities for what is counted in array code; for a policy that has to be called for
    each reference so many of them, the first and last included, that it stays in seconds."""
    points = max(5, LOOPED_REFERENCES // references)
    if name in ARRAY_CODE or points >= len(capacities):
        return capacities
    chosen = np.linspace(0, len(capacities) - 1, points).round().astype(int)
    return [capacities[place] for place in chosen]


def draw(saved: RunFolder) -> list[Path]:
    """Draw the figures of a run folder into it, from what is saved there."""
    from tiermem.report.plots import figures

    return figures.draw(saved)


def _system(system: str | System, settings: Settings) -> System:
    capacities = settings.get("capacities")
    engine = {name: settings.get(name) for name in ("kv_blocks", "kv_block_tokens")}
    if isinstance(system, System):
        given = [name for name, value in {"capacities": capacities, **engine}.items() if value]
        if given:
            raise InputError(f"{given[0]} can be set for a system named, not for one made already")
        return system
    return presets.system(
        system,
        capacities=capacities,
        kv_blocks=settings.get("kv_blocks"),
        kv_block_tokens=settings.get("kv_block_tokens"),
        models_dir=settings.get("models_dir"),
    )


def _attempts(question: Question, n_jobs: int, line: ProgressLine) -> Iterator[Attempt]:
    scenarios = [question.scenario(policy) for policy in question.policies]
    if n_jobs == 1 or len(scenarios) == 1:
        for scenario in scenarios:
            yield _attempt(scenario, line)
        return
    from joblib import Parallel, delayed

    jobs = Parallel(n_jobs=min(n_jobs, len(scenarios)), return_as="generator")
    for done, attempt in enumerate(jobs(delayed(_attempt)(s) for s in scenarios), start=1):
        line.update("simulating", done, len(scenarios), "policies")
        yield attempt


def _attempt(scenario: Scenario, line: ProgressLine | None = None) -> Attempt:
    begun, label = time.perf_counter(), scenario.policy

    def progress(done: int, total: int) -> None:
        if line is not None:
            line.update(f"simulating {label}", done, total)

    outcome: Run | Failure
    try:
        outcome = simulate(scenario, progress)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome = Failure.of(label, error, "while it was simulated")
    return Attempt(label, outcome, time.perf_counter() - begun)


def _contents(
    question: Question,
    runs: Sequence[Run],
    curves: Sequence[hits.HitRow],
    process: Mapping[str, Any],
    failed: Sequence[Mapping[str, str]],
) -> folder.Contents:
    system, llm = question.system, question.llm
    about = origin.about(question.trace, system, llm, question.seed)
    config = origin.config(about, system, llm, question.policies, capacities_for_kv(system, llm))
    return folder.Contents(runs, curves, about, config, process, failed)
