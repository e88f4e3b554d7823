"""The two stages on any problem: heuristics, coarsening, the exact model, polish."""

from __future__ import annotations

from collections.abc import Callable

from milp_plan.api import Guide, Objective, Plan, PlanningProblem
from milp_plan.backends import Limits, Stop, TracePoint
from milp_plan.bounds import Bound, all_bounds
from milp_plan.coarsen import Coarsening, coarsen
from milp_plan.core.budget import Budget, now
from milp_plan.planners import Annealing, best_plan

from .compaction import compact
from .ledger import BOUND_SHARE, Ledger
from .model import ModelAnswer
from .polish import FAILURES

BASELINE_SHARE = 0.2
"""Part of the time limit that baselines may take."""

EXACT_SHARE, COARSE_SHARE = 0.7, 0.3
"""Parts of the time left that the model may take: on a problem with the original's optimum, whose
bound counts, and on a heuristically coarsened one, after which the search goes on."""

ANNEALING_SHARE, ANNEALING_SHARE_EXACT = 0.4, 0.05
"""Parts of the time left for annealing: where the model is heuristic, and where it is exact."""

LEVEL_TARGETS, LEVEL_SHARE = 6, 0.05
"""A level is this many times the coarse target; its heuristics and its annealing may each take
this part of the time, with and without following the best plan."""

ANNEALING_MOVES = 300
"""Moves of annealing where a run must be repeatable."""

MOST_EXACT = 1.8
"""Heuristic coarsening starts where exact steps leave more than this many times the target."""


