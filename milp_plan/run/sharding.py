"""Runs on sharding problems: reduce, search, undo, check, and a record of it all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from milp_plan.backends import Stop
from milp_plan.bounds import Bound
from milp_plan.bounds.sharding import BOUND, dual_bound
from milp_plan.bounds.sharding_choices import EVERY_CHOICE, NO_CHOICE, best_choice
from milp_plan.check.sharding import OBJECTIVE, verify_sharding
from milp_plan.coarsen.sharding import Reduction, reduce_sharding
from milp_plan.core import Verdict
from milp_plan.core.budget import Budget, now
from milp_plan.core.gap import relative_gap, within
from milp_plan.core.sharding import ShardingPlan, ShardingProblem
from milp_plan.io import write_document
from milp_plan.planners.sharding.anytime import Board, Sighting, search

from .record import LONGEST_NAME, versions
from .settings import Progress, ProgressHook

PLANNER = "tree moves"
_CHECK_S = 1.0
_CHECK_SHARE = 0.02
_CHECK_LIKE_READING = 0.15
"""Time kept back for undoing, checking and writing: seconds, a part of the limit, and a part of the
time that reading and reducing took, as large problems take longer at the end, too."""


@dataclass(frozen=True)
class ShardingSettings:
    """How to solve.

    Parameters
    ----------
    time_limit_s
        Wall-clock seconds for everything together.
    gap
        Relative gap at which a plan counts as proved optimal.
    seed
        Of the search; results depend on the clock as well.
    workers
        Threads; ``None`` for one per core, two at most.
    spent_s
        Seconds of the limit that reading the file has taken already.
    """

    time_limit_s: float = 60.0
    gap: float = 1e-6
    seed: int = 0
    workers: int | None = None
    spent_s: float = 0.0


@dataclass(frozen=True)
class ShardingOutcome:
    """What a run found; the fields of :class:`.settings.Outcome` that apply.

    ``stop`` says why it ended, ``plan`` what it has, ``bound`` what no plan can beat and ``gap``
    what lies between: four answers.
    """

    problem: ShardingProblem
    plan: ShardingPlan | None
    verdict: Verdict | None
    value: int | None
    bound: int | None
    gap: float | None
    stop: Stop
    proved: bool
    disputed: bool
    infeasible_because: str | None
    seconds: float
    record: dict[str, Any] = field(repr=False)


def solve_sharding(
    problem: ShardingProblem,
    settings: ShardingSettings | None = None,
    on_progress: ProgressHook | None = None,
) -> ShardingOutcome:
    """Plan a sharding problem.

    Ctrl-C keeps the best plan so far.

    Raises
    ------
    UnsupportedProblemError
        Sums of its numbers may exceed 64 bits.
    """
    settings = settings or ShardingSettings()
    return ShardingRun(problem, settings, on_progress or (lambda _: None)).outcome()


@dataclass
class ShardingRun:
    """One run; other ways of planning replace :meth:`search`.

    ``planner``, ``bound_name``, ``disputed_because`` and ``infeasible_because`` are what a search
    says about its result.
    """

    problem: ShardingProblem
    settings: ShardingSettings
    on_progress: Callable[[Progress], None]
    began: float = field(default_factory=time.perf_counter)
    phases: dict[str, float] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)
    planner: str = PLANNER
    bound_name: str = BOUND
    disputed_because: str = ""
    infeasible_because: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds of the limit that are gone."""
        return self.settings.spent_s + now() - self.began

    def outcome(self) -> ShardingOutcome:
        """Reduce, search, undo, check."""
        limit = self.settings.time_limit_s
        self.tell(Sighting(None, None, 0.0, "reducing"))
        try:
            reduction = self._timed(
                "reducing", lambda: reduce_sharding(self.problem, 0.3 * (limit - self.elapsed_s))
            )
        except KeyboardInterrupt:
            return self._answer(None, None, Stop.INTERRUPTED)
        if reduction.infeasible_because is not None:
            return self._answer(reduction, None, Stop.INFEASIBLE)
        spent = self.elapsed_s
        end = limit - _CHECK_S - _CHECK_SHARE * limit - _CHECK_LIKE_READING * spent
        left = max(0.05, end - spent)
        board, stop = self._timed("search", lambda: self.search(reduction, left))
        return self._answer(reduction, board, stop)

    def search(self, reduction: Reduction, left_s: float) -> tuple[Board, Stop]:
        """Look for plans and bounds of what reductions have left."""
        settings = self.settings
        workers = settings.workers or min(2, os.cpu_count() or 1)
        board = search(
            reduction.labelling,
            left_s,
            gap=settings.gap,
            workers=workers,
            seed=settings.seed,
            on_sighting=self.tell,
        )
        if board.interrupted:
            return board, Stop.INTERRUPTED
        if board.settled:
            self.planner = self.bound_name = EVERY_CHOICE
        if board.infeasible:
            self.infeasible_because = NO_CHOICE
            return board, Stop.INFEASIBLE
        return board, Stop.PROVED if board.proved else Stop.TIME_LIMIT

    def tell(self, seen: Sighting) -> None:
        """Pass on what is known now."""
        gap = relative_gap(seen.value, seen.bound)
        said = Progress(seen.phase, seen.value, seen.bound, gap, self.elapsed_s)
        self.trace.append(
            {
                "seconds": round(said.elapsed_s, 3),
                "phase": said.phase,
                "incumbent": said.incumbent,
                "bound": said.bound,
            }
        )
        self.on_progress(said)

    def _answer(
        self, reduction: Reduction | None, board: Board | None, stop: Stop
    ) -> ShardingOutcome:
        plan = self._plan(reduction, board)
        verdict = None if plan is None else verify_sharding(self.problem, plan)
        value = None if verdict is None or not verdict.ok else verdict.value
        bound = None if board is None else board.bound
        gap = relative_gap(value, bound)
        disputed = bool(self.disputed_because) or (verdict is not None and not verdict.ok)
        why = self.infeasible_because
        if why is None and reduction is not None:
            why = reduction.infeasible_because
        proved = within(value, bound, self.settings.gap)
        outcome = ShardingOutcome(
            self.problem,
            plan,
            verdict,
            value,
            bound,
            gap,
            stop,
            proved and not disputed,
            disputed,
            why,
            self.elapsed_s,
            {},
        )
        outcome.record.update(self._record(outcome, reduction))
        return outcome

    def _plan(self, reduction: Reduction | None, board: Board | None) -> ShardingPlan | None:
        if reduction is None or board is None:
            return None
        labels = board.best()
        if labels is None:
            return None
        chosen = tuple(int(label) for label in reduction.lift(labels))
        return ShardingPlan(
            self.problem.name, chosen, self.problem.fingerprint, board.value, self.planner
        )

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = now()
        try:
            return work()
        finally:
            self.phases[name] = now() - began

    def _record(self, outcome: ShardingOutcome, reduction: Reduction | None) -> dict[str, Any]:
        problem, settings = self.problem, self.settings
        left = None if reduction is None else reduction.labelling
        verdict = "no plan" if outcome.verdict is None else "ok"
        return {
            "record": 1,
            "key": _key(problem, settings),
            "instance": problem.name,
            "fingerprint": problem.fingerprint,
            "objective": OBJECTIVE,
            "operators": len(problem.operators),
            "strategies": len(problem.strategies.cost),
            "edges": len(problem.transitions),
            "operators_left": None if left is None else len(left),
            "strategies_left": None if left is None else len(left.cost),
            "edges_left": None if left is None else len(left.ends),
            "rows_left": None if left is None else len(left.capacity),
            "value": outcome.value,
            "bound": outcome.bound,
            "bound_name": None if outcome.bound is None else self.bound_name,
            "gap": outcome.gap,
            "gap_asked": settings.gap,
            "proved": outcome.proved,
            "stop": str(outcome.stop),
            "verdict": "DISPUTED" if outcome.disputed else verdict,
            "disputed_because": self.disputed_because or None,
            "infeasible_because": outcome.infeasible_because,
            "planner": None if outcome.plan is None else self.planner,
            "seconds": round(outcome.seconds, 3),
            "phases": {name: round(taken, 4) for name, taken in self.phases.items()},
            "settings": {
                "time_limit_s": settings.time_limit_s,
                "seed": settings.seed,
                "workers": settings.workers,
            },
            "versions": versions(),
            "reduction": [] if reduction is None else [list(row) for row in reduction.history],
            "trace": self.trace,
        }


