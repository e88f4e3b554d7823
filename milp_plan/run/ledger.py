"""The ledger of a run: best plan, best bound, defects. It alone accepts plans and bounds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from milp_plan.backends import Limits, Stop
from milp_plan.core import Verdict
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.gap import proved_optimal, relative_gap, within
from milp_plan.lp import CompiledModel

from .kind import Kind
from .model import REFUTED, SAFETY, FormulationSolver
from .model_answer import ModelAnswer
from .settings import Incumbent, IncumbentHook, Progress, ProgressHook, Settings

logger = logging.getLogger(__name__)

P = TypeVar("P")
S = TypeVar("S")

ROUNDED = (
    f"the solver's bound counts only to a part in {1 / SAFETY:,.0f}, because of its tolerances: "
    "the gap that is left is less than the model can tell apart"
)
"""Why a model that is solved leaves a gap."""

BEYOND = "the model finds no plan within its horizon; there may be one beyond"
"""Why a model that is solved has no plan."""

RELAXED = "the model leaves out rules: its solution breaks one of them, or says less than its plan"
"""Why a model that relaxes the problem leaves a gap."""

NO_SOLUTION = "its model has no solution"
"""First words of what is proved of a model without a solution."""

BOUND_SHARE = 0.1
"""Part of the time limit that bounds may take."""


def _unsettled(answer: ModelAnswer) -> str:
    """Why a model that is solved leaves a gap."""
    if answer.claim is not None:
        return RELAXED
    return BEYOND if answer.plan is None else ROUNDED


class AcceptedAnswer(NamedTuple):
    """Summary of a model's answer, after the ledger has read it.

    Parameters
    ----------
    better
        Its plan is the best one now.
    found, complete
        It has a solution; the solver has nothing left to look for.
    seconds
        Spent in the solver.
    failed
        The formulation's own code raised or timed out.
    """

    better: bool
    found: bool
    complete: bool
    seconds: float
    failed: bool


class Ledger(Generic[P, S]):
    """What is known in one run. Every step may improve plan or bound, from any thread.

    Parameters
    ----------
    kind, problem, settings
        What is planned, and how.
    budget
        What the run may take.
    solver
        The formulation that its models are of; ``None`` for ways that need none.
    report
        Called with everything that is new.
    on_incumbent
        Called with every plan that is better than all before it.

    Attributes
    ----------
    plan, verdict, value, planner
        The best plan, what the checker says of it, its value, and who made it.
    bound, bounds
        The best bound on the problem, and each that was the best once.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    reached
        Value of the best plan of each maker, whether another was better or not.
    disputed
        Why the checker disputes a solver; the first reason. Empty if it does not.
    defects
        Plans of ours that break a law, in words; failures of solvers and formulations.
    details
        What else belongs into the record.
    asked
        Whether the formulation was asked: it ran, to whatever end.
    unproved_because
        Why what the formulation says proves nothing; empty if it does, or was not asked.
    disputed_model
        What was solved when the first dispute came up, if it was a model.
    start
        The user's plan as a valid one of this problem; ``None`` without one.
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
        self.infeasible_because: str | None = None
        self.baselines: dict[str, int | None] = {}
        self.reached: dict[str, int] = {}
        self.defects: list[str] = []
        self.cores: int | None = None  # set by a strategy that searches on all of them
        self.cluster: Any = None  # client of the scheduler, where one was asked for
        self.details: dict[str, Any] = {}
        self.asked = False
        self.unproved_because = ""
        self.disputed_model: CompiledModel | None = None
        self._claimants: set[str] = set()
        self._refuter = ""
        self._refuted: set[str] = set()
        self.trace: list[Progress] = []
        self.start: S | None = None
        self._lock = RLock()

    # -- what is known -----------------------------------------------------------------------------

    @property
    def solver(self) -> FormulationSolver:
        """The formulation and its backend; only for ways that have one."""
        assert self._solver is not None
        return self._solver

    @property
    def formulation(self) -> FormulationSolver | None:
        """The same, or ``None``."""
        return self._solver

    def ask(self, solver: FormulationSolver | None) -> None:
        """Take the formulation that models of this run are of, once it is chosen."""
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
        """Whether the gap asked for is reached; with 0: whether the plan is proved optimal."""
        return within(self.value, self.lower, self.settings.gap)

    @property
    def proved(self) -> bool:
        """Whether no plan is better by as little as one tick."""
        return proved_optimal(self.value, self.lower)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do, or no time."""
        return self.settled or self.infeasible_because is not None or self.budget.over

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

    def limits(self, seconds: float, gap: float | None = None) -> Limits:
        """Return the limits of a model: seconds, and what the settings say."""
        return Limits(
            time_s=max(1.0, seconds),
            nodes=self.settings.node_limit,
            gap=min(self.settings.gap, 1e-6) if gap is None else gap,
            seed=self.settings.seed,
            threads=self.threads,
        )

    def say(self, phase: str, note: str = "", *, candidate_value: int | None = None) -> None:
        """Record progress and report it.

        Parameters
        ----------
        phase, note
            What goes on.
        sighted
            Value of a plan that a search has, but has not handed over yet.
        """
        with self._lock:
            value = self.value if candidate_value is None else candidate_value
            gap = relative_gap(value, self.lower)
            point = Progress(phase, value, self.lower, gap, self.budget.elapsed_s, note)
            self.trace.append(point)
        said = (phase, note, value, self.lower, point.elapsed_s)
        logger.debug("%s %s: value %s, bound %s, %.3f s", *said)
        if self._report is not None:
            self._report(point)

    # -- what stages find --------------------------------------------------------------------------

    def offer(self, plan: S | None, by: str, phase: str, *, sure: bool = True) -> bool:
        """Take a plan if the checker accepts it and it is better.

        Parameters
        ----------
        plan
            Of the whole problem, or ``None``.
        by, phase
            Who made it, and when.
        sure
            Whether a plan that breaks a law is a defect, which the record lists. ``False`` for
            plans that are only a trial.
        """
        if plan is None:
            return False
        with self.budget.phase("check"):
            verdict = self.kind.verify(self.problem, plan)
        with self._lock:
            if not verdict.ok or verdict.value is None:
                if sure:
                    reason = "; ".join(str(entry) for entry in verdict.violations[:3])
                    self.fail(f"{by} made a plan that breaks a law: {reason}")
                return False
            self._hold_claims_against(by, verdict.value)
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
        """Accept a bound on the whole problem, unless a plan refutes it or one of the same name."""
        with self._lock:
            if bound.name in self._refuted:
                return
            if self.value is not None and bound.value > self.value:
                self._drop_claim(bound, self.planner, self.value)
            elif self.bound is None or bound.value > self.bound.value:
                self.bound = bound
                self.bounds = (*self.bounds, bound)
                self.say("bounds", bound.name)

    def refute(self, reason: str, by: str = "") -> None:
        """Accept a proof that no plan exists, of the formulation ``by`` if it is named.

        A known plan refutes it.
        """
        with self._lock:
            if self.value is not None:
                self._say_refuted(reason, by, self.planner, self.value)
            elif self.infeasible_because is None:
                self.infeasible_because, self._refuter = reason, by

    def dispute(self, because: str, model: CompiledModel | None = None) -> None:
        """Note that the checker disputes an answer, unless the reason is empty."""
        if because and not self.disputed:
            self.disputed, self.disputed_model = because, model
        if because.startswith(REFUTED):
            self.fail(because)

    @property
    def claimed(self) -> bool:
        """Whether the formulation claims a bound, or that there is no plan."""
        known = self.bound is not None and self.bound.name in self._claimants
        return known or (self.asked and self.infeasible_because is not None)

    def test_claims_with(self, planner: str, plan: S | None) -> None:
        """Test claimed bounds against a plan that does not count itself.

        A model that silently leaves out plans proves too much.
        """
        verdict = None if plan is None else self.kind.verify(self.problem, plan)
        if verdict is not None and verdict.ok and verdict.value is not None:
            with self._lock:
                self._hold_claims_against(planner, verdict.value)

    def _hold_claims_against(self, planner: str, value: int) -> None:
        """Drop what a valid plan refutes."""
        if self.infeasible_because is not None:
            self._say_refuted(self.infeasible_because, self._refuter, planner, value)
            self.infeasible_because = None
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
        self._say_refuted(claim, bound.name, planner, value)

    def _say_refuted(self, claim: str, by: str, planner: str, value: int) -> None:
        """Record that a claimed proof is wrong."""
        text = self.kind.measure(self.problem).text(value)
        said = REFUTED if by in self._claimants else "a proof of ours is refuted by"
        claim = f"{by}: {claim}" if by else claim
        self.dispute(f"{said} {planner or 'a plan'}: {claim}; a checked plan has {text}")
        self.fail(self.disputed)

    def fail(self, what: str) -> None:
        """Record a defect, once."""
        if what not in self.defects:
            self.defects.append(what)
            logger.info("defect: %s", what)

    def accept_answer(
        self,
        answer: ModelAnswer,
        cutoff: int | None = None,
        *,
        whole: bool = True,
        by: str | None = None,
        phase: str = "model",
        undo: Callable[[Any], S] | None = None,
        repair: Callable[[Any], S | None] | None = None,
    ) -> AcceptedAnswer:
        """Take plan and bound of a model's answer: the only reader of such answers.

        Parameters
        ----------
        answer
            Of a model of this problem.
        cutoff
            Plans up to this value were asked for.
        whole
            Whether every plan of this problem is one of the model's: else it proves nothing.
        by, phase
            Who made its plan, and when.
        undo
            Turns a plan of a coarser problem into one of this problem, which may be invalid.
        repair
            Makes a plan of one that breaks a law, as a model that relaxes the problem may give.

        Returns
        -------
        Belief
            Its summary.

        Raises
        ------
        KeyboardInterrupt
            The solve was interrupted: so is the run.
        """
        report = answer.report
        self.asked = True
        self.dispute(answer.disputed, answer.model)
        if answer.failure:
            if not answer.beyond:
                self.fail(answer.failure)
            self.say(phase, answer.failure)
            if whole or undo is not None:
                self.stop = report.stop
        if answer.doubt:
            self.say(phase, answer.doubt)
        if self.formulation is not None and not self.formulation.guided:
            cutoff = None
        if whole:
            self.unproved_because = self._unproved(answer, cutoff)
            self.details |= answer.described() | {"startless": answer.startless or None}
        better = False
        if answer.plan is not None and answer.value is not None:
            plan = answer.plan if undo is None else undo(answer.plan)
            better = self.offer(plan, by or answer.by, phase, sure=undo is None)
        elif answer.plan is not None and repair is not None:
            better = self.offer(repair(answer.plan), f"{by or answer.by}, repaired", phase)
        if whole and not answer.disputed and answer.proves:
            self._believe_bound(answer, cutoff)
        left_open = not (self.settled or self.unproved_because or answer.disputed)
        if whole and report.stop is Stop.PROVED and left_open:
            self.unproved_because = _unsettled(answer)
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

    def _believe_bound(self, answer: ModelAnswer, cutoff: int | None) -> None:
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
            It names what the problem does not have, or leaves out something.
        """
        given: Any = self.settings.start
        if given is None:
            return
        from .restart import started

        found = started(self.kind, self.problem, given)
        self.start, self.details["start"] = found.plan, found.said or "valid as it is"
        self.offer(found.plan, given.planner or "start", "start")
        if found.said:
            self.say("start", found.said)

    def look_for_places(self) -> bool:
        """Return whether each part can run somewhere; if not, that proves infeasibility."""
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

    def end(self) -> Stop:
        """Return why the run ended."""
        if self.infeasible_because is not None:
            return Stop.INFEASIBLE
        if self.settled:
            return Stop.PROVED
        if self.stop is not None:
            return self.stop
        if self.budget.over:
            return Stop.TIME_LIMIT
        return Stop.NODE_LIMIT if self.repeatable else Stop.FINISHED
