"""Sweeps: plans a problem with many limits, each variant once, from the plans of its neighbours.

Variants are the points of a grid of memory, devices and bandwidth. They are planned from little of
everything to much, each from the plans of its neighbours of less; at the end a plan that is valid
under another setting too, and better there, is taken over. So no variant is left with a plan that
is worse than that of a neighbour whose plan it could have. Answers lie in a store: a sweep that is
asked again, or goes on after an interruption, plans only what is missing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from milp_plan.backends import Stop
from milp_plan.core import UnsupportedProblemError
from milp_plan.run.key import run_key
from milp_plan.run.kinds import AnyKind, kind_of
from milp_plan.run.reasons.base import What, scaled
from milp_plan.run.settings import ProgressHook, Settings
from milp_plan.run.what_if import VariantResult, plan_variant

from .store import Store

Place = tuple[int, ...]
"""Position of a variant in the grid: a number along each axis."""

MOST_DEVICES = 10_000
"""Maximum number of devices of a variant."""


@dataclass(frozen=True)
class Axis:
    """An axis of a sweep, in increasing order.

    Parameters
    ----------
    name
        Name of the option: ``"memory"``, ``"devices"``, ``"bandwidth"``.
    what
        The sort of resource.
    steps
        Factors on what there is; of devices the number itself.
    """

    name: str
    what: What
    steps: tuple[Fraction, ...]


@dataclass
class Point:
    """A variant and its results.

    Parameters
    ----------
    place, settings, problem
        Which.
    found
        The answer; ``None`` for a variant that was not planned.
    again
        Whether its result was already in the store.
    """

    place: Place
    settings: dict[str, Fraction]
    problem: Any
    key: str
    found: VariantResult[Any, Any] | None = None
    again: bool = False

    @property
    def value(self) -> int | None:
        """Value of its plan, if it has one."""
        return None if self.found is None else self.found.value

    @property
    def bound(self) -> int | None:
        """A lower bound on its value, if one is known."""
        return None if self.found is None else self.found.bound

    @property
    def amount(self) -> Fraction | None:
        """Value of its plan in display units, comparable with other variants."""
        return kind_of(self.problem).measure(self.problem).amount(self.value)

    def label(self) -> str:
        """Return the limits of the variant in words."""
        return ", ".join(f"{name} {step_text(step)}" for name, step in self.settings.items())


def step_text(step: Fraction) -> str:
    """Return a factor as a short decimal, or else as a fraction."""
    return f"{float(step):.6g}" if Fraction(f"{float(step):.6g}") == step else str(step)


def axes_of(
    memory: Iterable[Fraction] = (),
    devices: Iterable[Fraction] = (),
    bandwidth: Iterable[Fraction] = (),
) -> tuple[Axis, ...]:
    """Return the requested axes, each in increasing order."""
    requested: tuple[tuple[str, What, Iterable[Fraction]], ...] = (
        ("bandwidth", "link", bandwidth),
        ("devices", "devices", devices),
        ("memory", "memory", memory),
    )
    ordered = ((name, what, tuple(sorted(set(steps)))) for name, what, steps in requested)
    return tuple(Axis(*entry) for entry in ordered if entry[2])


def variant(problem: Any, settings: Sequence[tuple[Axis, Fraction]]) -> Any:
    """Return a problem with other limits.

    Raises
    ------
    UnsupportedProblemError
        The problem knows nothing of a sort of limit.
    InputError
        There can be no such problem.
    """
    reasons = kind_of(problem).reasons()
    for axis, step in sorted(settings, key=lambda entry: entry[0].what != "devices"):
        known = [r for r in reasons.resources(problem) if r.what == axis.what]
        limited = [r for r in known if r.amount is not None]
        if not limited:
            raise UnsupportedProblemError(
                f"{problem.name}: {axis.name}: without meaning here, there is no limit on it"
            )
        if axis.what == "devices":
            amounts = {entry.name: int(step) for entry in limited}
        else:
            amounts = scaled(limited, step)
        problem = reasons.resized(problem, amounts)
    return problem


Show = Callable[[Point, int], AbstractContextManager[ProgressHook | None]]


@dataclass
class Sweep:
    """The variants of a problem.

    Parameters
    ----------
    problem, axes
        The problem and the axes of the sweep.
    settings
        Settings of the run of each variant.
    store
        Store of answers; ``None`` for no store.

    Raises
    ------
    UnsupportedProblemError
        The problem knows nothing of an axis.
    """

    problem: Any
    axes: tuple[Axis, ...]
    settings: Settings
    store: Store | None = None
    points: list[Point] = field(init=False)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.points = list(self._grid())

    @property
    def kind(self) -> AnyKind:
        """Name and unit of the problem's objective."""
        return kind_of(self.problem)

    def _grid(self) -> Iterator[Point]:
        names = ("time_limit_s", "node_limit", "rounds", "gap", "seed", "threads")
        data = {name: getattr(self.settings, name) for name in names}
        for steps in itertools.product(*(enumerate(axis.steps) for axis in self.axes)):
            chosen = [(axis, step) for axis, (_, step) in zip(self.axes, steps, strict=True)]
            problem = variant(self.problem, chosen)
            key = run_key(problem.name, problem.fingerprint, {"work": "sweep", **data})
            chosen_steps = {axis.name: step for axis, step in chosen}
            yield Point(tuple(place for place, _ in steps), chosen_steps, problem, key)

    def run(self, show: Show | None = None) -> None:
        """Plan variants that are not stored; Ctrl-C ends it with the results so far.

        Parameters
        ----------
        show
            Asked before each variant that is planned, with its number: a context that gives what is
            called with progress.
        """
        try:
            for number, point in enumerate(self.points):
                left = self._load(point)
                if point.found is None:
                    with nullcontext() if show is None else show(point, number) as hook:
                        self._plan(point, left, hook)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        self._share()

    def neighbours(self, point: Point) -> list[Point]:
        """Return variants that differ by one step along one axis."""
        return [
            other
            for other in self.points
            if sum(abs(a - b) for a, b in zip(point.place, other.place, strict=True)) == 1
        ]

    def front(self) -> list[Point]:
        """Return the Pareto front: points whose plans are not dominated in value and limits."""
        known = [point for point in self.points if point.value is not None]
        return [p for p in known if not any(_beats(other, p) for other in known)]

    def plan_file(self, point: Point) -> Path | None:
        """Return the path of the plan of a point."""
        planned = point.found is not None and point.found.plan is not None
        return self.store.plan_path(point.key) if planned and self.store is not None else None

    def _plan(self, point: Point, left: Any, hook: ProgressHook | None) -> None:
        near = [entry.found.plan for entry in self.neighbours(point) if entry.found is not None]
        starts = [plan for plan in (left, *near) if plan is not None]
        lock = None if self.store is None else self.store.lock(point.key)
        try:
            point.found = plan_variant(point.problem, self.settings, starts, hook)
            self._save(point)
        finally:
            if lock is not None:
                lock.release()
        if point.found.stop is Stop.INTERRUPTED:
            self.interrupted = True

    def _share(self) -> None:
        """Take over plans of neighbours, until no neighbour has a better one."""
        waiting = [point for point in self.points if point.found is not None]
        while waiting:
            point = waiting.pop()
            for other in self.neighbours(point):
                if other.found is not None and self._take(other, point):
                    waiting.append(other)

    def _take(self, point: Point, source: Point) -> bool:
        """Give a point the plan of another one, if it is valid and better."""
        result, plan = point.found, None if source.found is None else source.found.plan
        if result is None or plan is None:
            return False
        carried = self.kind.reasons().carried(plan)
        verdict = self.kind.verify(point.problem, carried)
        value = verdict.value
        if not verdict.ok or value is None or (result.value is not None and value >= result.value):
            return False
        by = getattr(plan, "planner", "")
        point.found = dataclasses.replace(
            result,
            plan=self.kind.claimed(point.problem, carried, value, by),
            verdict=verdict,
            value=value,
            proved=value == result.bound,
            infeasible_reason=None,
            started=True,
        )
        self._save(point)
        return True

    def _save(self, point: Point) -> None:
        result = point.found
        assert result is not None
        if self.store is None:
            return
        stopped = result.stop is Stop.INTERRUPTED
        content = {
            "status": "interrupted" if stopped else "done",
            "instance": self.problem.name,
            "fingerprint": point.problem.fingerprint,
            "settings": {name: str(step) for name, step in point.settings.items()},
            "value": result.value,
            "bound": result.bound,
            "stop": str(result.stop),
            "infeasible_because": result.infeasible_reason,
            "seconds": round(result.seconds, 3),
            "started": result.started,
        }
        plan = None if result.plan is None else self.kind.plan_text(result.plan)
        self.store.save(point.key, content, plan)

    def _load(self, point: Point) -> Any:
        """Take an answer from the store; of an interrupted one only return the plan."""
        record = None if self.store is None else self.store.load(point.key)
        if self.store is None or record is None:
            return None
        plan, verdict = None, None
        if record["plan_sha256"] is not None:
            path = self.store.plan_path(point.key)
            plan = self.kind.read_plan(path, point.problem, path)
            verdict = self.kind.verify(point.problem, plan)
            if not verdict.ok:  # of another version of the checker: not worth keeping
                return None
        if record["status"] != "done":
            return plan
        value = None if verdict is None else verdict.value
        point.again = True
        point.found = VariantResult(
            point.problem,
            plan,
            verdict,
            value,
            record["bound"],
            Stop(record["stop"]),
            value is not None and value == record["bound"],
            record["infeasible_because"],
            record["seconds"],
            record["started"],
        )
        return None


def _beats(one: Point, two: Point) -> bool:
    """Return whether a point dominates another one in value and limits."""
    assert one.amount is not None
    assert two.amount is not None
    as_little = all(a <= b for a, b in zip(one.place, two.place, strict=True))
    other = one.amount < two.amount or one.place != two.place
    return one.amount <= two.amount and as_little and other
