"""Published examples with published answers."""

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.dispatch import dispatch_order
from milp_plan.kinds.schedule.planners.earliest import dispatch_earliest
from milp_plan.kinds.schedule.planners.priorities import bottom_levels

# Topcuoglu, Hariri, Wu (2002), figure 2: ten tasks on three processors, transfers in the units
# of the computation, no contention.
DURATIONS = {
    1: (14, 16, 9),
    2: (13, 19, 18),
    3: (11, 13, 19),
    4: (13, 8, 17),
    5: (12, 13, 10),
    6: (13, 16, 9),
    7: (7, 15, 11),
    8: (5, 11, 14),
    9: (18, 12, 20),
    10: (21, 7, 16),
}
TRANSFERS = {
    (1, 2): 18,
    (1, 3): 12,
    (1, 4): 9,
    (1, 5): 11,
    (1, 6): 14,
    (2, 8): 19,
    (2, 9): 16,
    (3, 7): 23,
    (4, 8): 27,
    (4, 9): 23,
    (5, 9): 13,
    (6, 8): 15,
    (7, 10): 17,
    (8, 10): 11,
    (9, 10): 13,
}
RANKS = {1: 108, 2: 77, 3: 80, 4: 80, 5: 69, 6: 63.333, 7: 42.667, 8: 35.667, 9: 44.333, 10: 14.667}


def topcuoglu():
    names = ("P1", "P2", "P3")
    return PlanningProblem(
        "topcuoglu",
        ComputationGraph(
            tuple(
                Operator(f"T{task}", (Option("run", dict(zip(names, ticks, strict=True))),))
                for task, ticks in DURATIONS.items()
            ),
            tuple(
                Value(f"{a}-{b}", f"T{a}", (f"T{b}",), {FULL: size})
                for (a, b), size in TRANSFERS.items()
            ),
        ),
        Cluster(
            tuple(DeviceClass(name, None) for name in names),
            tuple(Device(name, name, None) for name in names),
            tuple(Channel(a, b, 0, 10**9) for a in names for b in names if a != b),
            communication=CommunicationModel.DELAY,
        ),
    )


def test_upward_ranks_of_the_paper():
    ranks = bottom_levels(topcuoglu())
    assert ranks == pytest.approx({f"T{task}": rank for task, rank in RANKS.items()}, abs=1e-3)


def test_makespan_of_the_paper():
    problem = topcuoglu()
    plan = PLANNERS["heft"](problem)
    verdict = verify(problem, plan)
    assert verdict.ok
    assert verdict.value == 80


def test_the_paper_s_schedule_is_repeated_in_its_own_order():
    problem = topcuoglu()
    plan = PLANNERS["heft"](problem)
    placements = {run.operator: run.placement for run in plan.runs}
    order = [f"T{task}" for task in (1, 3, 4, 2, 5, 6, 9, 7, 8, 10)]
    again = dispatch_order(problem, placements, order)
    assert again.runs == plan.runs
    assert dispatch_order(problem, placements, order, insertion=False).stop_ticks >= 80


def test_iterated_greedy_is_at_least_as_good_as_heft():
    assert PLANNERS["iterated_greedy"](topcuoglu()).stop_ticks <= 80


def test_graham_s_anomaly_graph_is_list_scheduled_as_published():
    """Graham (1966), figure 1: list T1..T9 on three machines ends at 12."""
    ticks = dict(zip(range(1, 10), (3, 2, 2, 2, 4, 4, 4, 4, 9), strict=True))
    edges = [(1, 9), (4, 5), (4, 6), (4, 7), (4, 8)]
    machines = ("M1", "M2", "M3")
    problem = PlanningProblem(
        "graham",
        ComputationGraph(
            tuple(Operator(f"T{t}", (Option("run", {"M": n}),)) for t, n in ticks.items()),
            tuple(Value(f"{a}-{b}", f"T{a}", (f"T{b}",), {FULL: 0}) for a, b in edges),
        ),
        Cluster(
            (DeviceClass("M", None),),
            tuple(Device(name, "M", None) for name in machines),
            tuple(Channel(a, b, 0, 1) for a in machines for b in machines if a != b),
            communication=CommunicationModel.DELAY,
        ),
    )
    plan = dispatch_earliest(problem, priority=[f"T{t}" for t in ticks])
    assert verify(problem, plan).ok
    assert plan.stop_ticks == 12
