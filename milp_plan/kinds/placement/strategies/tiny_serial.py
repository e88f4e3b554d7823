"""Enumerates every placement of a few operators under the serial law.

A model's tolerances are relative to the value: with values of 10^8 ticks its proof has a gap of
some ticks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import AUTO

from ..serial.places import Place, PlaceTables, read_places

EVERY_PLACEMENT = "every placement"

MAX_PLACEMENTS = 10_000
"""Largest number of placements that are enumerated: a second or two."""

SHARE = 0.3
"""Share of the time limit for the enumeration."""

NO_PLAN = "every placement was enumerated; none satisfies the law and the memory limits"


def is_tiny(ledger: Ledger[PlanningProblem, Plan]) -> bool:
    """Return whether to enumerate every placement; a named formulation is solved instead."""
    if ledger.settings.formulation != AUTO:
        return False
    tables = read_places(ledger.problem)
    count = prod(
        sum(tables.calls(device) ** len(numbers) for device in homes)
        for numbers, homes in zip(tables.members, tables.homes, strict=True)
    )
    return bool(count <= MAX_PLACEMENTS)


def offer_best_of_all(ledger: Ledger[PlanningProblem, Plan]) -> None:
    """Enumerate every placement of a tiny problem; offer the best one, and prove it."""
    tables = read_places(ledger.problem)
    best: tuple[int, list[Place]] | None = None
    with ledger.budget.phase(EVERY_PLACEMENT):
        part = ledger.budget.part(EVERY_PLACEMENT, SHARE)
        for places in _placements(tables):
            if part.over and not ledger.repeatable:
                return
            score = tables.score(places)
            if not score.broken and (best is None or score.value < best[0]):
                best = score.value, places
    if best is None:
        ledger.refute(NO_PLAN)
        return
    if ledger.value is None or best[0] < ledger.value:
        ledger.offer(tables.plan(best[1], EVERY_PLACEMENT), EVERY_PLACEMENT, EVERY_PLACEMENT)
    ledger.prove(Bound(EVERY_PLACEMENT, best[0], "no placement is better"))


def _placements(tables: PlaceTables) -> Iterator[list[Place]]:
    """Yield every placement of all operators, colocated ones on one device."""
    choices: list[list[tuple[Place, ...]]] = [
        [
            tuple((device, call) for call in calls)
            for device in homes
            for calls in product(range(tables.calls(device)), repeat=len(numbers))
        ]
        for numbers, homes in zip(tables.members, tables.homes, strict=True)
    ]
    for chosen in product(*choices):
        places: list[Place] = [(0, 0)] * len(tables)
        for numbers, taken in zip(tables.members, chosen, strict=True):
            for number, place in zip(numbers, taken, strict=True):
                places[number] = place
        yield places
