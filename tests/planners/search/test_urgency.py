"""Ranks made anew after a move: by what is behind each operator where it stands."""

import numpy as np
import pytest

from milp_plan.core import Objective
from milp_plan.kinds.schedule.planners.constructions.structure import structure
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.decoder import layout as at
from milp_plan.kinds.schedule.planners.search.states import new_undo, take_back
from milp_plan.kinds.schedule.planners.search.units import units_of
from milp_plan.kinds.schedule.planners.search.urgency import rank_anew, urgency_of
from milp_plan.zoo import generate
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.untraced

WIDTH = 10.0**9


def ranked(a_problem, a_plan):
    """A decoder that stands at a plan's placement with ranks made anew, and how to undo them."""
    decoder = Decoder(a_problem)
    placements = {run.operator: run.placement for run in a_plan.runs}
    decoder.site[:], decoder.option[:] = decoder.place(placements)
    undo = new_undo(decoder.size, len(units_of(decoder.compiled).ptr) - 1)
    memory = decoder.memory
    rank_anew(memory.a, memory.t, undo, urgency_of(a_problem, decoder.compiled), WIDTH)
    return decoder, undo


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_more_urgent_than_what_it_waits_for(seed):
    """Without micro-batches only the path behind counts, which is longer before each reader."""
    a_problem, a_plan = random_problem_with_plan(seed, objective=Objective.MAKESPAN)
    decoder, undo = ranked(a_problem, a_plan)
    rank = decoder.memory.part(at.RANK)[: decoder.size].copy()
    assert undo.changed[0] == decoder.size
    position = decoder.compiled.position
    for number, readers in enumerate(decoder.compiled.view.successors):
        assert all(rank[position[number]] <= rank[position[reader]] for reader in readers)
    assert np.ptp(rank) <= WIDTH
    take_back(decoder.memory.a, decoder.memory.t, undo)
    assert not decoder.memory.part(at.RANK)[: decoder.size].any()


def test_micro_batches_keep_their_order_whatever_is_drawn():
    a_problem = generate("gpt-tiny", "2xA100", mode="training", batch=9, micro_batches=3)
    decoder = Decoder(a_problem)
    found, copies = urgency_of(a_problem, decoder.compiled), structure(a_problem).original
    assert set(found.batch) == {0.0, 1.0, 2.0, 3.0}
    assert found.row.max() > found.row.min()
    decoder.site[:] = 0
    memory, order = decoder.memory, decoder.compiled.order
    drawn = set()
    for _ in range(40):
        undo = new_undo(decoder.size, len(units_of(decoder.compiled).ptr) - 1)
        rank_anew(memory.a, memory.t, undo, found, WIDTH)
        rank = memory.part(at.RANK)[: decoder.size]
        drawn.add(tuple(np.argsort(rank, kind="stable")))
        rows = {}
        for number, batch, each in zip(order, found.batch, rank, strict=True):
            rows.setdefault(copies[number], []).append((batch, each))
        for row in rows.values():
            late = [entry for _, entry in sorted(row)]
            assert late == sorted(late)
    assert len(drawn) > 5
