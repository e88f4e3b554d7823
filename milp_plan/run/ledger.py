"""What is known in a run: the plan, the bound, and who disputes them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from milp_plan.api import Plan, PlanningProblem
from milp_plan.backends import Stop
from milp_plan.bounds import Bound, infeasibility
from milp_plan.check import verify
from milp_plan.coarsen import Coarsening
from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.budget import Budget
from milp_plan.core.gap import relative_gap, within
from milp_plan.models.registry import Found

from .model import ModelAnswer, Solver
from .polish import FAILURES, Search
from .record import make_record
from .settings import Clock, Outcome, Progress, ProgressHook, Settings

BOUND_SHARE = 0.1
"""Part of the time limit that bounds may take."""


@dataclass
class Ledger:
    """The books of one run: each stage may improve the plan or the bound."""

    problem: PlanningProblem
    settings: Settings
    found: Found
    solver: Solver
    report: ProgressHook | None = None
    plan: Plan | None = None
    verdict: Verdict | None = None
    value: int | None = None
    planner: str = ""
    bound: Bound | None = None
    stop: Stop = Stop.TIME_LIMIT
    disputed: str = ""
    infeasible_because: str | None = None
    baselines: dict[str, int | None] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    coarsening: Coarsening | None = None
    answer: ModelAnswer | None = None
    search: Search | None = None
    trace: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock(self.settings.time_limit_s)
        self.repeatable = self.settings.node_limit is not None

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound, ``None`` where either is missing."""
        return relative_gap(self.value, self.bound.value if self.bound else None)

    @property
    def proved(self) -> bool:
        """Whether the gap asked for is reached."""
        bound = self.bound.value if self.bound else None
        return within(self.value, bound, self.settings.gap)

    @property
    def end_of_limit(self) -> Stop:
        """Why a stage ends that is not interrupted and proves nothing."""
        return Stop.NODE_LIMIT if self.repeatable else Stop.TIME_LIMIT

    def limit(self, share: float) -> float | None:
        """Seconds a stage may take; none where the run must be repeatable."""
        return None if self.repeatable else share * self.settings.time_limit_s

    def say(self, phase: str, note: str = "") -> None:
        """Record progress, and show it."""
        bound = self.bound.value if self.bound else None
        point = Progress(phase, self.value, bound, self.gap, self.clock.elapsed_s, note)
        self.trace.append(point)
        if self.report is not None:
            self.report(point)

    def offer(self, plan: Plan | None, planner: str, phase: str) -> bool:
        """Take a plan of the original problem if the checker accepts it and it is better."""
        if plan is None:
            return False
        with self.clock.phase("check"):
            verdict = verify(self.problem, plan)
        if not verdict.ok or verdict.value is None:
            return False
        if self.value is not None and verdict.value >= self.value:
            return False
        self.plan, self.verdict, self.value = plan, verdict, verdict.value
        self.planner = planner
        self.say(phase, planner)
        return True

    def check_start(self, start: Plan) -> None:
        """Take the user's plan.

        Raises
        ------
        InputError
            It is not valid.
        """
        verdict = verify(self.problem, start)
        if not verdict.ok:
            raise InputError(
                Finding(f"start plan, {v.rule}", v.message, "a valid plan", "run check on it")
                for v in verdict.violations
            )
        self.offer(start, start.planner or "start", "start")

    @property
    def restricted(self) -> bool:
        """Whether a switch of the formulation leaves out plans: its bounds prove nothing."""
        return self.solver.formulation.restricts(self.solver.options)

    def dispute(self, because: str) -> None:
        """Note that the checker disputes an answer; the first reason stays."""
        self.disputed = self.disputed or because

    def raise_bound(self, bound: Bound) -> None:
        """Take a bound on the original problem."""
        if self.bound is None or bound.value > self.bound.value:
            self.bound = bound
            self.bounds = (*self.bounds, bound)
            self.say("bounds", bound.name)

    def look_for_obstacle(self) -> None:
        """Look for a proof that there is no plan."""
        with self.clock.phase("bounds"):
            proof = infeasibility(self.problem, Budget(self.limit(BOUND_SHARE)))
        if proof is not None:
            self.infeasible_because = proof.reason

    def use_answer(self, answer: ModelAnswer, cutoff: int | None) -> None:
        """Take plan and bound of an exact model of the original problem, asked up to a cutoff.

        Raises
        ------
        KeyboardInterrupt
            The solve was interrupted: so is the run.
        """
        self.answer = answer
        self.dispute(answer.disputed)
        if answer.report.stop in FAILURES:
            self.say("model", f"{answer.report.stop}: {answer.report.message}")
        self.stop = self.end_of_limit
        if not answer.disputed:
            self._believe(answer, cutoff)
        if answer.report.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt

    def _believe(self, answer: ModelAnswer, cutoff: int | None) -> None:
        name = self.solver.formulation.card.name
        self.offer(answer.plan, name, "model")
        if self.restricted:
            return  # nothing is proved
        if answer.report.stop is Stop.INFEASIBLE:
            if cutoff is None:
                self.infeasible_because = f"{name} has no solution: proved by the solver"
            else:
                self.raise_bound(Bound(name, cutoff + 1, f"no plan of value {cutoff} or less"))
        elif answer.bound is not None:
            most = [answer.value, None if cutoff is None else cutoff + 1]
            bound = min([answer.bound, *(limit for limit in most if limit is not None)])
            self.raise_bound(Bound(name, bound, "solver's bound"))

    def polish(self, limit_s: float | None = None) -> None:
        """Neighbourhood search on the original problem, until the limit or the end of the run.

        Raises
        ------
        KeyboardInterrupt
            A solve was interrupted: so is the run.
        """
        card = self.solver.formulation.card
        if self.plan is None or self.value is None or not card.neighbourhoods:
            return
        if self.settings.rounds == 0:
            return
        if self.stop is Stop.INTERRUPTED or self.clock.left_s < 1.0:
            return
        bound = self.bound.value if self.bound else None
        search = Search(self.problem, self.solver, self.settings, self.plan, self.value, bound)
        self.search = search
        clock = Clock(self.clock.left_s if limit_s is None else min(limit_s, self.clock.left_s))
        try:
            search.run(
                clock,
                lambda kind: self.offer(search.plan, "neighbourhood search", f"polish: {kind}"),
            )
        finally:
            for phase, seconds in clock.phases.items():
                self.clock.add(phase, seconds)
            for because in search.disputes:
                self.dispute(because)
        if search.interrupted:
            raise KeyboardInterrupt
        self.stop = self.end_of_limit

    def close(self) -> None:
        """Say why the run ended, now that all stages are over."""
        if self.infeasible_because is not None:
            self.stop = Stop.INFEASIBLE
        elif self.proved:
            self.stop = Stop.PROVED
        elif self.stop is Stop.PROVED:  # of a smaller or another problem: no proof for this one
            self.stop = self.end_of_limit

    def outcome(self) -> Outcome:
        """Everything that was found, with its record."""
        plan = self.plan
        if plan is not None and self.value is not None:
            plan = plan.claimed(str(self.problem.objective), self.value, self.planner)
            mark = self.problem.fingerprint
            plan = dataclasses.replace(plan, fingerprint=mark, parent=self.problem.parent)
        done = Outcome(
            problem=self.problem,
            plan=plan,
            verdict=self.verdict,
            value=self.value,
            bound=self.bound.value if self.bound else None,
            bound_name=self.bound.name if self.bound else None,
            gap=self.gap,
            stop=self.stop,
            disputed=bool(self.disputed),
            proved=self.proved,
            infeasible_because=self.infeasible_because,
            baselines=self.baselines,
            planner=self.planner,
            seconds=self.clock.elapsed_s,
            record={},
        )
        details = {
            "coarsening": self.coarsening,
            "answer": self.answer,
            "search": self.search,
            "bounds": self.bounds,
            "trace": self.trace,
            "disputed_because": self.disputed,
        }
        record = make_record(done, self.settings, self.found, self.clock, details)
        return dataclasses.replace(done, record=record)
