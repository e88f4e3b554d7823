"""Times from forks to joins, against enumeration and against plans."""

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, frame_of
from milp_plan.kinds.schedule.bounds.region_times import region_times
from milp_plan.kinds.schedule.bounds.regions import find_regions
from milp_plan.kinds.schedule.bounds.tight import Known, tight_windows
from milp_plan.kinds.schedule.bounds.view import Array, Separations, View
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from tests.support.brute import brute_force
from tests.support.forks import random_fork
from tests.support.problems import random_problem
from tests.support.training_graphs import random_training

from .samples import cluster, operator, problem, value

pytestmark = pytest.mark.untraced

TINY = [(2, False, 3), (3, False, 2), (4, False, 1), (2, True, 1), (5, False, 1), (2, True, 2)]
"""Branches, whether there is a way back, operators of a branch."""


def times_of(p: PlanningProblem) -> tuple[Array, Separations]:
    plain = Separations(View(frame_of(p), backward=False), Budget())
    return region_times(plain, list(find_regions(plain, Budget())), Budget()), plain


def bound_of(p: PlanningProblem) -> int:
    """Longest window with regions known, whatever the size of the graph."""
    times, plain = times_of(p)
    windows = tight_windows(plain.view.frame, Budget(), Known(plain.view.frame, times, 1))
    return max(windows.span(number) for number in range(len(windows.heads)))


def fork(seed: int) -> PlanningProblem:
    branches, back, longest = TINY[seed % len(TINY)]
    return random_fork(seed, branches, back=back, longest=longest)


def never_above(seeds: range, most: int) -> tuple[int, int]:
    """Compare with optima of graphs up to a size; how many were compared, and how many were met."""
    compared = met = 0
    for seed in seeds:
        p = fork(seed)
        if len(p.graph.operators) > most or frame_of(p).obstacle is not None:
            continue
        found = brute_force(p)
        if found is not None:
            bound = bound_of(p)
            assert bound <= found[0], seed
            compared += 1
            met += bound == found[0]
    return compared, met


def test_never_above_the_optimum():
    compared, met = never_above(range(60), 6)
    assert compared >= 20
    assert met > 0.8 * compared


@pytest.mark.slow
def test_never_above_the_optimum_of_many():
    compared, _ = never_above(range(1000, 5000), 7)
    assert compared > 2000


def test_never_above_the_optimum_of_any_graph():
    compared = 0
    for seed in range(40):
        p = random_problem(seed, objective=Objective.MAKESPAN, max_operators=6)
        if frame_of(p).obstacle is None and frame_of(p).single:
            found = brute_force(p)
            assert found is not None
            assert bound_of(p) <= found[0], seed
            compared += 1
    assert compared > 15


def hold_in_plans(p: PlanningProblem) -> int:
    """Compare each time with plans; how many say more than the paths do."""
    times, plain = times_of(p)
    raised = int((times > plain.through - plain.view.durations[:, None])[times >= 0].sum())
    for planner in ("list_critical_path", "single_device", "etf_memory"):
        plan = PLANNERS[planner](p, seed=0)
        if plan is None:
            continue
        assert verify(p, plan).ok
        schedule = {run.operator: run for run in plan.runs}
        ordered = [schedule[name] for name in frame_of(p).names]
        start = np.array([run.start_ticks for run in ordered], dtype=np.int64)
        stop = np.array([run.stop_ticks for run in ordered], dtype=np.int64)
        assert (times <= start[None, :] - stop[:, None]).all(), p.name
    return raised


def test_times_hold_in_plans():
    raised = 0
    for seed in range(40):
        p = random_fork(seed, 3 + seed % 3, back=seed % 2 == 0, longest=3)
        if frame_of(p).obstacle is None:
            raised += hold_in_plans(p)
    raised += sum(
        hold_in_plans(random_training(seed, 8, branches=6, most_devices=4)) for seed in range(4)
    )
    assert raised > 30


def test_a_router_sends_one_value_after_the_other():
    # By channels of their own all experts get their values at once. With one port after 3, 6, 9 ...
    # ticks: best two stay with the router (40 + 3) and the last of eight is where all is combined.
    experts = [f"e{k}" for k in range(10)]
    operators = [operator("r", 1), *(operator(name, 20) for name in experts), operator("c", 1)]
    values = [
        *(value(f"to {name}", "r", name, 3) for name in experts),
        *(value(f"from {name}", name, "c", 3) for name in experts),
    ]
    found = {}
    for model in (CommunicationModel.CHANNEL, CommunicationModel.ENDPOINT):
        p = problem(operators, values, cluster([None] * 10, communication=model))
        found[model] = max(bound.value for bound in all_bounds(p))
    assert found[CommunicationModel.CHANNEL] == 1 + 3 + 20 + 3 + 1
    assert found[CommunicationModel.ENDPOINT] == 1 + 8 * 3 + 20 + 1


def test_groups_stay_where_they_are():
    # Out, branches on two devices take 10 + 1; back, they take 10 on one device, or 30 apart.
    names = ["f", "a", "b", "j", "J", "A", "B", "F", *(f"t{k}" for k in range(4))]
    ticks = dict.fromkeys(names, 0) | {"a": 10, "b": 10, "A": 5, "B": 5}
    group = {"a": "a", "A": "a", "b": "b", "B": "b"}
    operators = [operator(name, ticks[name], group.get(name)) for name in names]
    edges = [
        ("f", "a", 0),
        ("f", "b", 0),
        ("a", "j", 1),
        ("b", "j", 1),
        ("j", "J", 0),
        ("J", "A", 30),
        ("J", "B", 30),
        ("A", "F", 0),
        ("B", "F", 0),
    ]
    values = [value(f"{a}{b}", a, b, number) for a, b, number in edges]
    values += [value(f"t{k}", "F" if k == 0 else f"t{k - 1}", f"t{k}") for k in range(4)]
    p = problem(operators, values, cluster(communication=CommunicationModel.DELAY))
    # Together 20 + 10; apart 11 + 35; each way at its best: 11 + 10.
    assert max(bound.value for bound in all_bounds(p)) == 30
