"""Which changes of ranks leave a schedule as it is: held against schedules made anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.core import CommunicationModel, Objective, PlanningProblem
from milp_plan.kinds.schedule.planners.decoder import NEVER, Decoder
from milp_plan.kinds.schedule.planners.decoder import layout as at
from milp_plan.kinds.schedule.planners.decoder.decoder import decode
from milp_plan.kinds.schedule.planners.search.states import new_undo, remember, take_back
from milp_plan.kinds.schedule.planners.search.units import units_of
from milp_plan.kinds.schedule.planners.search.waits import new_waits, note, same
from milp_plan.zoo import generate
from tests.check.cases import cluster, op, problem
from tests.planners.decoder.test_decoder import magnified
from tests.planners.decoder.test_plain import place_anywhere, unwatched
from tests.support.problems import random_problem

pytestmark = pytest.mark.untraced

MODELS = list(CommunicationModel)


def starts(decoder: Decoder, holding: bool) -> list[int] | None:
    """Starts of all tasks; ``None`` where there is no schedule."""
    memory = decoder.memory
    if decode(memory.a, memory.t, (True, False, holding), 1.0, NEVER) == NEVER:
        return None
    tasks = decoder.size + int(memory.part(at.LEG_COUNT)[0])
    return memory.part(at.START)[:tasks].tolist()


def reranked(decoder: Decoder, rng: Random, width: int) -> tuple:
    """Give one to three operators other ranks; what was changed."""
    undo = new_undo(decoder.size, len(units_of(decoder.compiled).ptr) - 1)
    rank = decoder.memory.part(at.RANK)
    for _ in range(rng.randint(1, 3)):
        operator = rng.randrange(decoder.size)
        remember(decoder.memory.a, decoder.memory.t, undo, operator)
        rank[operator] += rng.randint(-width, width)
    return undo


def walk(a_problem: PlanningProblem, rng: Random, steps: int) -> tuple[int, int, int]:
    """Change ranks at random: how often that is said to, and does, leave the schedule; steps."""
    decoder = Decoder(a_problem)
    memory, waits, stated, stayed, seen = decoder.memory, new_waits(decoder), 0, 0, 0
    for holding in (False, True):
        if not place_anywhere(decoder, rng, single=False):
            return 0, 0, 0
        width = rng.choice((3, 10**9))
        memory.part(at.RANK)[: decoder.size] = [rng.randint(0, width) for _ in range(decoder.size)]
        known = starts(decoder, holding)
        if known is None:
            continue
        note(memory.a, memory.t, waits, holding)
        for _ in range(steps):
            undo = reranked(decoder, rng, width)
            stays = same(memory.a, memory.t, waits, undo)
            found = starts(decoder, holding)
            seen += 1
            stated += stays
            stayed += found == known
            assert found == known or not stays
            if stays:
                continue
            if rng.random() < 0.5:  # a move that is taken back leaves what was known
                take_back(memory.a, memory.t, undo)
                continue
            known = found
            note(memory.a, memory.t, waits, holding)
    return stated, stayed, seen


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_that_is_predicted_to_stay_stays(seed: int, model: CommunicationModel) -> None:
    rng = Random(seed)
    found = random_problem(seed, objective=Objective.MAKESPAN, communication=model)
    walk(magnified(unwatched(found), rng.choice((1, 7, 10**9))), rng, 60)


@pytest.mark.parametrize("model", MODELS)
def test_nearly_all_that_stays_is_seen(model: CommunicationModel) -> None:
    found = generate("gpt-tiny", "4xA100", mode="training", batch=8, micro_batches=4)
    found = replace(found, cluster=replace(found.cluster, communication=model))
    stated, stayed, seen = walk(unwatched(found), Random(0), 200)
    assert seen == 400
    assert 0.9 * stayed <= stated <= stayed < seen


def test_two_that_wait_for_one_device_change_their_order() -> None:
    a_problem = problem([op("a"), op("b")], where=cluster("d0"))
    decoder = Decoder(a_problem)
    memory, waits = decoder.memory, new_waits(decoder)
    memory.part(at.RANK)[:2] = 0, 10
    assert starts(decoder, False) is not None
    undo = new_undo(2, 2)
    remember(memory.a, memory.t, undo, 1)
    assert not same(memory.a, memory.t, waits, undo), "nothing is known yet"
    note(memory.a, memory.t, waits, False)
    memory.part(at.RANK)[1] = 1
    assert same(memory.a, memory.t, waits, undo)
    for rank in (0, -1):
        memory.part(at.RANK)[1] = rank
        assert not same(memory.a, memory.t, waits, undo)
