"""A strategy (`Strategy`): whether it applies to a problem, and its steps in order."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from milp_plan.core import FormulationFailureError
from milp_plan.core.bound import Bound

from .settings import MODEL_ALONE, UNUSED_REASONS, Settings

if TYPE_CHECKING:
    from milp_plan.backends import Limits
    from milp_plan.core.budget import Budget
    from milp_plan.models.protocol import Guide

    from .compiling import Compiling
    from .ledger import Ledger
    from .loop_parts import LoopPart
    from .model import FormulationSolver

logger = logging.getLogger(__name__)

TEST_SHARE = 0.1
"""Part of the time limit for plans that are made to test a claim."""

MIN_SOLVE_S = 0.5
"""Minimum seconds left for solving a model again with more rows."""

P = TypeVar("P")
S = TypeVar("S")


class Step(NamedTuple):
    """One step of a strategy.

    Parameters
    ----------
    name
        Name in logs.
    run
        Runs the step: offers plans and bounds to the ledger.
    is_useful
        Returns whether the step can help now; called when its turn comes.
    run_after_time_limit
        Whether it also runs after the time limit, if there is no plan yet.
    loops
        Compiled loops that it needs; it waits while they are being compiled.
    """

    name: str
    run: Callable[[], object]
    is_useful: Callable[[], bool] = lambda: True
    run_after_time_limit: bool = False
    loops: tuple[LoopPart, ...] = ()


class Strategy(ABC, Generic[P, S]):
    """A strategy: how problems of one form are planned.

    A run makes one object for its ledger; steps exchange data by its attributes.

    Attributes
    ----------
    name
        Name in logs and records.
    own_formulation
        Whether it applies only with its own formulation.
    uses
        Names of :class:`~.settings.Settings` that its steps use in addition to those of every
        run. A setting that is not listed is refused, not dropped. ``options`` and ``only`` count
        only where a formulation is solved, which makes ``solver`` count.
    """

    name: ClassVar[str]
    own_formulation: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = MODEL_ALONE - {"solver"}

    @classmethod
    def formulation_always_applies(cls, problem: P) -> bool:
        """Whether its own, shipped formulation is known to support the problem."""
        return False

    @classmethod
    def unused(
        cls,
        problem: P,
        settings: Settings,
        solver: FormulationSolver | None,
    ) -> dict[str, str]:
        """Return the settings that would do nothing in a run, each with the reason.

        Parameters
        ----------
        problem
            A problem that the strategy applies to.
        settings
            The run's settings.
        solver
            The formulation that the run solves, which may not be loaded yet; or ``None``.
        """
        used = cls.uses & MODEL_ALONE if settings.only else cls.uses
        used = used - {"options", "only"} if solver is None else used | {"solver"}
        why = {name: UNUSED_REASONS[name] for name in UNUSED_REASONS if name not in used}
        if settings.only and solver is not None:
            prefix = "with only, the formulation's model runs alone"
            return {name: f"{prefix}: {reason}" for name, reason in why.items()}
        return {name: f"the strategy {cls.name!r}: {reason}" for name, reason in why.items()}

    def __init__(self, ledger: Ledger[P, S]) -> None:
        self.ledger = ledger
        self.compiling: Compiling | None = None

    @classmethod
    def formulation_for(cls, problem: P) -> str | None:
        """Return the name of its default formulation; ``None`` where it needs none."""
        return None

    @classmethod
    @abstractmethod
    def why_not(cls, problem: P, repeatable: bool) -> str | None:
        """Return in words why the strategy does not apply; ``None`` where it does."""

    @abstractmethod
    def steps(self) -> Iterable[Step]:
        """Return the steps in order."""

    @property
    def compile_at_low_priority(self) -> bool:
        """Whether loops are compiled only with processor time that the run does not use."""
        return False

    def is_compiling(self, parts: Iterable[LoopPart]) -> bool:
        """Whether one of these parts of the loops is being compiled in the background."""
        return self.compiling is not None and self.compiling.at_work(parts)

    def offer_initial_plan(self) -> None:
        """Offer any plan while loops are being compiled; loops called here run as Python."""

    def model_only_steps(self) -> Iterable[Step]:
        """Return the steps of a run with ``only``: the formulation's model, nothing else."""
        return (Step("model", self.solve_whole_model),)

    def cheap_plans(self) -> Iterator[tuple[str, S | None]]:
        """Yield names and plans of cheap planners, against which claims are tested."""
        ledger = self.ledger
        for name, planner in ledger.kind.heuristics().items():
            yield name, planner(ledger.problem, ledger.settings.seed)

    def test_claims(self) -> None:
        """Test the bound of a formulation that ran alone against cheap plans."""
        ledger = self.ledger
        if ledger.claimed:
            with ledger.budget.phase("test of claims"):
                part = ledger.budget.part("test of claims", TEST_SHARE)
                for name, plan in self.cheap_plans():
                    ledger.test_claims_with(name, plan)
                    if part.over:
                        return

    def try_heuristics(self, but: Container[str] = ()) -> None:
        """Run the kind's heuristics except ``but``; record their values as baselines."""
        ledger = self.ledger
        with ledger.budget.phase("heuristics"):
            for name, planner in ledger.kind.heuristics().items():
                if name not in but:
                    ledger.offer(planner(ledger.problem, ledger.settings.seed), name, "heuristics")
                    ledger.baselines[name] = ledger.reached.get(name)

    def record_results(self, search: Iterable[Bound | Any]) -> None:
        """Pass the bounds and plans of a search to the ledger."""
        ledger = self.ledger
        with ledger.budget.phase("search"):
            for result in search:
                if isinstance(result, Bound):
                    self.prove(result)
                else:
                    ledger.offer(result, result.planner, "search")

    def prove(self, bound: Bound) -> None:
        """Pass a bound of a search to the ledger."""
        self.ledger.prove(bound)

    def solve_below(
        self,
        cutoff: int | None,
        budget: Budget,
        *,
        start: S | None = None,
    ) -> None:
        """Solve the model for plans with a value of at most ``cutoff``, with the known bound."""
        from milp_plan.models.protocol import Guide

        ledger = self.ledger
        guide, limits = Guide(cutoff, ledger.lower), ledger.limits(budget.left_s)
        self.solve_with_lazy_rows(ledger.solver, guide, limits, budget, lambda: start)

    def solve_with_lazy_rows(
        self,
        solver: FormulationSolver,
        guide: Guide,
        limits: Limits,
        budget: Budget,
        start: Callable[[], S | None],
        *,
        by: str | None = None,
        phase: str = "model",
        repair: Callable[[Any], S | None] | None = None,
    ) -> list[list[int]]:
        """Solve a model; where its rows are lazy, again with those that its plan breaks.

        Parameters
        ----------
        start
            Returns the plan to start from; called before each solve.
        by, phase, repair
            As in :meth:`~.ledger.Ledger.accept_answer`.

        Returns
        -------
        list
            Columns and rows of each model.
        """
        ledger, sizes, more = self.ledger, list[list[int]](), True
        while more:
            answer = solver.run(ledger.problem, guide, limits, budget, start=start())
            sizes.append([answer.columns, answer.rows])
            ledger.accept_answer(answer, guide.cutoff, by=by, phase=phase, repair=repair)
            try:
                refined = solver.refined(
                    ledger.problem, guide, answer, max(MIN_SOLVE_S, budget.left_s)
                )
            except FormulationFailureError as error:
                ledger.fail(str(error))
                break
            more = refined is not None and not ledger.done and budget.left_s > MIN_SOLVE_S
            guide = refined or guide
        return sizes

    def solve_within_share(self, phase: str, share: float, *, better: bool) -> None:
        """Solve the model in a share of the time left: below the best plan, or starting from it."""
        ledger, known = self.ledger, self.ledger.value
        with ledger.budget.phase(phase):
            budget = ledger.budget.part(phase, share, of_limit=False)
            ledger.say("model", ledger.solver.formulation.card.name)
            if better:
                self.solve_below(None if known is None else known - 1, budget)
            else:
                self.solve_below(known, budget, start=ledger.plan)

    def start_alone(self) -> tuple[Any, int | None]:
        """Return the start of a model that runs alone, and its value; by default the user's."""
        return self.ledger.plan, self.ledger.value

    def solve_whole_model(self) -> None:
        """Solve the exact model of the whole problem, from the start if there is one."""
        from milp_plan.models.protocol import Guide

        ledger = self.ledger
        if ledger.formulation is None:
            return
        start, cutoff = self.start_alone()
        limits = ledger.limits(ledger.budget.left_s)
        self.solve_with_lazy_rows(
            ledger.solver, Guide(cutoff), limits, ledger.budget, lambda: start
        )

    def run_steps(self) -> None:
        """Run the steps until nothing is left to do or time is over."""
        from .compiling import compile_in_background

        ledger = self.ledger
        steps = tuple(self.model_only_steps() if ledger.settings.only else self.steps())
        # a repeatable run does the same on every machine, whatever is compiled there
        awaited = tuple(part for step in steps for part in step.loops)
        parts = () if ledger.repeatable else awaited
        low_priority = self.compile_at_low_priority
        with compile_in_background(parts, compile_at_low_priority=low_priority) as compiling:
            self.compiling = compiling
            if compiling.parts:
                self._begin_uncompiled(compiling)
            for step in steps:
                if ledger.settled or ledger.infeasible_reason is not None:
                    return
                over = ledger.budget.over
                if self._is_due(step, over):
                    self._await(compiling, step)
                    if ledger.budget.over and not over and not self._is_due(step, over=True):
                        return  # loops compiled here could not be interrupted
                    logger.info("strategy %s: %s", self.name, step.name)
                    step.run()

    def _is_due(self, step: Step, over: bool) -> bool:
        """Return whether a step is to run; ``over`` says whether the time limit is reached."""
        if over:
            return step.run_after_time_limit and self.ledger.plan is None
        return step.is_useful()

    def _begin_uncompiled(self, compiling: Compiling) -> None:
        """Make a first plan while loops are being compiled, and report that they are."""
        from milp_plan.core.compiled import interpreted

        from .compiling import COMPILING_MESSAGE

        ledger = self.ledger
        logger.info(
            "strategy %s: compiling in the background: %s",
            self.name,
            ", ".join(part.name for part in compiling.parts),
        )
        ledger.details["compiled_meanwhile"] = [part.name for part in compiling.parts]
        ledger.say(COMPILING_MESSAGE)
        with ledger.budget.phase("first plan"), interpreted():
            self.offer_initial_plan()

    def _await(self, compiling: Compiling, step: Step) -> None:
        """Wait until the loops of a step are compiled, or time is over."""
        from .compiling import COMPILING_MESSAGE

        ledger = self.ledger
        if compiling.at_work(step.loops):
            ledger.say(COMPILING_MESSAGE)
            with ledger.budget.phase("compiling"):
                compiling.wait(step.loops, ledger.budget.left_s)
