"""Starts are valid placements, worth what the checker says, and the same every time."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective, Placement, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners.constructions.assignment import assignment
from milp_plan.kinds.schedule.planners.constructions.layouts import layouts
from milp_plan.kinds.schedule.planners.constructions.portfolio import best_starts
from milp_plan.kinds.schedule.planners.constructions.structure import Pass, structure
from milp_plan.kinds.schedule.planners.constructions.urgency import urgencies
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.zoo import generate
from tests.support.problems import random_problem
from tests.support.seeds import few

pytestmark = pytest.mark.untraced

INSTANCES = Path(__file__).parents[3] / "instances"
CLUSTERS = ("4xH100", "2xH100+2xA100", "8xA100")
MODELS = ("channel", "endpoint", "delay")
SHAPES = (
    ("gpt-tiny", "fine", ()),
    ("gpt-tiny", "block", ()),
    ("gpt-tiny", "fine", ("all2",)),
    ("moe-tiny", "fine", ()),
    ("two-tower-tiny", "block", ()),
    ("unet", "fine", ()),
    ("resnet50", "fine", ()),
)


def generated(seed: int) -> PlanningProblem:
    rng = Random(seed)
    name, granularity, options = SHAPES[seed % len(SHAPES)]
    return generate(
        name,
        rng.choice(CLUSTERS),
        mode=rng.choice(("training", "training", "inference")),
        batch=16,
        micro_batches=rng.choice((1, 2, 4)),
        granularity=granularity,
        memory_scale=rng.choice(("1", "1/100", "1/400")),
        options=options,
        communication=rng.choice(MODELS),
    )


def problems(seed: int) -> PlanningProblem:
    if seed % 2:
        return generated(seed // 2)
    return random_problem(seed, objective=Objective.MAKESPAN)


@pytest.mark.parametrize("seed", few(range(30), 14))
def test_every_placement_is_admissible_and_keeps_units_together(seed: int) -> None:
    problem = problems(seed)
    view = indexed(problem)
    names = set()
    for layout in islice(layouts(problem), 60):
        sites, options = layout.assigned
        assert len(sites) == len(view.units)
        for operator, option in enumerate(options):
            site = sites[view.unit[operator]]
            assert site in view.unit_sites[view.unit[operator]]
            placement = problem.graph.operators[operator].options[option].name
            spots = view.spots[operator]
            assert any(s.site == site and s.placement.option == placement for s in spots)
        names.add(layout.name)
    joined = set.intersection(*(set(sites) for sites in view.unit_sites))
    assert names or not joined


@pytest.mark.parametrize("seed", few(range(30), 14))
def test_starts_are_worth_what_the_checker_says(seed: int) -> None:
    problem = problems(seed)
    view, decoder = indexed(problem), Decoder(problem)
    starts = best_starts(problem, decoder, count=3, most=20)
    values = [start.value for start in starts]
    assert values == sorted(values)
    for start in starts:
        spots = [view.spots[op][order] for op, order in enumerate(start.spots)]
        site, option = decoder.of_spots(spots)
        by_name = dict(zip(view.names, start.priority, strict=True))
        assert decoder.decode(site, option, decoder.ranks(by_name)) == start.value
        verdict = verify(problem, decoder.plan())
        assert verdict.ok, verdict.violations[0]
        assert verdict.value == decoder.ticks(start.value)
    again = best_starts(problem, decoder, count=3, most=20)
    assert starts == again


def test_a_budget_that_is_over_leaves_one_placement() -> None:
    problem = generate("gpt-tiny", "4xH100", batch=16, micro_batches=2)
    assert len(best_starts(problem, Decoder(problem), Budget(0.0), count=9)) == 1


@pytest.mark.parametrize(
    ("stem", "most_ms"),
    [
        ("gpt2-medium-training-8xH100", 26.8),
        ("clip-vit-b32-training-8xH100", 6.55),
        ("inception-v3-training-4xH100", 5.86),
        ("gpt2-xl-training-16xA100", 322.0),
        ("gpt2-xl-training-4xA100-40GB", 142.5),
        ("transformer-4xA100", 25.6),
    ],
)
def test_training_graphs_start_well(stem: str, most_ms: float) -> None:
    problem = read(INSTANCES / f"{stem}.json.gz")
    assert isinstance(problem, PlanningProblem)
    decoder = Decoder(problem)
    starts = best_starts(problem, decoder, most=300)
    assert decoder.ticks(starts[0].value) <= most_ms * 1e6


def test_priorities_go_by_pass_then_by_micro_batch() -> None:
    problem = generate("gpt-tiny", "2xA100", batch=8, micro_batches=4)
    found = structure(problem)
    steady = urgencies(found)["steady"]
    freeing = urgencies(found)["freeing"]

    def between(priority: object, one: Pass, other: Pass) -> bool:
        low = min(priority[op] for op, each in enumerate(found.passes) if each is one)
        high = max(priority[op] for op, each in enumerate(found.passes) if each is other)
        return bool(low > high)

    order = [Pass.BACKWARD, Pass.FORWARD, Pass.WEIGHT, Pass.UPDATE]
    for one, other in pairwise(order):
        assert between(steady, one, other)
    assert between(freeing, Pass.UPDATE, Pass.WEIGHT)
    forward = [op for op, each in enumerate(found.passes) if each is Pass.FORWARD]
    for batch in range(3):
        early = min(steady[op] for op in forward if found.batch[op] == batch)
        late = max(steady[op] for op in forward if found.batch[op] == batch + 1)
        assert early > late


@pytest.mark.parametrize("seed", few(range(10), len(SHAPES)))
def test_tails_follow_the_longest_way_to_the_end(seed: int) -> None:
    problem = generated(seed)
    view = indexed(problem)
    for layout in islice(layouts(problem), 5):
        sites, options = layout.assigned
        tails = assignment(problem).tails(layout.assigned)
        for operator in range(view.num_operators):
            option = problem.graph.operators[operator].options[options[operator]].name
            placement = Placement(option, view.site_names[sites[view.unit[operator]]])
            own = view.spot(operator, placement).duration
            below = max((tails[r] for r in view.successors[operator]), default=0.0)
            assert tails[operator] >= own + below - 1e-6 * tails[operator]
            same = [
                tails[r]
                for r in view.successors[operator]
                if sites[view.unit[r]] == sites[view.unit[operator]]
            ]
            changes = any(len(o.options) > 1 for o in problem.graph.operators)
            if len(same) == len(view.successors[operator]) and not changes:
                assert tails[operator] == pytest.approx(own + max(same, default=0.0))
