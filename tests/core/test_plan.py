import pytest

from milp_plan.core import (
    CommunicationModel,
    MissingFacetError,
    OperatorRun,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Verdict,
    Violation,
)
from milp_plan.core.schedule import Task, schedule, transfer_resources

from .builders import cluster, graph, operator, value

RUNS = (OperatorRun("a", "o", ("d0",), 0, 10), OperatorRun("b", "o", ("d1",), 20, 30))
PLAN = Plan("p", RUNS, (Transfer("v", ("d0",), ("d1",), "full", 10, 20),))


def test_runs_by_name():
    assert PLAN.run("b") is RUNS[1]
    assert PLAN.run("b").placement == Placement("o", ("d1",))
    with pytest.raises(KeyError):
        PLAN.run("v")


def test_a_schedule_is_there_when_every_time_is():
    assert PLAN.has_schedule
    assert not Plan("p", RUNS, (Transfer("v", ("d0",), ("d1",), "full"),)).has_schedule
    assert not Plan("p", (OperatorRun("a", "o", ("d0",), 0),)).has_schedule


def test_the_stop_of_a_plan_is_that_of_its_last_run():
    assert PLAN.stop_ticks == 30
    assert Plan("p", ()).stop_ticks == Plan("p", (OperatorRun("a", "o", ("d0",)),)).stop_ticks == 0


def test_claims():
    claimed = PLAN.claimed("makespan", 30, "me")
    assert (claimed.objective, claimed.value, claimed.planner) == ("makespan", 30, "me")
    assert claimed.claimed("makespan", 31).planner == "me"
    assert claimed.runs == PLAN.runs


def test_tasks_of_a_schedule_by_time():
    p = PlanningProblem(
        "p", graph([operator("a"), operator("b", kind="loss")], value("v", "a", "b")), cluster()
    )
    turned = Plan("p", RUNS[::-1], PLAN.transfers)
    assert schedule(p, turned) == (
        Task("a", "forward", ("d0",), 0, 10),
        Task("v to d1", "transfer", ("d0->d1",), 10, 20),
        Task("b", "loss", ("d1",), 20, 30),
    )


def test_a_plan_without_schedule_has_no_tasks():
    p = PlanningProblem("p", graph("a"), cluster())
    with pytest.raises(MissingFacetError, match="'a' no times"):
        schedule(p, Plan("p", (OperatorRun("a", "o", ("d0",), 0),)))


@pytest.mark.parametrize(
    ("model", "source", "target", "held"),
    [
        ("channel", ("d0",), ("d1",), ("d0->d1",)),
        ("channel", ("d0", "d1"), ("d1", "d0"), ("d0->d1", "d1->d0")),
        ("channel", ("d0",), ("d0",), ()),
        ("endpoint", ("d0",), ("d1",), ("send d0", "receive d1")),
        ("endpoint", ("d0", "d1"), ("d1",), ("send d0", "receive d1")),
        ("endpoint", ("d0",), ("d0", "d1"), ("send d0", "receive d1")),
        ("delay", ("d0",), ("d1",), ()),
    ],
)
def test_what_a_transfer_holds(model, source, target, held):
    where = cluster(communication=CommunicationModel(model))
    assert transfer_resources(where, source, target) == held


def test_violations_in_words():
    assert str(Violation("memory", ("d0",), "too full", 9, 7)) == (
        "memory: too full (needed 9, available 7)"
    )
    assert str(Violation("claim", (), "wrong")) == "claim: wrong"
    assert Verdict((), "makespan", 3).ok
    assert not Verdict((Violation("claim", (), "wrong"),), "makespan", 3).ok
