"""Contraction: every plan of the coarse problem comes back valid and no worse."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    InputError,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.coarsen.contraction import contract
from tests.support.plans import planted, without_times

from .drafts import problem_of, random_clusters, random_plan, single, small_cluster, unlimited


def drafted(seed: int) -> PlanningProblem:
    """A random problem of every communication model, objective and memory law."""
    return unlimited(planted(seed).problem)


@pytest.mark.parametrize("block", range(10))
def test_plans_come_back_valid_and_no_worse(block):
    """Per device memory, busy time of every resource and makespan never grow."""
    tried = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        problem = drafted(seed)
        clusters = random_clusters(problem, rng)
        reduction = contract(problem, clusters, name="test")
        plan = random_plan(reduction.after, rng)
        if plan is None:
            continue
        tried += 1
        coarse = verify(reduction.after, plan)
        assert coarse.ok, (seed, coarse.violations)
        fine = verify(problem, reduction.undo(plan))
        assert fine.ok, (seed, clusters, [str(v) for v in fine.violations])
        for name, amount in fine.components.items():
            assert amount <= coarse.components.get(name, 0), (seed, name, clusters)
    assert tried > 40


def test_plans_without_times_come_back():
    tried = 0
    for seed in range(200):
        rng = random.Random(seed)
        problem = replace(
            drafted(seed), objective=Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC
        )
        reduction = contract(problem, random_clusters(problem, rng), name="test")
        plan = random_plan(reduction.after, rng)
        if plan is not None and reduction.after is not problem:
            tried += 1
            bare = reduction.undo(without_times(plan))
            assert not bare.has_schedule
            assert verify(problem, bare).ok
    assert tried > 100


def test_no_choice_that_fits_is_an_error():
    packed = Option("single", {"fast": 1}, writes={"v": "packed"})
    sizes = {FULL: 1, "packed": 1}
    value = Value("v", "a", ("b",), sizes, reshard_ticks={("packed", FULL): 1})
    problem = problem_of([Operator("a", (packed,)), Operator("b", single(1))], [value])
    with pytest.raises(ValueError, match="fit together"):
        contract(problem, [["a", "b"]], name="test")


def test_cycle_of_clusters_is_an_error():
    operators = [Operator(name, single(1)) for name in "abc"]
    values = [Value("v", "a", ("b",), {FULL: 1}), Value("w", "b", ("c",), {FULL: 1})]
    with pytest.raises(InputError, match="cycle"):
        contract(problem_of(operators, values), [["a", "c"]], name="test")


def test_bundle_adds_up_and_stays_apart_by_readers():
    operators = [Operator(name, single(1)) for name in "abcd"]
    values = [
        Value("v", "a", ("c",), {FULL: 4}, messages=2),
        Value("w", "b", ("c",), {FULL: 3}, transfer_bytes={FULL: 7}),
        Value("x", "b", ("c", "d"), {FULL: 5}),
    ]
    reduction = contract(problem_of(operators, values), [["a", "b"]], name="test")
    bundle, other = reduction.after.graph.values
    assert (bundle.name, bundle.producer, bundle.consumers) == ("v+1", "a+1", ("c",))
    assert (bundle.bytes, bundle.payload(FULL), bundle.messages) == ({FULL: 7}, 11, 3)
    assert (other.name, other.consumers) == ("x", ("c", "d"))


def test_workspace_is_the_peak_of_the_members():
    """a makes v (6) for b, b makes w (4) for c, c makes y (9) for outside; c works in 2."""
    operators = [Operator("a", single(1)), Operator("b", single(1, workspace=1))]
    operators += [Operator("c", single(1, workspace=2)), Operator("d", single(1))]
    values = [
        Value("v", "a", ("b",), {FULL: 6}),
        Value("w", "b", ("c",), {FULL: 4}),
        Value("y", "c", ("d",), {FULL: 9}),
    ]
    after = contract(problem_of(operators, values), [["a", "b", "c"]], name="test").after
    # y counts from the start, 9; a: 6 - 9, b: 6 + 4 + 1 - 9 = 2, c: 4 + 2 = 6
    assert after.graph.operator("a+2").options[0].workspace_bytes == 6


def test_options_of_a_cluster():
    quick = Option("quick", {"fast": 1}, workspace_bytes=5)
    lean = Option("lean", {"fast": 3})
    pair = Option("pair", {"fast": 1}, gang=2)
    operators = [Operator("a", (quick, lean, pair)), Operator("b", (quick, lean, pair))]
    cluster = replace(small_cluster(), groups=(("d0", "d1"),))
    problem = problem_of(operators, [Value("v", "a", ("b",), {FULL: 1})], cluster)
    (merged,) = contract(problem, [["a", "b"]], name="test").after.graph.operators
    assert [(o.name, o.gang, dict(o.duration_ticks)) for o in merged.options] == [
        ("quick", 1, {"fast": 2}),
        ("lean", 1, {"fast": 6}),
        ("pair", 2, {"fast": 2}),
    ]


def test_parts_of_a_sharded_bundle_need_ordered_channels():
    """Of two shards the small one is slow by latency, the large one by bandwidth."""
    pair = Option("pair", {"fast": 1}, gang=2)
    sizes = {FULL: 2, "half": 1}
    values = [Value(name, "a", ("b",), sizes) for name in ("v", "w")]
    writes = replace(pair, writes={"v": "half", "w": "half"})
    reads = replace(pair, reads={"v": "half", "w": "half"})
    operators = [Operator("a", (writes,)), Operator("b", (reads,))]
    base = small_cluster(4)
    uneven = [
        Channel(c.source, c.target, 9, 10**12) if c.target == "d3" else c for c in base.channels
    ]
    groups = (("d0", "d1"), ("d2", "d3"))
    for channels, bundles in ((base.channels, 1), (tuple(uneven), 2)):
        problem = problem_of(operators, values, replace(base, groups=groups, channels=channels))
        assert len(contract(problem, [], name="test").after.graph.values) == bundles


def test_joined_groups():
    operators = [Operator(n, single(1), group=g) for n, g in zip("abcd", "ghgh", strict=True)]
    values = [Value("v", "a", ("b",), {FULL: 1})]
    after = contract(problem_of(operators, values), [["a", "b"]], name="test").after
    assert [op.group for op in after.graph.operators] == ["g", "g", "g"]
