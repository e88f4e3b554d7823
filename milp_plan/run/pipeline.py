"""The two stages put together: heuristics, coarsening, the exact model, polish, bounds, check."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from milp_plan.api import Guide, Objective, Plan, PlanningProblem
from milp_plan.backends import Limits, Stop, TracePoint
from milp_plan.bounds import Bound, all_bounds, infeasibility
from milp_plan.check import verify
from milp_plan.coarsen import Coarsening, coarsen
from milp_plan.core import Finding, InputError, UnsupportedProblemError, Verdict
from milp_plan.formulation.registry import Found
from milp_plan.pipeline import Shop, floors
from milp_plan.planners import Annealing, best_plan

from .choice import HOSTS, choose
from .compaction import compact
from .model import ModelAnswer, Solver, make_options
from .offload import plan_offload
from .polish import FAILURES, Search
from .record import make_record
from .serial import plan_serial
from .settings import Clock, Outcome, Progress, ProgressHook, Settings, relative_gap
from .shops import ShopRun

BOUND_SHARE, BASELINE_SHARE = 0.1, 0.2
"""Parts of the time limit that bounds and baselines may take."""

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


def solve(
    problem: PlanningProblem, settings: Settings, on_progress: ProgressHook | None = None
) -> Outcome:
    """Plan a problem with both stages.

    Ctrl-C at any time ends the run with the best plan so far (``stop`` is ``interrupted``).

    Parameters
    ----------
    problem
        What to plan.
    settings
        How, and for how long.
    on_progress
        Called whenever something is known that was not before.

    Returns
    -------
    Outcome
        With the plan checked on ``problem``, and the best bound on ``problem``.

    Raises
    ------
    FormulationError
        There is no such formulation, or it does not load.
    UnsupportedProblemError
        The formulation is not for this problem; says why.
    InputError
        ``settings.start`` is not a valid plan of this problem, or an option does not exist.
    """
    shop, found = choose(problem, settings.formulation)
    assert found.formulation is not None
    options = make_options(found, settings.options)
    reason = found.formulation.unsupported(problem, options)
    if reason is not None:
        raise UnsupportedProblemError(f"{problem.name}: {found.name} does not apply: {reason}")
    run = _Run(problem, settings, found, Solver(found.formulation, options, settings.solver))
    run.shop = shop
    run.report = on_progress
    try:
        run.stages()
    except KeyboardInterrupt:
        run.stop = Stop.INTERRUPTED
    while True:
        try:
            return run.outcome()
        except KeyboardInterrupt:  # too late to stop anything: the answer is being written up
            run.stop = Stop.INTERRUPTED


@dataclass
class _Run:
    """State of one run; each stage may improve the plan or the bound."""

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
    clusters: bool = False
    answer: ModelAnswer | None = None
    search: Search | None = None
    shop: Shop | None = None
    trace: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock(self.settings.time_limit_s)
        self.repeatable = self.settings.node_limit is not None

    def stages(self) -> None:
        """All stages in order, until nothing is left to do or no time is left."""
        if self.problem.serial is not None:
            plan_serial(self)
        elif self.shop is not None:
            self.plan_shop(self.shop)
        elif self.found.name == HOSTS and not self.repeatable:
            self.plan_hosts()
        else:
            self.plan_graph()
        if self.infeasible_because is not None:
            self.stop = Stop.INFEASIBLE
        elif self.proved:
            self.stop = Stop.PROVED
        elif self.stop is Stop.PROVED:  # of a smaller or another problem: no proof for this one
            self.stop = self.end_of_limit

    def plan_shop(self, shop: Shop) -> None:
        """Identical micro-batches on given devices: see :mod:`.shops`."""
        for floor in floors(shop):
            self.raise_bound(Bound(*floor))
        if self.settings.start is not None:
            self.check_start(self.settings.start)
        ShopRun(self, shop).stages()

    def plan_hosts(self) -> None:
        """Pipelines whose activations may leave to hosts: see :mod:`.offload`."""
        answer = plan_offload(self.problem, self.settings)
        self.baselines = {"nothing travels": answer.stay.value, "offload": answer.rule}
        self.raise_bound(Bound(HOSTS, answer.travel.bound, "residence, or the solver's bound"))
        self.offer(answer.travel.plan, f"{HOSTS}: {answer.found_by}", "offload")
        self.stop = self.end_of_limit
        if answer.travel.infeasible:
            self.infeasible_because = f"{HOSTS} has no solution: proved by the solver"

    def plan_graph(self) -> None:
        """Every other problem."""
        self.say("bounds")
        self.look_for_obstacle()
        if self.infeasible_because is not None:
            return
        self.find_bounds()
        self.find_baselines()
        if not self.proved:
            self.choose_coarsening()
        if not self.proved:
            self.plan_on_levels()
            self.anneal()
        if not self.proved:
            self.exact_stage()
        if not self.proved and self.stop is not Stop.INFEASIBLE:
            self.polish()

    # -- what is known -----------------------------------------------------------------------

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound.value if self.bound else None)

    @property
    def proved(self) -> bool:
        return self.gap is not None and self.gap <= self.settings.gap

    @property
    def end_of_limit(self) -> Stop:
        return Stop.NODE_LIMIT if self.repeatable else Stop.TIME_LIMIT

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

    def limit(self, share: float) -> float | None:
        """Seconds a stage may take; none where the run must be repeatable."""
        return None if self.repeatable else share * self.settings.time_limit_s

    # -- stages ------------------------------------------------------------------------------

    def find_bounds(self) -> None:
        """Bounds on the original problem."""
        with self.clock.phase("bounds"):
            self.bounds = all_bounds(self.problem, self.limit(BOUND_SHARE))
        self.bound = max(self.bounds, key=lambda bound: bound.value)
        self.say("bounds", self.bound.name)

    def look_for_obstacle(self) -> None:
        """Look for a proof that there is no plan."""
        with self.clock.phase("bounds"):
            proof = infeasibility(self.problem, self.limit(BOUND_SHARE))
        if proof is not None:
            self.infeasible_because = proof.reason

    def find_baselines(self) -> None:
        """Every heuristic, and the user's start."""
        if self.settings.start is not None:
            self.check_start(self.settings.start)
        plan, self.baselines = self.heuristics(self.problem)
        name = min(
            (n for n, value in self.baselines.items() if value is not None),
            key=lambda n: self.baselines[n] or 0,
            default="",
        )
        self.offer(plan, name, "baselines")

    def heuristics(
        self, problem: PlanningProblem, part: float = BASELINE_SHARE
    ) -> tuple[Plan | None, dict[str, int | None]]:
        """Best plan of all heuristics, and what each of them reached."""
        share = self.limit(part)
        deadline = None if share is None else time.monotonic() + share
        with self.clock.phase("baselines"):
            return best_plan(problem, seed=self.settings.seed, deadline=deadline)

    def check_start(self, start: Plan) -> None:
        verdict = verify(self.problem, start)
        if not verdict.ok:
            raise InputError(
                Finding(f"start plan, {v.rule}", v.message, "a valid plan", "run check on it")
                for v in verdict.violations
            )
        self.offer(start, start.planner or "start", "start")

    def choose_coarsening(self) -> None:
        """Exact steps alone if they suffice; else the exact stage clusters as well."""
        self.coarsening = Coarsening(self.problem)
        if self.problem.needs_schedule:
            with self.clock.phase("coarsen"):
                self.coarsening = coarsen(self.problem, self.settings.target, exact_only=True)
            left = len(self.coarsening.problem.graph.operators)
            self.clusters = left > MOST_EXACT * self.settings.target

    def plan_on_levels(self) -> None:
        """Heuristics and annealing on a lightly coarsened problem, where a schedule is cheap."""
        size = len(self.problem.graph.operators)
        level = min(LEVEL_TARGETS * self.settings.target, size // 2)
        makespan = self.problem.objective is Objective.MAKESPAN
        if level < MOST_EXACT * self.settings.target or not makespan:
            return
        most = self.limit(LEVEL_SHARE)
        for guide in (None, self.plan):
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
                self.offer(expanded, "annealing on a level", "levels")
                self.offer_compact(expanded, "annealing on a level")

    def annealing_limits(self, share: float) -> tuple[float, int | None]:
        """Seconds, and moves where the run must be repeatable."""
        if self.repeatable:
            return self.clock.left_s, ANNEALING_MOVES
        return share * self.clock.left_s, None

    def anneal(self) -> None:
        """Local search over places and priorities."""
        if self.plan is None or self.problem.objective is not Objective.MAKESPAN:
            return
        share = ANNEALING_SHARE if self.clusters else ANNEALING_SHARE_EXACT
        search = Annealing(self.problem, self.plan, self.settings.seed)
        with self.clock.phase("anneal"):
            search.run(*self.annealing_limits(share), self.annealed)
        self.say("anneal", f"{search.tried} schedules")

    def annealed(self, plan: Plan) -> None:
        self.offer(plan, "annealing", "anneal")

    def exact_stage(self) -> None:
        """Plan the coarse problem by the model, expand."""
        assert self.coarsening is not None
        if self.clusters:
            with self.clock.phase("coarsen"):
                self.coarsening = coarsen(self.problem, self.settings.target, guide=self.plan)
        coarse = self.coarsening.problem
        self.say("model", f"{len(coarse.graph.operators)} operators")
        start = self.coarse_start(coarse)
        cutoff = None if start is None else start[1]
        guide = Guide(cutoff, self.bound.value if self.bound else None)
        answer = self.solver.run(
            coarse,
            guide,
            self.model_limits(),
            self.clock,
            start=None if start is None else start[0],
            on_progress=self.model_progress(guide),
        )
        self.answer = answer
        if answer.report.stop in FAILURES:
            self.say("model", f"{answer.report.stop}: {answer.report.message}")
        if answer.disputed:
            self.disputed = answer.disputed
        self.use_bound(answer, coarse)
        if answer.value is not None and answer.plan is not None:
            with self.clock.phase("expand"):
                plan = self.coarsening.undo(answer.plan)
            name = self.found.name if self.coarsening.exact else f"{self.found.name} + coarsening"
            self.offer(plan, name, "expand")
            self.offer_compact(plan, name)
        if answer.report.stop is not Stop.INFEASIBLE or self.infeasible_because is not None:
            self.stop = answer.report.stop  # a heuristic step may leave no plan: no proof

    def offer_compact(self, plan: Plan, name: str) -> None:
        """The expanded plan with every task as early as its order allows."""
        if self.problem.needs_schedule:
            with self.clock.phase("expand"):
                tight = compact(self.problem, plan)
            self.offer(tight, name, "compact")

    def coarse_start(self, coarse: PlanningProblem) -> tuple[Plan, int] | None:
        """Best heuristic plan of the coarse problem, offered to the original as well."""
        if coarse is self.problem:
            return None if self.plan is None or self.value is None else (self.plan, self.value)
        assert self.coarsening is not None
        plan, values = self.heuristics(coarse)
        if plan is None:
            return None
        expanded = self.coarsening.undo(plan)
        self.offer(expanded, "coarse heuristics", "baselines")
        self.offer_compact(expanded, "coarse heuristics")
        return plan, min(value for value in values.values() if value is not None)

    def model_limits(self) -> Limits:
        assert self.coarsening is not None
        share = EXACT_SHARE if self.coarsening.exact else COARSE_SHARE
        if self.repeatable or not self.solver.formulation.card.neighbourhoods:
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
        assert self.coarsening is not None
        coarse = self.coarsening.problem
        unit = self.solver.formulation.scale(coarse, self.solver.options, guide).unit

        def show(point: TracePoint) -> None:
            incumbent = "none" if point.incumbent is None else f"{point.incumbent * unit:.6g}"
            bound = "none" if point.bound is None else f"{point.bound * unit:.6g}"
            self.say("model", f"model {incumbent}, its bound {bound}, nodes {point.nodes}")

        return show

    def raise_bound(self, bound: Bound) -> None:
        """Take a bound on the original problem."""
        if self.bound is None or bound.value > self.bound.value:
            self.bound = bound
            self.bounds = (*self.bounds, bound)
            self.say("bounds", bound.name)

    def use_answer(self, answer: ModelAnswer, cutoff: int | None) -> None:
        """Take plan and bound of an exact model of the original problem, asked up to a cutoff."""
        self.answer = answer
        self.disputed = self.disputed or answer.disputed
        if answer.report.stop in FAILURES:
            self.say("model", f"{answer.report.stop}: {answer.report.message}")
        self.stop = self.end_of_limit
        if answer.disputed:
            return
        name = self.solver.formulation.card.name
        self.offer(answer.plan, name, "model")
        if getattr(self.solver.options, "restricts", False):
            return  # a switch left out plans: nothing is proved
        if answer.report.stop is Stop.INFEASIBLE:
            if cutoff is None:
                self.infeasible_because = f"{name} has no solution: proved by the solver"
            else:
                self.raise_bound(Bound(name, cutoff + 1, f"no plan of value {cutoff} or less"))
        elif answer.bound is not None:
            most = [answer.value, None if cutoff is None else cutoff + 1]
            bound = min([answer.bound, *(limit for limit in most if limit is not None)])
            self.raise_bound(Bound(name, bound, "solver's bound"))

    def use_bound(self, answer: ModelAnswer, coarse: PlanningProblem) -> None:
        """The model's bound counts when the formulation and stage one are both exact."""
        assert self.coarsening is not None
        card = self.solver.formulation.card
        if not (card.exact and self.coarsening.exact) or self.disputed:
            return
        if answer.report.stop is Stop.INFEASIBLE and self.value is None:
            self.infeasible_because = f"{card.name} has no solution: proved by the solver"
            return
        bound = answer.bound
        if bound is not None and answer.value is not None:
            bound = min(answer.value, bound)  # they may cross by a tolerance
        if bound is not None:
            self.raise_bound(Bound(card.name, bound, f"solver's bound on {coarse.name}"))

    def polish(self) -> None:
        """Neighbourhood search on the original problem."""
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
        try:
            search.run(self.clock, lambda kind: self.improved(search, kind))
        finally:
            if search.interrupted:
                self.stop = Stop.INTERRUPTED
        if not search.interrupted:
            self.stop = self.end_of_limit

    def improved(self, search: Search, kind: str) -> None:
        self.offer(search.plan, "neighbourhood search", f"polish: {kind}")

    # -- answer ------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        """Everything that was found, with its record."""
        plan = self.plan
        if plan is not None and self.value is not None:
            plan = plan.claimed(str(self.problem.objective), self.value, self.planner)
            plan = dataclasses.replace(plan, fingerprint=self.problem.fingerprint)
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
