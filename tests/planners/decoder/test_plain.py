"""The schedule by events where memory is not watched: as the general one, task by task."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from milp_plan.core import CommunicationModel, Objective, PlanningProblem
from milp_plan.kinds.schedule.planners.decoder import NEVER, Decoder
from milp_plan.kinds.schedule.planners.decoder import layout as at
from milp_plan.kinds.schedule.planners.decoder.ahead import look_ahead
from milp_plan.kinds.schedule.planners.decoder.events import run_events
from milp_plan.kinds.schedule.planners.decoder.legs import find_legs
from milp_plan.kinds.schedule.planners.decoder.plain import is_plain, run_plain
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.zoo import generate
from tests.support.problems import random_problem

from .test_decoder import magnified

pytestmark = pytest.mark.untraced

MODELS = list(CommunicationModel)


def unwatched(problem: PlanningProblem) -> PlanningProblem:
    """The same with memory without end."""
    devices = tuple(replace(device, memory_bytes=None) for device in problem.cluster.devices)
    return replace(problem, cluster=replace(problem.cluster, devices=devices))


def place_anywhere(decoder: Decoder, rng: Random, *, single: bool) -> bool:
    """Stand at a random placement, on single devices if asked for; whether there is one."""
    view = indexed(decoder.problem)
    placed = {}
    for unit, sites in enumerate(view.unit_sites):
        small = [site for site in sites if len(view.site_names[site]) == 1 or not single]
        if not small:
            return False
        site = rng.choice(small)
        for operator in view.units[unit]:
            spots = [spot for spot in view.spots[operator] if spot.site == site]
            placed[view.names[operator]] = rng.choice(spots).placement
    decoder.site[:], decoder.option[:] = decoder.place(placed)
    return True


def scheduled(decoder: Decoder, rank: list[int], how: tuple[bool, bool], cutoff: int = NEVER):
    """Value and starts of all tasks, by the plain loop or the general one."""
    plain, holding = how
    memory = decoder.memory
    a, t = memory.a, memory.t
    memory.part(at.RANK)[: decoder.size] = rank
    if not find_legs(a, t):
        return None
    look_ahead(a, t)
    memory.part(at.TIMED)[0] = 0
    if plain:
        found = run_plain(a, t, holding, cutoff)
    else:
        found = run_events(a, t, (True, False, holding), cutoff)
    tasks = decoder.size + int(memory.part(at.LEG_COUNT)[0])
    return found, memory.part(at.START)[:tasks].tolist()


def agree(problem: PlanningProblem, rng: Random, tries: int) -> int:
    """Compare both loops on random placements and ranks; how many schedules there were."""
    decoder, seen = Decoder(problem), 0
    for _ in range(tries):
        if not place_anywhere(decoder, rng, single=True):
            return 0
        assert is_plain(decoder.memory.a, decoder.memory.t)
        most = rng.choice((3, 10**9))
        rank = [rng.randint(-most, most) for _ in range(decoder.size)]
        for holding in (False, True):
            general = scheduled(decoder, rank, (False, holding))
            assert scheduled(decoder, rank, (True, holding)) == general
            if general is None:
                continue
            seen += 1
            value = general[0]
            assert scheduled(decoder, rank, (True, holding), value)[0] == NEVER
            assert scheduled(decoder, rank, (True, holding), value + 1) == general
    return seen


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(20))
def test_both_loops_make_the_same_schedule(seed: int, model: CommunicationModel) -> None:
    rng = Random(seed)
    problem = random_problem(seed, objective=Objective.MAKESPAN, communication=model)
    agree(magnified(unwatched(problem), rng.choice((1, 7, 10**9))), rng, 20)


@pytest.mark.parametrize("model", MODELS)
def test_most_of_these_problems_have_schedules(model: CommunicationModel) -> None:
    drawn = [
        random_problem(seed, objective=Objective.MAKESPAN, communication=model)
        for seed in range(20)
    ]
    assert sum(agree(unwatched(one), Random(0), 2) > 0 for one in drawn) > 10


@pytest.mark.parametrize("model", MODELS)
def test_both_loops_make_the_same_schedule_of_a_training_step(model: CommunicationModel) -> None:
    problem = generate("gpt-tiny", "4xA100", mode="training", batch=8, micro_batches=4)
    cluster = replace(problem.cluster, communication=model)
    assert agree(unwatched(replace(problem, cluster=cluster)), Random(0), 20) == 40


def test_a_gang_is_not_plain() -> None:
    gangs = 0
    for seed in range(60):
        decoder, rng = Decoder(random_problem(seed)), Random(seed)
        place_anywhere(decoder, rng, single=False)
        sites = decoder.compiled.view.site_names
        wide = any(len(sites[site]) > 1 for site in decoder.site)
        assert is_plain(decoder.memory.a, decoder.memory.t) is not wide
        gangs += wide
    assert gangs


def test_what_starts_first_is_the_most_urgent() -> None:
    """Two operators that wait for one device: ranks decide, of equals the first."""
    decoder = Decoder(generate("two-tower-tiny", "2xA100"))
    decoder.site[:] = 0
    free = [n for n in range(decoder.size) if not decoder.compiled.view.predecessors[n]]
    order = decoder.compiled.position
    one, two, *_ = sorted(order[n] for n in free)
    rank = np.arange(decoder.size).tolist()
    assert scheduled(decoder, rank, (True, False))[1][one] == 0
    rank[one] = decoder.size
    assert scheduled(decoder, rank, (True, False))[1][two] == 0
    assert scheduled(decoder, [5] * decoder.size, (True, False))[1][one] == 0
