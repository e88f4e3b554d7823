"""Plans outlive their problem: what they decide is kept, times and values are recomputed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from milp_plan.core import InputError, Objective
from milp_plan.core.schedule import transfer_resources
from milp_plan.run import Settings, kind_of, solve
from milp_plan.run.restart import make_start
from tests.support.every_kind import DRAWN, measured_anew
from tests.support.memory_saving import planted_memory_saving
from tests.support.seeds import few

SEEDS = 20
QUICK = Settings(time_limit_s=30.0, node_limit=200, rounds=0)
CASES = [(name, seed) for seed in range(SEEDS) for name in DRAWN]


def quick(problem, **changes):
    """Settings that mean something for the problem."""
    return solve(problem, replace(QUICK, rounds=None, **changes))


def orders(problem, plan):
    """What each device and channel does, in order; ties by length and name."""
    rows = defaultdict(list)
    for run in plan.runs:
        for device in run.devices:
            rows[device].append((run.start_ticks, run.stop_ticks, run.operator))
    for trip in plan.transfers:
        name = f"{trip.value} in {trip.layout} to {trip.target}"
        for held in transfer_resources(problem.cluster, trip.source, trip.target):
            rows[held].append((trip.start_ticks, trip.stop_ticks, name))
    return {key: [name for *_, name in sorted(row)] for key, row in rows.items()}


def lasting(problem, plan):
    """The same without what takes no time: its place among others means nothing."""
    kept = replace(
        plan,
        runs=tuple(run for run in plan.runs if run.stop_ticks != run.start_ticks),
        transfers=tuple(trip for trip in plan.transfers if trip.stop_ticks != trip.start_ticks),
    )
    return orders(problem, kept)


def by_hand(problem, plan):
    """Earliest starts in the order of a plan: rounds of relaxation until nothing changes.

    It shares no code with what is tested: a task starts when its inputs and all that come before it
    on what it holds have stopped.
    """
    graph = problem.graph
    tasks, held, before = {}, {}, defaultdict(set)
    for run in plan.runs:
        tasks[run.operator] = run.stop_ticks - run.start_ticks
        held[run.operator] = run.devices
    for trip in plan.transfers:
        name = (trip.value, trip.target, trip.layout)
        tasks[name] = trip.stop_ticks - trip.start_ticks
        held[name] = transfer_resources(problem.cluster, trip.source, trip.target)
        before[name].add(graph.value(trip.value).producer)
    runs = {run.operator: run for run in plan.runs}
    for value in graph.values:
        for reader in value.consumers if value.producer is not None else ():
            before[reader].add(value.producer)
            for trip in plan.transfers:
                wanted = graph.operator(reader).option(runs[reader].option)
                here = trip.value == value.name and set(trip.target) <= set(runs[reader].devices)
                if here and wanted.layout_read(value.name) == trip.layout:
                    before[reader].add((trip.value, trip.target, trip.layout))
    starts = {run.operator: run.start_ticks for run in plan.runs}
    starts |= {(t.value, t.target, t.layout): t.start_ticks for t in plan.transfers}
    rank = {
        name: place
        for place, name in enumerate(sorted(tasks, key=lambda n: (starts[n], starts[n] + tasks[n])))
    }
    for a in tasks:
        for b in tasks:
            if a != b and set(held[a]) & set(held[b]) and rank[a] < rank[b]:
                before[b].add(a)
    found = dict.fromkeys(tasks, 0)
    for _ in tasks:
        for name in tasks:
            found[name] = max([found[p] + tasks[p] for p in before[name]], default=0)
    return found, starts


@pytest.mark.parametrize("case", few(CASES, 2 * len(DRAWN)), ids=lambda c: f"{c[0]}-{c[1]}")
def test_a_plan_of_other_costs_is_a_start(case):
    """Whatever the kind: accepted, valid, and never worse than what was made of it."""
    name, seed = case
    problem = DRAWN[name](seed)
    old = quick(problem).plan
    other = None if old is None else measured_anew(name, problem, seed)
    if other is None:
        return
    kind = kind_of(other)
    found = make_start(kind, other, old)
    outcome = quick(other, start=old)
    assert outcome.record["start"]
    if found.plan is None:
        assert found.note.startswith("not used: "), found.note
        assert kind.obstacle(other, None) is None or outcome.plan is None
        return
    verdict = kind.verify(other, found.plan)
    assert verdict.ok
    assert outcome.value is not None
    assert outcome.value <= verdict.value
    assert (outcome.record["start"] == "valid as it is") == (not found.note)


def places_alone(plan):
    """The plan without times and transfers, operators in the order of their starts."""
    runs = sorted(plan.runs, key=lambda run: (run.start_ticks, run.stop_ticks))
    bare = tuple(replace(run, start_ticks=None, stop_ticks=None) for run in runs)
    return replace(plan, runs=bare, transfers=(), value=None, fingerprint=None, objective=None)


@pytest.mark.parametrize("seed", few(range(300), 40))
def test_orders_are_kept_and_nothing_can_start_earlier(seed):
    problem = DRAWN["schedule"](seed)
    if not problem.needs_schedule or problem.objective is Objective.PEAK_MEMORY:
        return
    old = quick(problem).plan
    other = None if old is None else measured_anew("schedule", problem, seed)
    if other is None:
        return
    kind = kind_of(other)
    found = make_start(kind, other, old)
    if found.plan is None or "memory" in found.note or "cannot" in found.note or not found.note:
        return
    assert found.note.startswith("times recomputed: ")
    earliest, starts = by_hand(other, found.plan)
    assert earliest == starts
    before, after = lasting(problem, old), lasting(other, found.plan)
    for place, row in before.items():
        both = set(row) & set(after.get(place, ()))
        assert [n for n in row if n in both] == [n for n in after.get(place, ()) if n in both]


@pytest.mark.parametrize("seed", few(range(300), 30))
def test_places_and_order_alone_are_a_start(seed):
    problem = DRAWN["schedule"](seed)
    old = quick(problem)
    if old.plan is None or not problem.needs_schedule or len(problem.graph.operators) > 12:
        return
    found = make_start(kind_of(problem), problem, places_alone(old.plan))
    limited = any(d.memory_bytes is not None for d in problem.cluster.devices)
    assert found.plan is not None or limited
    if found.plan is not None and not limited:
        assert found.note == "times recomputed: the plan has places and order alone"
        assert {r.operator: r.placement for r in found.plan.runs} == {
            r.operator: r.placement for r in old.plan.runs
        }


@pytest.mark.parametrize("seed", few(range(200), 40))
def test_runs_again_and_values_on_hosts_are_timed_again(seed):
    """Where memory binds, what had left it before something came still does: all are valid."""
    planted = planted_memory_saving(seed)
    other = measured_anew("schedule", planted.problem, seed)
    found = make_start(kind_of(other), other, planted.plan)
    assert found.plan is not None, found.note
    assert found.note.startswith("times recomputed: ")
    if "runs once" not in found.note:
        assert sorted(r.operator for r in found.plan.runs) == sorted(
            r.operator for r in planted.plan.runs
        )


@pytest.mark.parametrize("name", sorted(DRAWN.keys() - {"training", "serving"}))
def test_what_is_renamed_or_missing_is_named(name):
    """Plans of training and serving name nothing of their problem."""
    problem, old = next(
        (problem, plan)
        for seed in range(20)
        for problem in [DRAWN[name](seed)]
        for plan in [quick(problem).plan]
        if plan is not None and (name != "local-updates" or plan.cuts)
    )
    kind = kind_of(problem)
    changed = {
        "schedule": lambda: replace(
            old, runs=(replace(old.runs[0], operator="other"), *old.runs[1:])
        ),
        "jobs": lambda: replace(old, runs=(replace(old.runs[0], job="other"), *old.runs[1:])),
        "rematerialisation": lambda: replace(
            old, runs=tuple("other" if run == old.runs[0] else run for run in old.runs)
        ),
        "resharding": lambda: replace(
            old, deliveries=(replace(old.deliveries[0], slice="other"), *old.deliveries[1:])
        ),
        "local-updates": lambda: replace(old, cuts=("other", *old.cuts[1:])),
        "packing": lambda: replace(
            old,
            places=(
                replace(old.places[0], buffer=replace(old.places[0].buffer, name="other")),
                *old.places[1:],
            ),
        ),
        "hybrid": lambda: replace(
            old,
            stages=(
                replace(
                    old.stages[0],
                    choices=(
                        replace(old.stages[0].choices[0], layer="other"),
                        *old.stages[0].choices[1:],
                    ),
                ),
                *old.stages[1:],
            ),
        ),
    }
    if name == "sharding":  # its plans name nothing, but there is one choice for each operator
        with pytest.raises(InputError, match="choices for"):
            make_start(kind, problem, replace(old, chosen=old.chosen[:-1]))
        return
    with pytest.raises(InputError) as caught:
        make_start(kind, problem, changed["schedule" if name == "serial" else name]())
    assert "'other'" in str(caught.value)
    assert name == "local-updates" or "no '" in str(caught.value)
