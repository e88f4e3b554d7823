"""Schedules of the compiled decoder, held against the checker."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Objective, Placement, PlanningProblem
from milp_plan.planners.decoder import Decoder
from milp_plan.planners.indexed import indexed
from tests.support.problems import random_problem

pytestmark = pytest.mark.untraced


def magnified(problem: PlanningProblem, ticks: int) -> PlanningProblem:
    """Every duration this many times as long."""
    operators = tuple(
        replace(
            operator,
            options=tuple(
                replace(o, duration_ns={k: v * ticks for k, v in o.duration_ns.items()})
                for o in operator.options
            ),
        )
        for operator in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))


def random_placement(problem: PlanningProblem, rng: Random) -> dict[str, Placement]:
    view = indexed(problem)
    found = {}
    for unit, sites in enumerate(view.unit_sites):
        site = rng.choice(sites)
        for operator in view.units[unit]:
            spots = [spot for spot in view.spots[operator] if spot.site == site]
            found[view.names[operator]] = rng.choice(spots).placement
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_is_worth_what_the_checker_says(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(seed, objective=Objective.MAKESPAN)
    problem = magnified(problem, rng.choice((1, 7, 10**9)))
    decoder = Decoder(problem)
    seen = 0
    for _ in range(30):
        site, option = decoder.place(random_placement(problem, rng))
        rank = np.array([rng.randint(0, 9) for _ in range(decoder.size)])
        patient, soft = rng.random() < 0.5, rng.random() < 0.5
        value = decoder.decode(site, option, rank, patient=patient, soft=soft)
        if value is None:
            continue
        seen += 1
        verdict = verify(problem, decoder.plan())
        rules = {violation.rule for violation in verdict.violations}
        if decoder.excess > 0:
            assert soft
            assert rules <= {"memory"}
        else:
            assert verdict.ok, verdict.violations[0]
            assert verdict.value == decoder.ticks(value)
        # What ends at the cutoff is not before it.
        again = {"patient": patient, "soft": soft}
        assert decoder.decode(site, option, rank, cutoff=value, **again) is None
        assert decoder.decode(site, option, rank, cutoff=value + 1, **again) == value
    assert seen or decoder.limited, "only memory or missing channels leave nothing"
