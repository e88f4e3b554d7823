"""Plans a pipeline whose activations may be recomputed or wait on a host.

1. *stay*: the same pipeline without either, by its own strategy;
2. *roomy*: schedules of it for more memory than there is, and plans of the caller;
3. *model*: the exact model, where the pipeline is small enough for slots;
4. *search*: words of all of these are annealed, with what exceeds memory recomputed or moved.

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
"""Share of the time limit for plans in which everything stays."""

ROOMY_SHARE = 0.05
"""Share of the time limit for schedules with one other amount of memory."""

SCALES = ((5, 4), (3, 2), (2, 1), None)
"""Other amounts of memory, as multiples of the actual one; ``None`` is without limit."""

MODEL_SHARE = 0.5
"""Share of the time left for the exact model, where there is one."""

ROUNDS = 20
"""Annealing runs where the result must be repeatable."""


class StashStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for pipelines whose forward passes may run again, or activations leave."""

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
        """Return the slot model; where slots are too many there is no model."""
        return "memory_slots"

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Reject problems that are no pipelines of stashes, or have unlike micro-batches."""
        shop = read_stashes(problem)
        if isinstance(shop, str):
            return shop
        plain = read_shop(problem.without_memory_saving)
        return plain if isinstance(plain, str) else None

    def steps(self) -> Iterable[Step]:
        """Run proofs, plans in which everything stays, then the search from those above memory."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", self.find_bounds, run_after_time_limit=True),
            Step("stay", self.all_stay, run_after_time_limit=True),
            Step("roomy", self.plan_roomy, run_after_time_limit=True),
            Step("model", self.solve_model, lambda: ledger.formulation is not None),
            Step("search", self.search),
        )

    def plain(self) -> PlanningProblem:
        """Return the pipeline without second runs and hosts.

        Transfers between its steps never collide (:mod:`.stash`), so it makes no difference whether
        they hold their channels.
        """
        plain = self.ledger.problem.without_memory_saving
        free = replace(plain.cluster, communication=CommunicationModel.DELAY)
        return plain.variant(cluster=free)

    def roomy(self) -> Iterator[tuple[str, PlanningProblem]]:
        """Yield the pipeline with other amounts of memory, by name."""
        plain = self.plain()
        for scale in SCALES:
            if scale is None:
                free = dict.fromkeys(plain.cluster.device_names)
                yield "no limit", plain.variant(cluster=plain.cluster.with_memory(free))
            else:
                yield f"memory x {scale[0]}/{scale[1]}", plain.with_memory_scale(*scale)

    # -- stages ------------------------------------------------------------------------------

    def find_bounds(self) -> None:
        """Prove bounds of any problem, floors without memory, and the bound by stashes.

        The first runs of any plan, without all else, are a plan of the pipeline without a limit.
        """
        self.ledger.find_bounds()
        free = read_shop(dict(self.roomy())["no limit"])
        for floor in () if isinstance(free, str) else floors(free):
            self.ledger.prove(floor)
        bound = stash_bound(self.shop)
        self.ledger.prove(Bound("stashes", bound, "memory times how long it is allocated"))

    def take(self, plan: Plan | None, origin: str) -> None:
        """Offer a plan that may exceed the memory, and add it to the search."""
        if plan is None:
            return
        problem = self.ledger.problem
        renamed = replace(plan, problem=problem.name, fingerprint=problem.fingerprint, parent=None)
        self.ledger.offer(renamed, origin, "stay", must_be_valid=False)
        self.stashing.add(renamed, origin)

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
        """Add plans of the caller, and schedules for more memory."""
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
                strategy = ShopStrategy(roomy)
                strategy.find_floors()
                strategy.run_experts()
                if not ledger.repeatable:
                    strategy.search(budget.left_s, None)
            self.take(roomy.plan, name)

    def names_match(self, plan: Plan) -> bool:
        """Return whether a plan consists of these steps."""
        return {run.operator for run in plan.runs} == set(self.shop.steps)

    def solve_model(self) -> None:
        """Solve the exact model for a plan better than the best one."""
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
