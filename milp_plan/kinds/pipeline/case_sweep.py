"""Plans many pipeline cases in turn, and finds the Pareto front of their plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from milp_plan.core import Plan, PlanningProblem
from milp_plan.run.outcome import Outcome
from milp_plan.run.scope import FIXED_CUT, HOST, Scope
from milp_plan.run.settings import ProgressHook, Settings

from .case import CUT, FREE, Built, Case, Share
from .cut_search import CutSearch, fixed_cut
from .model import Cut, Model, Number
from .placement import FAMILIES, place


@dataclass(frozen=True)
class Point:
    """A case and its outcome.

    Parameters
    ----------
    built, outcome
        The problem, and the outcome of its run.
    """

    built: Built
    outcome: Outcome[PlanningProblem, Plan]

    @property
    def case(self) -> Case:
        """The case that was planned."""
        return self.built.case

    @property
    def shares(self) -> tuple[Share, ...]:
        """Pieces and devices of each stage; devices of the plan where it chooses them."""
        plan, free = self.outcome.plan, self.case.family == FREE
        if plan is None or not free:
            return self.built.shares
        return tuple(
            replace(share, devices=plan.run(f"F{share.stage}@0").devices)
            for share in self.built.shares
        )

    @property
    def time(self) -> Fraction | None:
        """Value in the model's unit of time; ``None`` without a plan."""
        value, scale = self.outcome.value, self.built.problem.units.time_scale
        return None if value is None else Fraction(value, scale)

    @property
    def bound(self) -> Fraction | None:
        """Bound in the model's unit of time."""
        bound, scale = self.outcome.bound, self.built.problem.units.time_scale
        return None if bound is None else Fraction(bound, scale)

    @property
    def peak_memory(self) -> Fraction | None:
        """Largest memory of a device, in the model's unit of size."""
        verdict = self.outcome.verdict
        if verdict is None or self.outcome.plan is None:
            return None
        limited = [f"peak_memory d{number}" for number in range(self.case.devices)]  # no hosts
        peak = max(verdict.components[name] for name in limited)
        return Fraction(peak, self.built.problem.units.size_scale)

    @property
    def bubble(self) -> Fraction | None:
        """Time the busiest device idles within the value: value minus its work."""
        work = Fraction(self.built.work, self.built.problem.units.time_scale)
        return None if self.time is None else self.time - work

    @property
    def bubble_rate(self) -> float | None:
        """Bubble over value."""
        if self.time is None or self.bubble is None or not self.time:
            return None
        return float(self.bubble / self.time)

    @property
    def sample_time(self) -> Fraction | None:
        """Time per micro-batch of size 1, which compares different numbers of micro-batches."""
        if self.time is None:
            return None
        return self.time / (self.case.micro_batches * Fraction(self.case.batch))


def cases(
    model: Model,
    devices: int,
    micro_batches: Sequence[int],
    families: Sequence[str],
    memories: Sequence[Number | None],
    *,
    chunks: int | None = None,
    fixed_batch: bool = False,
    **settings: object,
) -> list[Case]:
    """Return all combinations, per placement by rising memory: each can start from the last.

    Parameters
    ----------
    model, devices
        The model, and the number of devices.
    micro_batches, families, memories
        The values to combine.
    chunks
        Stages per device, for the families that leave it open.
    fixed_batch
        Whether the total batch is that of the first number of micro-batches: more micro-batches
        are then smaller, and take less time and memory in proportion.
    settings
        Other fields of :class:`~milp_plan.kinds.pipeline.Case`.
    """
    combinations = []
    for family in families:
        for count in micro_batches:
            size = Fraction(micro_batches[0], count) if fixed_batch else 1
            for memory in sorted(memories, key=lambda limit: (limit is None, limit or 0)):
                combinations.append(
                    Case(
                        model,
                        devices,
                        count,
                        family,
                        chunks if family in ("interleaved", "wave", FREE) else None,
                        memory,
                        size,
                        **settings,  # type: ignore[arg-type]
                    )
                )
    return combinations


def fitting(model: Model, devices: int, families: Iterable[str] = FAMILIES) -> list[str]:
    """Return the families for which the model has enough pieces (``v`` is one of the waves)."""
    possible = []
    for family in families:
        stages = len(place(family, devices)[0])
        if model.even or len(model.pieces) >= stages:
            possible.append(family)
    return possible


def plan_case(
    case: Case,
    settings: Settings,
    previous: Point | None = None,
    hook: ProgressHook | None = None,
) -> Point:
    """Plan one case; where its cut is open, choose the cut as well.

    Parameters
    ----------
    case, settings
        The case, and the settings of the run.
    previous
        The case before it in the list of :func:`cases`: under more memory the search starts from
        its plan.
    hook
        Receives progress reports.
    """
    if case.cut is None and not case.model.even:
        starts = {} if previous is None else _starts(previous, case)
        made, outcome = CutSearch(case, settings, hook, starts).run()
    else:
        start = None if previous is None else _starts(previous, case).get(previous.built.cut)
        made, outcome = fixed_cut(case, replace(settings, start=start), hook)
    return Point(made, outcome.within(_scope(case, outcome)))


def _scope(case: Case, outcome: Outcome[PlanningProblem, Plan]) -> Scope:
    """Return the scope of a case, in the options of the command."""
    scope = outcome.scope.with_options({HOST: "--lane TIME"})
    cut = FIXED_CUT.format(outcome.problem.provenance.get(CUT))
    named = [f"placement {case.family}" if f == "placement" else f for f in scope.fixed]
    scope = replace(scope, fixed=(*(f for f in named if f != cut), _limit(case)))
    if case.cut is not None:
        return scope.adding(fixed=(cut,))
    if case.model.even:
        return scope.adding(fixed=("equal stages",))
    counted = outcome.record["cuts"]
    possible, looked = counted["possible"], counted["looked_at"]
    if possible == 1:
        return scope.adding(fixed=("the only cut into stages",))
    if counted["all_decided"]:
        decided = f"the cut into stages (all {possible:,} decided)"
    else:
        decided = f"the cut into stages ({looked:,} of {possible:,} inspected, not all decided)"
    return scope.adding(decided=(decided,))


def _limit(case: Case) -> str:
    """Describe the memory limit of a case, and where it comes from."""
    if case.memory is None:
        return "no memory limit (--memory)"
    source = " of the file" if case.memory == case.model.memory else ""
    return f"memory limit{source}"


def _starts(last: Point, case: Case) -> dict[Cut, Plan]:
    """Return the plan of the same case under less memory, by its cut."""
    known = replace(last.case, memory=case.memory, cut=case.cut)
    if known != case or last.outcome.plan is None:
        return {}
    name = case.name
    return {last.built.cut: replace(last.outcome.plan, problem=name, fingerprint=None)}


def front(points: Iterable[Point]) -> list[Point]:
    """Points whose plan no other plan beats in both time per micro-batch and peak memory."""
    known = [point for point in points if point.time is not None]
    known.sort(key=lambda point: (point.peak_memory, point.sample_time))
    best: list[Point] = []
    for point in known:
        if not best or _time(point) < _time(best[-1]):
            best.append(point)
    return best


def _time(point: Point) -> Fraction:
    assert point.sample_time is not None
    return point.sample_time
