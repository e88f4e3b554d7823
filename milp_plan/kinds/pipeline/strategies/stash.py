"""Planning a pipeline whose activations may be made again or wait on a host.

1. *stay*: the same pipeline without either, by its own way;
2. *roomy*: schedules of it for more memory than there is, and plans the caller knows;
3. *model*: the exact model, where the pipeline is small enough for slots;
4. *search*: words of all of these, with what exceeds memory made again or away, are annealed.

A plan in which everything stays is a plan here as well, so the best one never falls behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from milp_plan.core import CommunicationModel, Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.solving import choose
from milp_plan.run.strategy import Step, Strategy

from ..bounds import floors
from ..planners.stashing import Stashing
from ..reading import read_shop
from ..stash import StashShop, read_stashes
from ..stash_bounds import stash_bound
from .shop import ShopStrategy

STAY_SHARE = 0.25
"""Part of the time limit for plans in which everything stays."""

ROOMY_SHARE = 0.05
"""Part of the time limit for schedules with one other amount of memory."""

SCALES = ((5, 4), (3, 2), (2, 1), None)
"""Other amounts of memory, as multiples of what there is; ``None``: no limit."""

MODEL_SHARE = 0.5
"""Part of the time left for the exact model, where there is one."""

ROUNDS = 20
"""Annealings where a run must be repeatable."""


class StashStrategy(Strategy[PlanningProblem, Plan]):
    """The way for pipelines in which forward passes may run again, or activations wait on hosts."""

    name = "stash"
    uses = Strategy.uses | {"rounds", "hints"}

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        shop = read_stashes(ledger.problem)
        assert isinstance(shop, StashShop), shop
        self.shop = shop
        self.stashing = Stashing(shop, ledger.settings.seed)

    @classmethod
    def formulation_for(cls, problem: PlanningProblem) -> str:
        """Slots; where they are too many there is no model."""
        return "memory_slots"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """What is no pipeline of stashes, or none of micro-batches that are alike."""
        found = read_stashes(problem)
        if isinstance(found, str):
            return found
        plain = read_shop(problem.without_memory_saving)
        return plain if isinstance(plain, str) else None

    def steps(self) -> Iterable[Step]:
        """Proofs, plans in which everything stays, then the search from those that hold more."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", self.find_bounds, run_after_time_limit=True),
            Step("stay", self.all_stay, run_after_time_limit=True),
            Step("roomy", self.plan_roomy, run_after_time_limit=True),
            Step("model", self.ask_model, lambda: ledger.formulation is not None),
            Step("search", self.search),
        )

    def plain(self) -> PlanningProblem:
        """The pipeline without second runs and hosts.

        Transfers between its steps never meet (:mod:`.stash`), so that they hold
        their channels or nothing makes no difference.
        """
        found = self.ledger.problem.without_memory_saving
        free = replace(found.cluster, communication=CommunicationModel.DELAY)
        return found.variant(cluster=free)

    def roomy(self) -> Iterator[tuple[str, PlanningProblem]]:
        """The same with other amounts of memory, by name."""
        plain = self.plain()
        for scale in SCALES:
            if scale is None:
                free = dict.fromkeys(plain.cluster.device_names)
                yield "no limit", plain.variant(cluster=plain.cluster.with_memory(free))
            else:
                yield f"memory x {scale[0]}/{scale[1]}", plain.with_memory_scale(*scale)

    # -- stages ------------------------------------------------------------------------------

    def find_bounds(self) -> None:
        """Bounds that any problem has, floors without memory, and how long stashes lie there.

        The first runs of any plan, without all else, are a plan of the pipeline without a limit.
        """
        self.ledger.find_bounds()
        free = read_shop(dict(self.roomy())["no limit"])
        for floor in () if isinstance(free, str) else floors(free):
            self.ledger.prove(floor)
        found = stash_bound(self.shop)
        self.ledger.prove(Bound("stashes", found, "memory times how long it is held"))

    def take(self, plan: Plan | None, origin: str) -> None:
        """Offer a plan that may hold too much, and begin from it."""
        if plan is None:
            return
        problem = self.ledger.problem
        mine = replace(plan, problem=problem.name, fingerprint=problem.fingerprint, parent=None)
        self.ledger.offer(mine, origin, "stay", must_be_valid=False)
        self.stashing.add(mine, origin)

    def all_stay(self) -> None:
        """Plan the pipeline as if nothing could run again or leave."""
        ledger, plain = self.ledger, self.plain()
        budget = ledger.budget.part("stay", STAY_SHARE)
        settings = replace(ledger.settings, hints=(), start=None, time_limit_s=budget.limit_s)
        chosen = choose(ledger.kind, plain, settings)
        stay = Ledger(ledger.kind, plain, settings, budget, solver=chosen.solver)
        ledger.say("stay")
        with ledger.budget.phase("stay"):
            chosen.strategy(stay).run_steps()
        ledger.baselines["all stay"] = stay.value
        ledger.details["stay"] = {
            "value": stay.value,
            "bound": stay.lower,
            "infeasible": stay.infeasible_reason is not None,
        }
        self.take(stay.plan, "all stay")

    def plan_roomy(self) -> None:
        """Plans the caller knows, and schedules for more memory."""
        ledger = self.ledger
        for number, hint in enumerate([*ledger.settings.hints, ledger.plan]):
            if hint is not None and self.names_match(hint):
                self.take(hint, f"given {number}")
        for name, problem in self.roomy():
            if ledger.done:
                return
            budget = ledger.budget.part(name, ROOMY_SHARE)
            roomy = Ledger(ledger.kind, problem, ledger.settings, budget)
            with ledger.budget.phase("roomy"):
                way = ShopStrategy(roomy)
                way.find_floors()
                way.ask_experts()
                if not ledger.repeatable:
                    way.search(budget.left_s, None)
            self.take(roomy.plan, name)

    def names_match(self, plan: Plan) -> bool:
        """Whether a plan is one of these steps."""
        return {run.operator for run in plan.runs} == set(self.shop.steps)

    def ask_model(self) -> None:
        """Ask the exact model for anything better than the best plan."""
        self.solve_within_share("model", MODEL_SHARE, better=True)

    def search(self) -> None:
        """Anneal, until the bound is met or the time is up."""
        ledger = self.ledger
        ledger.say("search")
        with ledger.budget.phase("search"):
            self.stashing.run(
                ledger.budget,
                lambda plan, _: ledger.offer(plan, "stashing", "search"),
                lower=ledger.lower or 0,
                rounds=ROUNDS if ledger.repeatable else None,
                threads=1 if ledger.repeatable else ledger.threads,
            )
        best = {name: value for name, (value, _) in self.stashing.pool.items()}
        ledger.details["stashing"] = {"rounds": self.stashing.rounds, "pool": best}
