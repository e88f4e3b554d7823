"""The ledger of a run: best plan, best bound, defects. It alone accepts plans and bounds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

from milp_plan.backends import Limits, Stop
from milp_plan.core import Verdict
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.gap import proved_optimal, relative_gap, within
from milp_plan.lp import CompiledModel

from .kind import Kind
from .model import REFUTED, FormulationSolver
from .model_answer import AcceptedAnswer, ModelAnswer
from .settings import Incumbent, IncumbentHook, Progress, ProgressHook, Settings

logger = logging.getLogger(__name__)

P = TypeVar("P")
S = TypeVar("S")

NO_SOLUTION = "its model has no solution"
"""First words of what is proved of a model without a solution."""

BOUND_SHARE = 0.1
"""Maximum share of the time limit for bounds."""

LARGEST_GAP = 1.0
"""Relative gap for solvers where any plan will do: infinity is not a number to all of them."""


class Ledger(Generic[P, S]):
    """Best plan, best bound and defects of one run; steps report to it, from any thread.

    Parameters
    ----------
    kind, problem, settings
        The problem, its kind, and the settings of the run.
    budget
        The run's budget; made from the settings by default.
    solver
        The formulation of the run's models; ``None`` for strategies that need none.
    report
        Called with every progress point.
    on_incumbent
        Called with every plan that is better than all before it.

    Attributes
    ----------
    plan, verdict, value, planner
        The best plan, its verdict, its value, and the name of its planner.
    bound, bounds
        The best bound on the problem, and every bound that was the best at some time.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    reached
        Value of the best plan of each planner, whether or not it is the run's best.
    disputed
        The first reason why the checker disputes a solver's claim; empty if it disputes none.
    defects
        Invalid plans of our own planners, and failures of solvers and formulations, in words.
    details
        Further members of the record.
    asked
        Whether a model of the formulation was solved, with any result.
    unproved_reason
        Why the formulation's answers prove nothing; empty if they do, or if it was not solved.
    disputed_model
        The model of the first dispute, if there was one.
    start
        The user's plan, made valid for this problem; ``None`` without one.
    """

    def __init__(
        self,
        kind: Kind[P, S],
        problem: P,
        settings: Settings,
        budget: Budget | None = None,
        *,
        solver: FormulationSolver | None = None,
        report: ProgressHook | None = None,
        on_incumbent: IncumbentHook | None = None,
    ) -> None:
        self.kind, self.problem, self.settings = kind, problem, settings
        self.budget = budget or Budget(settings.time_limit_s, settings.node_limit)
        self._solver, self._report, self._on_incumbent = solver, report, on_incumbent
        self.plan: S | None = None
        self.verdict: Verdict | None = None
        self.value: int | None = None
        self.planner = ""
        self.bound: Bound | None = None
        self.bounds: tuple[Bound, ...] = ()
        self.stop: Stop | None = None
        self.disputed = ""
        self.infeasible_reason: str | None = None
        self.baselines: dict[str, int | None] = {}
        self.reached: dict[str, int] = {}
        self.defects: list[str] = []
        self.cores: int | None = None  # set by a strategy that searches on all cores
        self.cluster: Any = None  # client of the Dask scheduler, if the settings name one
        self.details: dict[str, Any] = {}
        self.asked = False
        self.unproved_reason = ""
        self.disputed_model: CompiledModel | None = None
        self._claimants: set[str] = set()
        self._refuter = ""
        self._refuted: set[str] = set()
        self.trace: list[Progress] = []
        self.start: S | None = None
        self._lock = RLock()
        self._closed = False

    # -- what is known -----------------------------------------------------------------------------

    @property
    def solver(self) -> FormulationSolver:
        """The formulation and its backend; only for strategies that have one."""
        assert self._solver is not None
        return self._solver

    @property
    def formulation(self) -> FormulationSolver | None:
        """The same, or ``None``."""
        return self._solver

    def close(self) -> None:
        """End the run: accept and report nothing more.

        A background search that an alarm left behind may still have a plan to offer; the outcome is
        being written then, and progress must not report what the outcome does not have.
        """
        with self._lock:
            self._closed = True

    def set_solver(self, solver: FormulationSolver | None) -> None:
        """Set the formulation of the run's models, once it is chosen."""
        self._solver = solver

    @property
    def lower(self) -> int | None:
        """Value of the best bound."""
        return None if self.bound is None else self.bound.value

    @property
    def gap(self) -> float | None:
        """Relative gap of value and bound, ``None`` where either is missing."""
        return relative_gap(self.value, self.lower)

    @property
    def settled(self) -> bool:
        """Whether the requested gap is reached; with gap 0, whether the plan is proved optimal."""
        return within(self.value, self.lower, self.settings.gap)

    @property
    def proved(self) -> bool:
        """Whether no plan is better by as little as one tick."""
        return proved_optimal(self.value, self.lower)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do, or no time is left."""
        return self.settled or self.infeasible_reason is not None or self.budget.over

    @property
    def repeatable(self) -> bool:
        """Whether nothing may depend on the clock."""
        return self.budget.repeatable

    @property
    def threads(self) -> int:
        """Threads of this run."""
        if self.settings.threads is not None:
            return self.settings.threads
        return 1 if self.repeatable else self.cores or self.kind.threads

    def limits(self, seconds: float) -> Limits:
        """Return a model's limits: seconds, and nodes, gap, seed and threads of the settings."""
        return Limits(
            time_s=max(1.0, seconds),
            nodes=self.settings.node_limit,
            gap=min(self.settings.gap, LARGEST_GAP),
            seed=self.settings.seed,
            threads=self.threads,
        )

    def say(self, phase: str, note: str = "", *, candidate_value: int | None = None) -> None:
        """Record progress and report it.

        Parameters
        ----------
        phase, note
            The phase of the run, and a remark.
        candidate_value
            Value of a plan that a search has but has not offered yet.
        """
        with self._lock:
            if self._closed:
                return
            value = self.value if candidate_value is None else candidate_value
            gap = relative_gap(value, self.lower)
            point = Progress(phase, value, self.lower, gap, self.budget.elapsed_s, note)
            self.trace.append(point)
        logger.debug(
            "%s %s: value %s, bound %s, %.3f s", phase, note, value, self.lower, point.elapsed_s
        )
        if self._report is not None:
            self._report(point)

    # -- results of steps --------------------------------------------------------------------------

    def offer(self, plan: S | None, by: str, phase: str, *, must_be_valid: bool = True) -> bool:
        """Accept a plan if the checker does and it is the best so far; return whether it is.

        Parameters
        ----------
        plan
            A plan of the whole problem, or ``None``.
        by, phase
            Name of its planner, and the phase in which it was made.
        must_be_valid
            Whether an invalid plan is a defect, which the record lists. ``False`` for trial plans
            that may be invalid.
        """
        if plan is None:
            return False
        with self.budget.phase("check"):
            verdict = self.kind.verify(self.problem, plan)
        with self._lock:
            if self._closed:
                return False
            if not verdict.ok or verdict.value is None:
                if must_be_valid:
                    reason = "; ".join(str(entry) for entry in verdict.violations[:3])
                    self.fail(f"{by} made a plan that breaks a law: {reason}")
                return False
            self._check_claims_against(by, verdict.value)
            self.reached[by] = min(verdict.value, self.reached.get(by, verdict.value))
            if self.value is not None and verdict.value >= self.value:
                return False
            self.plan, self.verdict, self.value = plan, verdict, verdict.value
            self.planner = by
            self.say(phase, by)
            self._show(plan, verdict.value)
            return True

    def _show(self, plan: S, value: int) -> None:
        """Call the incumbent hook with the new best plan."""
        if self._on_incumbent is not None:
            claimed = self.kind.claimed(self.problem, plan, value, self.planner)
            known = self.planner, self.lower, self.gap, self.budget.elapsed_s
            self._on_incumbent(Incumbent(claimed, value, *known))

    def prove(self, bound: Bound) -> None:
        """Accept a bound on the whole problem, unless a plan refuted it or one of the same name."""
        with self._lock:
            if self._closed or bound.name in self._refuted:
                return
            if self.value is not None and bound.value > self.value:
                self._drop_claim(bound, self.planner, self.value)
            elif self.bound is None or bound.value > self.bound.value:
                self.bound = bound
                self.bounds = (*self.bounds, bound)
                self.say("bounds", bound.name)

    def refute(self, reason: str, by: str = "") -> None:
        """Accept a proof that no plan exists, by the formulation ``by`` if it is named.

        A known plan refutes the proof.
        """
        with self._lock:
            if self._closed:
                return
            if self.value is not None:
                self._record_refutation(reason, by, self.planner, self.value)
            elif self.infeasible_reason is None:
                self.infeasible_reason, self._refuter = reason, by

    def dispute(self, reason: str, model: CompiledModel | None = None) -> None:
        """Record that the checker disputes an answer, unless the reason is empty."""
        if reason and not self.disputed:
            self.disputed, self.disputed_model = reason, model
        if reason.startswith(REFUTED):
            self.fail(reason)

    @property
    def claimed(self) -> bool:
        """Whether the best bound, or a proof that no plan exists, is the formulation's claim."""
        known = self.bound is not None and self.bound.name in self._claimants
        return known or (self.asked and self.infeasible_reason is not None)

    def test_claims_with(self, planner: str, plan: S | None) -> None:
        """Test claimed bounds against a plan that is not offered.

        A model that silently leaves out plans would prove too much.
        """
        verdict = None if plan is None else self.kind.verify(self.problem, plan)
        if verdict is not None and verdict.ok and verdict.value is not None:
            with self._lock:
                self._check_claims_against(planner, verdict.value)

    def _check_claims_against(self, planner: str, value: int) -> None:
        """Drop bounds and proofs that a valid plan refutes."""
        if self.infeasible_reason is not None:
            self._record_refutation(self.infeasible_reason, self._refuter, planner, value)
            self.infeasible_reason = None
        for bound in self.bounds:
            if bound.value > value:
                self._drop_claim(bound, planner, value)

    def _drop_claim(self, bound: Bound, planner: str, value: int) -> None:
        """Remove a bound, and all others of its name."""
        text = self.kind.measure(self.problem).text
        self._refuted.add(bound.name)
        self.bounds = tuple(known for known in self.bounds if known.name != bound.name)
        self.bound = max(self.bounds, key=lambda known: known.value, default=None)
        claim = f"no plan is below {text(bound.value)}"
        if bound.detail.startswith(NO_SOLUTION):
            claim = bound.detail
        self._record_refutation(claim, bound.name, planner, value)

    def _record_refutation(self, claim: str, by: str, planner: str, value: int) -> None:
        """Record that a claimed proof is wrong."""
        text = self.kind.measure(self.problem).text(value)
        prefix = REFUTED if by in self._claimants else "a proof of ours is refuted by"
        claim = f"{by}: {claim}" if by else claim
        self.dispute(f"{prefix} {planner or 'a plan'}: {claim}; a checked plan has {text}")
        self.fail(self.disputed)

    def fail(self, defect: str) -> None:
        """Record a defect, once."""
        if defect not in self.defects:
            self.defects.append(defect)
            logger.info("defect: %s", defect)

    def accept_answer(
        self,
        answer: ModelAnswer,
        cutoff: int | None = None,
        *,
        covers_all_plans: bool = True,
        by: str | None = None,
        phase: str = "model",
        expand: Callable[[Any], S] | None = None,
        repair: Callable[[Any], S | None] | None = None,
    ) -> AcceptedAnswer:
        """Accept plan and bound of a model's answer; nothing else reads such answers.

        Parameters
        ----------
        answer
            The answer of a model of this problem.
        cutoff
            The largest value that the model allowed.
        covers_all_plans
            Whether the model contains every plan of this problem; if not, it proves nothing.
        by, phase
            Name of its planner, and the phase in which it was made.
        expand
            Turns a plan of a coarser problem into one of this problem, which may be invalid.
        repair
            Makes a valid plan of an invalid one, which a relaxation may return.

        Returns
        -------
        AcceptedAnswer
            Summary of the answer.

        Raises
        ------
        KeyboardInterrupt
            The solve was interrupted, and so is the run.
        """
        report = answer.report
        self.asked = True
        self.dispute(answer.disputed, answer.model)
        if answer.failure:
            if not answer.beyond:
                self.fail(answer.failure)
            self.say(phase, answer.failure)
            if covers_all_plans or expand is not None:
                self.stop = report.stop
        if answer.doubt:
            self.say(phase, answer.doubt)
        if self.formulation is not None and not self.formulation.guided:
            cutoff = None
        if covers_all_plans:
            self.unproved_reason = self._unproved(answer, cutoff)
            self.details |= answer.described() | {"startless": answer.startless or None}
        better = False
        if answer.plan is not None and answer.value is not None:
            plan = answer.plan if expand is None else expand(answer.plan)
            better = self.offer(plan, by or answer.by, phase, must_be_valid=expand is None)
        elif answer.plan is not None and repair is not None:
            better = self.offer(repair(answer.plan), f"{by or answer.by}, repaired", phase)
        if covers_all_plans and not answer.disputed and answer.proves:
            self._accept_bound(answer, cutoff)
        left_open = not (self.settled or self.unproved_reason or answer.disputed)
        if covers_all_plans and report.stop is Stop.PROVED and left_open:
            self.unproved_reason = answer.gap_reason
        if report.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        found, complete = answer.value is not None, report.stop is Stop.PROVED
        return AcceptedAnswer(better, found, complete, report.seconds, answer.failed)

    def _unproved(self, answer: ModelAnswer, cutoff: int | None) -> str:
        """Return why an answer about the whole problem proves nothing; empty if it may."""
        if answer.beyond:
            return f"{answer.failure}: {answer.doubt}"
        if answer.proves or answer.failed or answer.doubt:
            return answer.doubt
        if answer.report.stop is Stop.INFEASIBLE:
            return (
                f"the solver proves of {answer.by} that {self._no_solution(cutoff)}; it may leave "
                "out plans, so that says nothing about the problem"
            )
        return f"{answer.by} may leave out plans, so its bounds prove nothing"

    def _no_solution(self, cutoff: int | None) -> str:
        """Say that a model has no solution, among those that were asked for."""
        text = self.kind.measure(self.problem).text
        return NO_SOLUTION + ("" if cutoff is None else f" up to the cutoff, {text(cutoff)}")

    def _accept_bound(self, answer: ModelAnswer, cutoff: int | None) -> None:
        name = answer.by
        self._claimants.add(name)
        if answer.report.stop is Stop.INFEASIBLE:
            if cutoff is not None:
                self.prove(Bound(name, cutoff + 1, self._no_solution(cutoff)))
            else:
                self.refute(f"{name} has no solution: proved by the solver", name)
        elif answer.bound is not None:
            most = [answer.value, None if cutoff is None else cutoff + 1]
            bound = min([answer.bound, *(limit for limit in most if limit is not None)])
            self.prove(Bound(name, bound, "solver's bound"))

    def check_start(self) -> None:
        """Offer the user's plan, with new times where its own do not fit.

        Raises
        ------
        InputError
            The plan names parts that the problem does not have, or leaves out some.
        """
        user_plan: Any = self.settings.start
        if user_plan is None:
            return
        from .restart import make_start

        start = make_start(self.kind, self.problem, user_plan)
        self.start, self.details["start"] = start.plan, start.note or "valid as it is"
        self.offer(start.plan, user_plan.planner or "start", "start")
        if start.note:
            self.say("start", start.note)

    def look_for_places(self) -> bool:
        """Return whether every part can run somewhere; if not, record that no plan exists."""
        reason = self.kind.unplaced(self.problem)
        if reason is not None:
            self.refute(reason)
        return reason is None

    def prove_infeasible(self) -> None:
        """Search for a proof of infeasibility."""
        with self.budget.phase("obstacle"):
            reason = self.kind.obstacle(self.problem, self.budget.part("obstacle", BOUND_SHARE))
        if reason is not None:
            self.refute(reason)

    def find_bounds(self, share: float = BOUND_SHARE) -> None:
        """Compute the bounds of the kind."""
        with self.budget.phase("bounds"):
            part = self.budget.part("bounds", share)
            for bound in self.kind.bounds(self.problem, part, self.value):
                self.prove(bound)

    def stop_reason(self) -> Stop:
        """Return why the run stopped."""
        if self.infeasible_reason is not None:
            return Stop.INFEASIBLE
        if self.settled:
            return Stop.PROVED
        if self.stop is not None:
            return self.stop
        if self.budget.over:
            return Stop.TIME_LIMIT
        return Stop.NODE_LIMIT if self.repeatable else Stop.FINISHED
