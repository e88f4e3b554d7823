"""Chooses cut and plan of a pipeline together, under a memory limit.

Cuts come in the order of a lower bound on their plans. Each is inspected: bounds, published
schedules, a proof that it has no plan. Those that may still beat the best plan are then planned
in turns of growing length. The answer is proved when every cut is decided; the order decides
those that were never inspected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from milp_plan.backends import Stop
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.amounts import needed_and_available
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.gap import proved_optimal, relative_gap, within
from milp_plan.run.key import file_name, run_key
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.outcome import Outcome
from milp_plan.run.record import outcome_of, settings_data
from milp_plan.run.settings import Progress, ProgressHook, Settings
from milp_plan.run.solving import choose, solve

from .case import Built, Case, Grid, build, built, cut_text, grid
from .cuts import Cuts
from .model import Cut, most_even
from .reading import read_shop
from .strategies.shop import ShopStrategy

FIRST_INSPECTION_SHARE, INSPECTION_SHARE = 0.25, 0.1
"""Shares of the time limit for inspecting cuts: at first, and before each round of turns."""

FIRST_TURN_SHARE = 1 / 16
"""Share of the time limit for planning one cut in the first round; it doubles every round."""

MIN_TURN_S = 1.0
"""Shortest turn, seconds."""

MAX_REPEATABLE_CUTS = 64
"""Cuts that are inspected in a repeatable run, in which nothing may depend on the clock."""

EVERY_CUT = "every cut"
"""Name of the bound over all cuts."""

Found = Outcome[PlanningProblem, Plan]


@dataclass
class InspectedCut:
    """A cut that was inspected.

    Parameters
    ----------
    built
        Its problem.
    bound
        Lower bound on the value of its plans.
    outcome
        The best outcome so far; ``None`` before the first.
    """

    built: Built
    bound: int
    outcome: Found | None = None

    @property
    def value(self) -> int | None:
        """Value of its best plan."""
        return None if self.outcome is None else self.outcome.value

    @property
    def impossible(self) -> bool:
        """Whether it is proved that the cut has no plan."""
        return self.outcome is not None and self.outcome.infeasible_reason is not None


class CutSearch:
    """Choose cut and plan of a case together.

    Parameters
    ----------
    case, settings
        The case, whose cut is open, and the settings of the run.
    hook
        Receives progress reports.
    starts
        Known plans by their cuts.
    """

    def __init__(
        self,
        case: Case,
        settings: Settings,
        hook: ProgressHook | None = None,
        starts: Mapping[Cut, Plan] | None = None,
    ) -> None:
        self.case, self.settings, self.hook = case, settings, hook
        self.grid = grid(case)
        self.starts = dict(starts or {})
        self.budget = Budget(settings.time_limit_s, settings.node_limit)
        self.tried: dict[Cut, InspectedCut] = {}
        self.best: InspectedCut | None = None
        self.stop: Stop | None = None
        self.cuts = Cuts(self.grid)

    def run(self) -> tuple[Built, Found]:
        """Return the problem of the best cut, and the outcome over all cuts."""
        if self.cuts.possible == 1:
            made, outcome = fixed_cut(self.case, self._of_only_cut(), self.hook)
            only = {
                "possible": 1,
                "looked_at": 1,
                "all_decided": True,
                "bound_of_cut": outcome.bound,
            }
            return made, replace(outcome, record={**outcome.record, "cuts": only})
        even = most_even(self.grid.parts, self.grid.stages)
        try:
            for cut in dict.fromkeys([*self.starts, even]):
                bound = self.cuts.bound_of(cut)
                if bound is not None and not self.settled:
                    self.inspect(cut, bound)
            self._search()
        except KeyboardInterrupt:
            self.stop = Stop.INTERRUPTED
        return self._answer(even)

    def _of_only_cut(self) -> Settings:
        return replace(self.settings, start=next(iter(self.starts.values()), None))

    def _search(self) -> None:
        share, turn = FIRST_INSPECTION_SHARE, FIRST_TURN_SHARE * self.settings.time_limit_s
        while not (self.settled or self.budget.over):
            self._look(share)
            still = self.still_open()
            if self.settled or not (still or self.cuts.bound is not None):
                return
            self._plan(still, max(MIN_TURN_S, turn))
            if self.budget.repeatable or (not still and self.cuts.cut_off):
                return
            share, turn = INSPECTION_SHARE, 2 * turn

    # -- what is known -----------------------------------------------------------------------

    @property
    def value(self) -> int | None:
        """Value of the best plan."""
        return None if self.best is None else self.best.value

    @property
    def bound(self) -> int | None:
        """Lower bound over all cuts; ``None`` where no cut has a plan."""
        known = [one.bound for one in self.tried.values() if not one.impossible]
        known += [bound for bound in (self.cuts.bound,) if bound is not None]
        return min(known, default=None)

    @property
    def settled(self) -> bool:
        """Whether the required gap is reached over all cuts, or no cut has a plan."""
        if self.bound is None:
            return True
        return within(self.value, self.bound, self.settings.gap)

    def still_open(self) -> list[InspectedCut]:
        """Cuts whose plans may be better than the best one; the cut of the best plan first."""
        value = self.value
        open_cuts = [
            one
            for one in self.tried.values()
            if not one.impossible and (value is None or one.bound < value)
        ]
        return sorted(open_cuts, key=lambda one: (one is not self.best, one.bound))

    # -- steps -------------------------------------------------------------------------------

    def _look(self, share: float) -> None:
        """Inspect further cuts: in the order of bounds, then neighbours of the best one."""
        part = self.budget.part("cuts", share / 2)
        while not (part.over or self.settled or self._enough):
            candidate = self.cuts.next(self.value, lambda: part.over)
            if candidate is None:
                break
            bound, cut = candidate
            if cut not in self.tried:
                self.inspect(cut, bound)
        part = self.budget.part("cuts", share / 2)
        while (neighbour := next(self._neighbours(), None)) and not (part.over or self.settled):
            if self._enough:
                return
            self.inspect(*neighbour)

    @property
    def _enough(self) -> bool:
        """Whether a repeatable run has inspected enough cuts."""
        return self.budget.repeatable and len(self.tried) >= MAX_REPEATABLE_CUTS

    def _neighbours(self) -> Iterator[tuple[Cut, int]]:
        """Yield neighbours of the best cut (one border moved by a piece) that may be better."""
        if self.best is None:
            return
        cut = self.best.built.cut
        for border, step in product(range(1, len(cut)), (1, -1)):
            moved = list(cut)
            moved[border - 1] += step
            moved[border] -= step
            if min(moved) < 1 or tuple(moved) in self.tried:
                continue
            bound = self.cuts.bound_of(tuple(moved))
            if bound is not None and bound < (self.value or 0):
                yield tuple(moved), bound

    def inspect(self, cut: Cut, bound: int) -> None:
        """Find simple bounds and plans of a cut."""
        one = self.tried[cut] = InspectedCut(built(self.grid, cut), bound)
        outcome = self._quick(one, self.value)
        if outcome is not None:
            self._take(one, outcome)

    def _quick(self, one: InspectedCut, worth: int | None = None) -> Found | None:
        """Return the outcome of quick steps on a cut; ``None`` where no plan is below ``worth``."""
        problem = one.built.problem
        kind, settings = kind_of(problem), self._settings(one, MIN_TURN_S)
        if (
            choose(kind, problem, settings).strategy is not ShopStrategy
        ):  # other strategies have no quick steps
            self._let_stay(one)
            return self._solved(one, max(MIN_TURN_S, FIRST_TURN_SHARE * self.settings.time_limit_s))
        with self.budget.phase("looks"):
            part = self.budget.at_most("look", MIN_TURN_S)
            ledger: Ledger[PlanningProblem, Plan] = Ledger(kind, problem, settings, part)
            ledger.details["strategy"] = ShopStrategy.name
            strategy = ShopStrategy(ledger)
            ledger.check_start()
            strategy.find_floors()
            one.bound = max(one.bound, ledger.lower or 0)
            if worth is not None and one.bound >= worth:
                return None
            strategy.run_experts()
            if ledger.value is None:
                ledger.prove_infeasible()
            return outcome_of(ledger)

    def _let_stay(self, one: InspectedCut) -> None:
        """Start a pipeline that may recompute or offload from a plan in which everything stays."""
        problem = one.built.problem
        plain = problem.without_memory_saving
        if plain is problem or one.built.cut in self.starts or one.outcome is not None:
            return
        shop = read_shop(plain)
        if isinstance(shop, str):
            return
        settings = Settings(time_limit_s=MIN_TURN_S, threads=self.settings.threads)
        ledger: Ledger[PlanningProblem, Plan] = Ledger(kind_of(plain), plain, settings)
        ShopStrategy(ledger).run_experts()
        if ledger.plan is not None:
            self.starts[one.built.cut] = replace(ledger.plan, fingerprint=None)

    def _plan(self, still: Iterable[InspectedCut], seconds: float) -> None:
        """Plan each open cut for some seconds; a single one has all the time."""
        still = list(still)
        for one in still:
            value = self.value
            if self.settled or self.budget.over:
                return
            if value is not None and one.bound >= value:
                continue
            alone = len(still) == 1 and (self.cuts.bound is None or self.cuts.bound >= (value or 0))
            self._take(one, self._solved(one, self.budget.left_s if alone else seconds))
            if self.stop is Stop.INTERRUPTED:
                return

    def _solved(self, one: InspectedCut, seconds: float) -> Found:
        with self.budget.phase("plans"):
            part = self.budget.at_most("plan", seconds)
            settings = self._settings(one, part.limit_s)
            return solve(one.built.problem, settings, self._hook(one))

    def _settings(self, one: InspectedCut, seconds: float) -> Settings:
        plan = self.starts.get(one.built.cut) if one.outcome is None else one.outcome.plan
        return replace(self.settings, time_limit_s=max(0.05, seconds), start=plan)

    def _hook(self, one: InspectedCut) -> ProgressHook | None:
        hook, value = self.hook, self.value
        if hook is None:
            return None

        def report(point: Progress) -> None:
            known = [entry for entry in (point.incumbent, value) if entry is not None]
            note = ", ".join(filter(None, [f"cut {cut_text(one.built.cut)}", point.note]))
            hook(replace(point, incumbent=min(known, default=None), note=note))

        return report

    def _take(self, one: InspectedCut, outcome: Found) -> None:
        if outcome.stop is Stop.INTERRUPTED:
            self.stop = Stop.INTERRUPTED
        if outcome.bound is not None:
            one.bound = max(one.bound, outcome.bound)
        if one.value is None or (outcome.value is not None and outcome.value <= one.value):
            one.outcome = outcome
        if one.value is not None and (self.value is None or one.value < self.value):
            self.best = one
        if self.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt

    # -- the answer --------------------------------------------------------------------------

    def _answer(self, even: Cut) -> tuple[Built, Found]:
        known = [one for one in self.tried.values() if one.outcome is not None]
        chosen = self.best or min(known, key=lambda one: (one.impossible, one.bound), default=None)
        if chosen is None:  # no cut has room: any of them is shown
            chosen = InspectedCut(built(self.grid, even), 0)
        outcome = chosen.outcome or self._quick(chosen)
        assert outcome is not None
        value, bound = self.value, self.bound
        if value is not None and bound is not None:
            bound = min(bound, value)
        impossible = bound is None
        name = outcome.bound_name if bound == outcome.bound else EVERY_CUT
        bounds = outcome.bounds
        if name == EVERY_CUT and bound is not None:
            bounds = (
                *(entry for entry in bounds if entry.value < bound),
                Bound(EVERY_CUT, bound, "no plan with any cut is better"),
            )
        settled = impossible or within(value, bound, self.settings.gap)
        stop = Stop.INFEASIBLE if impossible else Stop.PROVED if settled else self._stop(outcome)
        changed = replace(
            outcome,
            bound=bound,
            bound_name=None if bound is None else name,
            bounds=bounds,
            gap=relative_gap(value, bound),
            stop=stop,
            proved=proved_optimal(value, bound) and not outcome.disputed,
            infeasible_reason=self._why_none() if impossible else None,
            seconds=self.budget.elapsed_s,
        )
        return chosen.built, replace(changed, record=self._record(changed))

    def _stop(self, outcome: Found) -> Stop:
        if self.stop is not None:
            return self.stop
        if self.budget.over:
            return Stop.TIME_LIMIT
        return Stop.NODE_LIMIT if self.budget.repeatable else outcome.stop

    def _record(self, outcome: Found) -> dict[str, Any]:
        old, measure, problem = outcome.record, outcome.measure, outcome.problem
        settings = settings_data(self.settings) | {"threads": old["settings"]["threads"]}
        made = old["formulation"] or {"name": settings["formulation"], "sha256": None}
        named = settings | {"formulation": made["name"], "cut": None}
        key = run_key(problem.name, problem.fingerprint, named, made["sha256"])
        return {
            **old,
            "key": file_name(problem.name, key),
            "bound": outcome.bound,
            "bound_name": outcome.bound_name,
            "bound_in_unit": measure.decimal(outcome.bound),
            "bounds": {entry.name: entry.value for entry in outcome.bounds},
            "gap": outcome.gap,
            "gap_asked": self.settings.gap,
            "proved": outcome.proved,
            "stop": str(outcome.stop),
            "infeasible_because": outcome.infeasible_reason,
            "seconds": round(outcome.seconds, 3),
            "phases": {name: round(seconds, 4) for name, seconds in self.budget.phases.items()},
            "settings": {**settings, "start": False},
            "cuts": self._counted(outcome),
        }

    def _counted(self, outcome: Found) -> dict[str, Any]:
        """Count the cuts, those inspected, and whether all are decided."""
        decided = outcome.proved or outcome.stop is Stop.INFEASIBLE
        tried = self.tried.values()
        chosen = self.best
        return {
            "possible": self.cuts.possible,
            "looked_at": len(tried),
            "all_decided": decided,
            "bound_of_cut": None if chosen is None else min(chosen.bound, chosen.value or 0),
        }

    def _why_none(self) -> str:
        """Explain why no cut has a plan."""
        stages = self.grid.stages
        count = self.cuts.possible
        division = f"{len(self.grid.parts)} pieces into {stages} stages"
        none = (
            f"none of the {count:,} cuts of {division} fits"
            if count > 1
            else f"{division} do not fit"
        )
        by_memory = Cuts(self.grid, by_memory=True)
        least = by_memory.next()
        limit = self.grid.limit
        if least is not None and limit is not None and least[0] > limit:
            needs, cut = least
            other = "; with any other cut as much or more" if count > 1 else ""
            return f"{none}: with {cut_text(cut)} {missing_memory(self.grid, needs)}{other}"
        reasons = [
            f"with {cut_text(cut)}: {one.outcome.infeasible_reason}"
            for cut, one in self.tried.items()
            if one.outcome is not None
        ]
        more = f"; and {len(reasons) - 1:,} more cuts" if len(reasons) > 1 else ""
        return f"{none}: {reasons[0]}{more}"


def fixed_cut(case: Case, settings: Settings, hook: ProgressHook | None) -> tuple[Built, Found]:
    """Plan a case whose cut is given, or whose stages are equal."""
    made, layout = build(case), grid(case)
    missing = None if layout.limit is None else Cuts(layout).bound_of(made.cut) is None
    if not missing:
        return made, solve(made.problem, settings, hook)
    brief = replace(settings, time_limit_s=min(settings.time_limit_s, MIN_TURN_S))
    outcome = solve(made.problem, brief, hook)
    needs = Cuts(layout, by_memory=True).bound_of(made.cut) or 0
    reason = missing_memory(layout, needs)
    proved = {"infeasible_because": reason, "stop": str(Stop.INFEASIBLE)}
    record = {**outcome.record, **proved}
    return made, replace(outcome, infeasible_reason=reason, stop=Stop.INFEASIBLE, record=record)


def missing_memory(layout: Grid, needs: int) -> str:
    """Describe how much memory a cut needs at least, and how much there is."""
    assert layout.limit is not None
    least, limit = needed_and_available(layout.units, needs, layout.limit)
    return f"a device needs at least {least} and has {limit}"