class GraphRun:
    """One run of both stages.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    """

    def __init__(self, host: Ledger) -> None:
        self.host = host
        self.problem, self.settings, self.clock = host.problem, host.settings, host.clock
        self.coarsening = Coarsening(host.problem)
        self.clusters = False

    def stages(self) -> None:
        """All stages in order, until nothing is left to do or no time is left."""
        self.host.say("bounds")
        self.host.look_for_obstacle()
        if self.host.infeasible_because is not None:
            return
        self.find_bounds()
        self.find_baselines()
        if not self.host.proved:
            self.choose_coarsening()
        if not self.host.proved:
            self.plan_on_levels()
            self.anneal()
        if not self.host.proved:
            self.exact_stage()
        if not self.host.proved and self.host.stop is not Stop.INFEASIBLE:
            self.host.polish()

    def find_bounds(self) -> None:
        """Bounds on the original problem."""
        with self.clock.phase("bounds"):
            self.host.bounds = tuple(all_bounds(self.problem, Budget(self.host.limit(BOUND_SHARE))))
        self.host.bound = max(self.host.bounds, key=lambda bound: bound.value)
        self.host.say("bounds", self.host.bound.name)

    def find_baselines(self) -> None:
        """Every heuristic, and the user's start."""
        if self.settings.start is not None:
            self.host.check_start(self.settings.start)
        _, self.host.baselines = self.heuristics(
            self.problem, on_plan=lambda plan: self.host.offer(plan, plan.planner, "baselines")
        )

    def heuristics(
        self,
        problem: PlanningProblem,
        part: float = BASELINE_SHARE,
        on_plan: Callable[[Plan], object] = lambda _plan: None,
    ) -> tuple[Plan | None, dict[str, int | None]]:
        """Best plan of all heuristics, and what each of them reached."""
        share = self.host.limit(part)
        deadline = None if share is None else now() + share
        with self.clock.phase("baselines"):
            return best_plan(problem, seed=self.settings.seed, deadline=deadline, on_plan=on_plan)

    def choose_coarsening(self) -> None:
        """Exact steps alone if they suffice; else the exact stage clusters as well."""
        self.host.coarsening = self.coarsening
        if self.problem.needs_schedule:
            self.coarsen(exact_only=True)
            left = len(self.coarsening.problem.graph.operators)
            self.clusters = left > MOST_EXACT * self.settings.target

    def coarsen(self, *, guide: Plan | None = None, exact_only: bool = False) -> None:
        """Make the problem of the exact stage."""
        target = self.settings.target
        with self.clock.phase("coarsen"):
            self.coarsening = coarsen(self.problem, target, guide=guide, exact_only=exact_only)
        self.host.coarsening = self.coarsening

    def plan_on_levels(self) -> None:
        """Heuristics and annealing on a lightly coarsened problem, where a schedule is cheap."""
        size = len(self.problem.graph.operators)
        level = min(LEVEL_TARGETS * self.settings.target, size // 2)
        makespan = self.problem.objective is Objective.MAKESPAN
        if level < MOST_EXACT * self.settings.target or not makespan:
            return
        most = self.host.limit(LEVEL_SHARE)
        for guide in (None, self.host.plan):
            if most is not None and self.clock.phases.get("coarsen", 0.0) > most:
                return
            with self.clock.phase("coarsen"):
                light = coarsen(self.problem, level, guide=guide)
            plan, _ = self.heuristics(light.problem, LEVEL_SHARE)
            if plan is None:
                continue
            search = Annealing(light.problem, plan, self.settings.seed)
            with self.clock.phase("anneal"):
                better = search.run(*self.annealing_limits(LEVEL_SHARE))
            for found in (plan, better):
                expanded = light.undo(found)
                self.host.offer(expanded, "annealing on a level", "levels")
                self.offer_compact(expanded, "annealing on a level")

    def annealing_limits(self, share: float) -> tuple[float, int | None]:
        """Seconds, and moves where the run must be repeatable."""
        if self.host.repeatable:
            return self.clock.left_s, ANNEALING_MOVES
        return share * self.clock.left_s, None

    def anneal(self) -> None:
        """Local search over places and priorities."""
        if self.host.plan is None or self.problem.objective is not Objective.MAKESPAN:
            return
        share = ANNEALING_SHARE if self.clusters else ANNEALING_SHARE_EXACT
        search = Annealing(self.problem, self.host.plan, self.settings.seed)
        with self.clock.phase("anneal"):
            search.run(
                *self.annealing_limits(share),
                lambda plan: self.host.offer(plan, "annealing", "anneal"),
            )
        self.host.say("anneal", f"{search.tried} schedules")

    def exact_stage(self) -> None:
        """Plan the coarse problem by the model, expand."""
        if self.clusters:
            self.coarsen(guide=self.host.plan)
        coarse = self.coarsening.problem
        self.host.say("model", f"{len(coarse.graph.operators)} operators")
        start = self.coarse_start(coarse)
        cutoff = None if start is None else start[1]
        guide = Guide(cutoff, self.host.bound.value if self.host.bound else None)
        answer = self.host.solver.run(
            coarse,
            guide,
            self.model_limits(),
            self.clock,
            start=None if start is None else start[0],
            on_progress=self.model_progress(guide),
        )
        self.host.answer = answer
        if answer.report.stop in FAILURES:
            self.host.say("model", f"{answer.report.stop}: {answer.report.message}")
        if answer.disputed:
            self.host.dispute(answer.disputed)
        self.use_bound(answer, coarse)
        if answer.value is not None and answer.plan is not None:
            with self.clock.phase("expand"):
                plan = self.coarsening.undo(answer.plan)
            name = self.host.found.name
            if not self.coarsening.exact:
                name += " + coarsening"
            self.host.offer(plan, name, "expand")
            self.offer_compact(plan, name)
        if answer.report.stop is not Stop.INFEASIBLE or self.host.infeasible_because is not None:
            self.host.stop = answer.report.stop  # a heuristic step may leave no plan: no proof

    def offer_compact(self, plan: Plan, name: str) -> None:
        """The expanded plan with every task as early as its order allows."""
        if self.problem.needs_schedule:
            with self.clock.phase("expand"):
                tight = compact(self.problem, plan)
            self.host.offer(tight, name, "compact")

    def coarse_start(self, coarse: PlanningProblem) -> tuple[Plan, int] | None:
        """Best heuristic plan of the coarse problem, offered to the original as well."""
        if coarse is self.problem:
            plan, value = self.host.plan, self.host.value
            return None if plan is None or value is None else (plan, value)
        found, values = self.heuristics(coarse)
        if found is None:
            return None
        expanded = self.coarsening.undo(found)
        self.host.offer(expanded, "coarse heuristics", "baselines")
        self.offer_compact(expanded, "coarse heuristics")
        return found, min(value for value in values.values() if value is not None)

    def model_limits(self) -> Limits:
        """Part of the time left, or nodes, for the model."""
        share = EXACT_SHARE if self.coarsening.exact else COARSE_SHARE
        if self.host.repeatable or not self.host.solver.formulation.card.neighbourhoods:
            share = 1.0  # nothing follows, or only node limits may end a stage
        settings = self.settings
        return Limits(
            time_s=max(1.0, share * self.clock.left_s),
            nodes=settings.node_limit,
            gap=min(settings.gap, 1e-6),
            seed=settings.seed,
            threads=settings.threads,
        )

    def model_progress(self, guide: Guide) -> Callable[[TracePoint], None]:
        """What to do with the solver's progress."""
        coarse = self.coarsening.problem
        unit = self.host.solver.formulation.scale(coarse, self.host.solver.options, guide).unit

        def show(point: TracePoint) -> None:
            incumbent = "none" if point.incumbent is None else f"{point.incumbent * unit:.6g}"
            bound = "none" if point.bound is None else f"{point.bound * unit:.6g}"
            self.host.say("model", f"model {incumbent}, its bound {bound}, nodes {point.nodes}")

        return show

    def use_bound(self, answer: ModelAnswer, coarse: PlanningProblem) -> None:
        """The model's bound counts when the formulation and stage one are both exact."""
        card = self.host.solver.formulation.card
        if not (card.exact and self.coarsening.exact) or self.host.restricted or self.host.disputed:
            return
        if answer.report.stop is Stop.INFEASIBLE and self.host.value is None:
            self.host.infeasible_because = f"{card.name} has no solution: proved by the solver"
            return
        bound = answer.bound
        if bound is not None and answer.value is not None:
            bound = min(answer.value, bound)  # they may cross by a tolerance
        if bound is not None:
            self.host.raise_bound(Bound(card.name, bound, f"solver's bound on {coarse.name}"))
