"""Local updates: closed forms, published table, memory and bytes by the checker, chosen cuts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.first_come import first_come
from milp_plan import zoo
from milp_plan.check import verify
from milp_plan.core import FULL, InputError
from milp_plan.kinds.local_updates.check import verify_local_updates
from milp_plan.kinds.local_updates.planners import (
    Chain,
    best_cuts,
    chain_of,
    greedy,
    orders,
    step_time,
)
from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem, Stage
from milp_plan.kinds.local_updates.transform import blocks_of, with_local_updates
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.schedule.planners.dispatch import dispatch_order
from tests.support.planted_local_updates import planted_local_updates

SCALE = 20


def chain(stages, batches, transfer, head):
    """Forward 1, backward 2, in twentieths."""
    parts = ((SCALE,), (2 * SCALE,), (round(head * SCALE),), (SCALE,))
    return Chain(*(part * stages for part in parts), round(transfer * SCALE), batches)


def every(stages):
    return frozenset(range(stages - 1))


def times(stages, batches, transfer, head):
    """1F1B, greedy and overlapping, in twentieths."""
    one, cuts = chain(stages, batches, transfer, head), every(stages)
    return (
        step_time(one, (), orders(one, ())),
        step_time(one, cuts, orders(one, cuts, final_head=True)),
        step_time(one, cuts, orders(one, cuts, overlapping=True, final_head=True)),
    )


@pytest.mark.parametrize("stages", [2, 3, 5, 8])
@pytest.mark.parametrize("batches", [1, 2, 7, 16])
@pytest.mark.parametrize("transfer", [0, 0.5, 3])
@pytest.mark.parametrize("head", [0, 0.15, 0.3])
def test_closed_form(stages, batches, transfer, head):
    """L1: the greedy row, exactly."""
    plain, greedy, overlapping = times(stages, batches, transfer, head)
    a, c = round(head * SCALE), round(transfer * SCALE)
    assert greedy == (stages - 1) * (SCALE + c) + batches * (3 * SCALE + a)
    if not c and batches >= stages:
        assert plain == (batches + stages - 1) * 3 * SCALE
    assert overlapping >= greedy + (batches - 1) * SCALE


TABLE = [
    (4, 16, 0, (1.12, 1.07, 1.02), 0.80),
    (8, 8, 0, (1.45, 1.40, 1.35), 1.04),
    (8, 32, 0, (1.14, 1.09, 1.04), 0.79),
    (8, 32, 0.5, (1.42, 1.36, 1.30), 0.99),
    (16, 16, 0.5, (1.73, 1.67, 1.62), 1.23),
]


@pytest.mark.parametrize(("stages", "batches", "transfer", "greedy", "overlapping"), TABLE)
def test_published_speed_ups(stages, batches, transfer, greedy, overlapping):
    """L2: within 0.02, overlapping where devices take what came first; planned orders beat it."""
    for head, known in zip((0, 0.15, 0.3), greedy, strict=True):
        plain, cut, _ = times(stages, batches, transfer, head)
        assert plain / cut == pytest.approx(known, abs=0.02)
    plain, _, both = times(stages, batches, transfer, 0.15)
    one, cuts = chain(stages, batches, transfer, 0.15), every(stages)
    came = step_time(one, cuts, first_come(one, 3))
    assert plain / came == pytest.approx(overlapping, abs=0.02)
    assert came >= both
    least = (stages - 1) * (SCALE + round(transfer * SCALE)) + batches * (4 * SCALE + 3)
    assert least <= both <= 1.01 * least
    assert transfer or both == least


def problem_of(stages, batches, transfer=0, joint=True):
    template, activation = uniform(
        stages, batches, (SCALE, SCALE, SCALE), transfer=transfer, joint_backward=joint
    )
    assert template.units.time_scale == 1
    return pipeline_problem("line", template, place("line", stages)), activation


def crossing(plan, boundary):
    """Transfers between the devices of two stages, either way."""
    ends = {f"d{boundary}", f"d{boundary + 1}"}
    return [t for t in plan.transfers if {*t.source, *t.target} == ends]


def chain_plan(problem, rows):
    """Plan of a pipeline problem in which each device runs its row in order (``F3@5``)."""
    waiting = [list(row) for row in rows]
    done, order = set(), []
    before = problem.graph.predecessors
    while any(waiting):
        moved = False
        for row in waiting:
            while row:
                letter, stage, batch = row[0]
                name = f"{letter}{stage}@{batch}"
                if not done.issuperset(before[name]):
                    break
                order.append(name)
                done.add(name)
                row.pop(0)
                moved = True
        if not moved:
            return None
    placements = {name: problem.placements(name)[0] for name in order}
    return dispatch_order(problem, placements, order, insertion=False)


@pytest.mark.parametrize(("stages", "batches", "transfer"), [(2, 3, 0), (4, 6, 10), (5, 5, 3)])
def test_the_checker_says_the_same(stages, batches, transfer):
    """L1 and L3: time of the transformed graph; one activation; half the messages."""
    problem, activation = problem_of(stages, batches, transfer)
    one = Chain(*((t,) * stages for t in (SCALE, 2 * SCALE, 3, SCALE)), transfer, batches)
    cases = {
        "1f1b": (problem, frozenset(), {}),
        "greedy": (None, every(stages), {"final_head": True}),
        "chunked": (None, frozenset({0}), {}),
        "overlapping": (None, every(stages), {"final_head": True, "overlapping": True}),
        "first come": (None, every(stages), {"final_head": True, "overlapping": True}),
    }
    peaks, sent = {}, {}
    for name, (given, cuts, how) in cases.items():
        local = given or with_local_updates(problem, cuts, lambda *_: 3, **how)
        rows = first_come(one, 3) if name == "first come" else orders(one, cuts, **how)
        plan = chain_plan(local, rows)
        verdict = verify(local, plan)
        assert verdict.ok, (name, verdict.violations[:3])
        assert verdict.value == step_time(one, cuts, rows), name
        peaks[name] = verdict.components["peak_memory d0"] / activation
        sent[name] = [len(crossing(plan, k)) for k in range(stages - 1)]
    assert (peaks["1f1b"], peaks["greedy"]) == (min(batches, stages), 1)
    assert peaks["overlapping"] == min(2, batches)
    assert peaks["first come"] <= 3
    both, half = 2 * batches, batches
    assert sent["1f1b"] == sent["overlapping"] == sent["first come"] == [both] * (stages - 1)
    assert sent["greedy"] == [half] * (stages - 1)
    assert sent["chunked"] == [half, *[both] * (stages - 2)]


def bytes_across(graph, blocks, boundary):
    """Bytes of values that are made on one side of a boundary and read on the other."""
    place = {name: at for at, name in enumerate(blocks)}
    block = {o.name: place.get(o.block) for o in graph.operators}
    found = 0
    for value in graph.values:
        home = block.get(value.producer)
        there = [block[reader] for reader in value.consumers if block[reader] is not None]
        if home is not None and any((home <= boundary) != (at <= boundary) for at in there):
            found += value.bytes[FULL]
    return found


def test_half_of_the_bytes_cross_a_cut():
    """L3: activations go on, gradients of the same size do not come back."""
    whole = zoo.generate("gpt-mini", "2xA100", batch=4, granularity="block", micro_batches=2)
    blocks = blocks_of(whole)
    local = with_local_updates(whole, every(len(blocks)), lambda *_: 3)
    for boundary in every(len(blocks)):
        before = bytes_across(whole.graph, blocks, boundary)
        assert before == 2 * bytes_across(local.graph, blocks, boundary) > 0


def equal_stages(stages, batches, transfer, head, budget):
    rows = [Stage(str(k), SCALE, 2 * SCALE, round(head * SCALE)) for k in range(stages)]
    return LocalUpdatesProblem("line", tuple(rows), batches, round(transfer * SCALE), budget)


@pytest.mark.parametrize("seed", range(12))
def test_more_budget_is_never_worse(seed):
    """L4: monotone in the budget; none is 1F1B."""
    problem, _ = planted_local_updates(seed)
    stages = tuple(replace(stage, most=None) for stage in problem.stages)
    problem = replace(problem, stages=stages)
    prices = sum(stage.price for stage in stages)
    free = replace(problem, stages=tuple(replace(s, price=max(1, s.price)) for s in stages))
    found = [best_cuts(replace(free, budget=budget)).value for budget in range(prices + 2)]
    assert found == sorted(found, reverse=True)
    one = chain_of(problem)
    assert found[0] == step_time(one, (), orders(one, ()))


@pytest.mark.parametrize(("stages", "batches", "transfer"), [(3, 4, 0), (5, 8, 0.5), (6, 3, 2)])
def test_every_cut_is_best_where_heads_are_free(stages, batches, transfer):
    """L4: equal stages; with a budget of no cut it is 1F1B, with one of every cut greedy."""
    plain, greedy, _ = times(stages, batches, transfer, 0)
    none = best_cuts(equal_stages(stages, batches, transfer, 0, 0))
    assert (none.value, none.cuts) == (plain, ())
    assert best_cuts(equal_stages(stages, batches, transfer, 0, stages - 1)).value == greedy


def test_many_stages():
    """Forty stages have more sets of boundaries than can be tried."""
    problem = equal_stages(40, 8, 0.5, 0.15, 4)
    plan = best_cuts(problem)
    assert verify_local_updates(problem, plan).value == plan.value
    assert plan.value <= greedy(problem).value


def test_boundaries_that_do_not_exist():
    problem, _ = problem_of(3, 2)
    assert blocks_of(problem) == ("stage 0", "stage 1", "stage 2")
    with pytest.raises(InputError, match="boundaries 0 to 1"):
        with_local_updates(problem, {2}, lambda *_: 1)


def test_gradients_in_two_passes():
    """With the backward split, weight gradients stay behind their input gradients."""
    problem, _ = problem_of(3, 2, joint=False)
    local = with_local_updates(problem, {0, 1}, lambda stage, _: stage + 1, overlapping=True)
    names = {o.name for o in local.graph.operators}
    assert {"A0@0", "A1@1", "X1@0"} <= names
    assert "A2@0" not in names
    assert local.graph.operator("X1@0").options[0].duration_ticks == {"d1": SCALE}
    assert local.fingerprint != problem.fingerprint
    before = local.graph.predecessors
    assert set(before["B0@0"]) == {"F0@0", "A0@0", "X1@0"}
    assert set(before["B1@0"]) == {"F1@0", "A1@0"}