def bound_sharding(
    problem: ShardingProblem, time_limit_s: float
) -> tuple[Bound | None, str | None]:
    """Return a lower bound, or the proof that no plan exists.

    Raises
    ------
    UnsupportedProblemError
        Sums of its numbers may exceed 64 bits.
    """
    began = now()
    reduction = reduce_sharding(problem, 0.5 * time_limit_s)
    if reduction.infeasible_because is not None:
        return None, reduction.infeasible_because
    choice = best_choice(reduction.labelling)
    if choice is not None and choice.labels is None:
        return None, NO_CHOICE
    left = time_limit_s - (now() - began)
    return dual_bound(reduction.labelling, Budget(left)), None


def _key(problem: ShardingProblem, settings: ShardingSettings) -> str:
    asked = {entry.name: getattr(settings, entry.name) for entry in fields(settings)}
    del asked["spent_s"]
    content = [problem.fingerprint, *asked.values(), versions()]
    digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
    name = re.sub(r"[^\w.+-]", "_", problem.name)  # it becomes the name of a file
    return f"{name[:LONGEST_NAME]}-{digest[:12]}"


def write_sharding_record(outcome: ShardingOutcome, folder: Path) -> Path:
    """Write ``<key>.json``, and the chosen strategies as ``<key>.plan.json``; return the former."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.record['key']}.json"
    if outcome.plan is not None:
        plan = json.dumps(list(outcome.plan.chosen)).encode() + b"\n"
        write_document(folder / f"{outcome.record['key']}.plan.json", plan)
    text = json.dumps(outcome.record, indent=1, default=_plain).encode() + b"\n"
    write_document(path, text)
    return path


def _plain(item: object) -> object:
    if isinstance(item, np.integer):
        return int(item)
    raise TypeError(type(item).__name__)
