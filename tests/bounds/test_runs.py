"""Runs along a spine and times near forks, against enumeration and against plans."""

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective, Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, frame_of
from milp_plan.kinds.schedule.bounds.milestones import with_milestones
from milp_plan.kinds.schedule.bounds.neighbourhoods import neighbourhood_times
from milp_plan.kinds.schedule.bounds.run_choices import thin
from milp_plan.kinds.schedule.bounds.runs import run_bounds
from milp_plan.kinds.schedule.bounds.tight import tight_windows
from milp_plan.kinds.schedule.bounds.view import Separations, View
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from tests.support.brute import brute_force
from tests.support.problems import random_problem
from tests.support.training_graphs import random_training

from .samples import cluster, operator, problem, value

pytestmark = pytest.mark.untraced

TINY = [(2, 1, 1), (3, 1, 0), (2, 2, 0), (2, 1, 0), (2, 1, 1), (4, 1, 0)]
"""Layers, micro-batches, branches."""
LARGE = [(14, 1, 0), (16, 1, 3), (10, 2, 1), (7, 3, 1), (18, 1, 6), (12, 2, 3)]


def runs(p: PlanningProblem) -> list[Bound]:
    frame = frame_of(p)
    windows = tight_windows(with_milestones(frame), Budget())
    return list(run_bounds(frame, windows, Budget(), (1, None)))


def plans(p: PlanningProblem, names: tuple[str, ...]) -> list[tuple[Plan, int]]:
    found = []
    for name in names:
        plan = PLANNERS[name](p, seed=0)
        assert plan is not None
        verdict = verify(p, plan)
        assert verdict.ok
        assert verdict.value is not None
        found.append((plan, verdict.value))
    return found


def check_tiny(seeds: range) -> int:
    compared = 0
    for seed in seeds:
        layers, batches, branches = TINY[seed % len(TINY)]
        p = random_training(seed, layers, batches=batches, branches=branches)
        found = brute_force(p) if len(p.graph.operators) <= 9 else None
        if found is not None:
            for bound in runs(p):
                assert bound.value <= found[0], (seed, bound)
                compared += 1
    return compared


def test_no_run_exceeds_the_optimum():
    assert check_tiny(range(20)) > 10


def check_any(seeds: range) -> int:
    """Problems with options, layouts, memory laws; one-device states are what runs are made of."""
    compared = 0
    for seed in seeds:
        for scale in ((1, 1), (3, 4), (1, 2)):
            p = random_problem(seed, objective=Objective.MAKESPAN).with_memory_scale(*scale)
            frame = frame_of(p)
            if frame.obstacle is not None or not frame.single:
                continue
            found = brute_force(p)
            if found is not None:
                for bound in runs(p):
                    assert bound.value <= found[0], (seed, scale, bound)
                    compared += 1
    return compared


def test_no_run_exceeds_the_optimum_with_options_and_memory():
    assert check_any(range(14)) > 8


@pytest.mark.slow
def test_no_run_exceeds_the_optimum_with_options_and_memory_of_many():
    assert check_any(range(1000, 1500)) > 200


def test_values_that_skip_a_cut_cross_as_well():
    # Weights keep a + b apart from c + d. Cut a run behind b: v crosses in 1, but w, from a, in 6.
    operators = [operator(name, 2) for name in "abcd"]
    values = [
        value("v0", "a", "b", 9),
        value("v1", "b", "c", 1),
        value("v2", "c", "d", 9),
        value("w", "a", "d", 9),
        *(value(f"weights {name}", None, name, 50) for name in "abcd"),
    ]
    machines = cluster([120] * 2, communication=CommunicationModel.DELAY)
    p = problem(operators, values, machines)
    found = brute_force(p)
    assert found is not None
    assert found[0] == 13 == max(bound.value for bound in runs(p))


@pytest.mark.slow
def test_no_run_exceeds_the_optimum_of_many():
    assert check_tiny(range(1000, 3000)) > 1000


def test_no_run_exceeds_a_plan():
    compared = 0
    for seed in range(4):
        layers, batches, branches = LARGE[seed % len(LARGE)]
        p = random_training(seed, layers, batches=batches, branches=branches, most_devices=6)
        least = min(v for _, v in plans(p, ("list_critical_path", "single_device")))
        found = runs(p)
        assert all(bound.value <= least for bound in found), seed
        compared += len(found)
    assert compared >= 4


def test_times_near_forks_hold_in_plans():
    raised = 0
    for seed in range(6):
        p = random_training(seed, 8, branches=6, most_devices=4)
        plain = Separations(View(frame_of(p), backward=False), Budget())
        times = neighbourhood_times(plain, Budget())
        paths = plain.through - plain.view.durations[:, None]
        raised += int((times > np.maximum(paths, 0)).sum())
        for plan, _ in plans(p, ("list_critical_path", "single_device")):
            schedule = {run.operator: run for run in plan.runs}
            ordered = [schedule[name] for name in frame_of(p).names]
            start = np.array([run.start_ticks for run in ordered], dtype=np.int64)
            stop = np.array([run.stop_ticks for run in ordered], dtype=np.int64)
            assert (times <= start[None, :] - stop[:, None]).all(), seed
    assert raised > 10


def test_weight_gradients_wait_for_what_comes_back():
    # Cut behind the first layer: it runs 2 + 4 when the others come back at 12, and these run 16
    # from 3 on. Other cuts, or none, are longer.
    operators, values = [], []
    for k in range(3):
        operators += [
            operator(f"{k}.{x}", t, f"{k}") for x, t in zip("FBW", (2, 2, 4), strict=True)
        ]
        later = f" {k + 1}.F {k + 1}.W" if k < 2 else ""
        values.append(value(f"x{k}", f"{k}.F", f"{k}.B{later}", 1))
        if k:
            values.append(value(f"g{k}", f"{k}.B", f"{k - 1}.B {k - 1}.W", 1))
    machines = cluster([None] * 3, communication=CommunicationModel.DELAY)
    p = problem(operators, values, machines)
    found = brute_force(p)
    assert found is not None
    assert found[0] == 19 == max(bound.value for bound in runs(p))
    assert max(bound.value for bound in all_bounds(p)) < 19


def test_thinning_keeps_what_is_below_every_row():
    rng = np.random.default_rng(5)
    for most in (1, 3, 8):
        rows = rng.integers(0, 9, (40, 6))
        kept = rows.copy()
        count = thin(kept, len(kept), most)
        assert 0 < count <= most
        for row in rows:
            assert (kept[:count] <= row).all(axis=1).any()
