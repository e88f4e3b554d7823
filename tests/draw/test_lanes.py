from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, MissingFacetError, OperatorRun
from milp_plan.kinds.schedule.lanes import Bar, lanes
from tests.report.plans import chain, plan_of_two_devices, star, two_devices


def names(found):
    return [lane.name for lane in found]


def test_the_plans_of_these_tests_are_valid():
    for problem, plan in (
        *((two_devices(model), plan_of_two_devices()) for model in CommunicationModel),
        chain(5),
        star(4),
    ):
        assert verify(problem, plan).violations == ()


def test_a_lane_per_device_and_channel():
    found = lanes(two_devices(), plan_of_two_devices())
    assert names(found.compute) == ["d0", "d1"]
    assert names(found.transfer) == ["d0->d1", "d1->d0"]
    assert found.compute[0].bars == (
        Bar("embed", "forward", 0, 2_000),
        Bar("embed.dx@0", "backward-input", 10_000, 14_000),
    )
    assert found.transfer[0].bars == (Bar("hidden to d1", "transfer", 2_000, 5_000),)
    assert (found.start_ticks, found.stop_ticks) == (0, 14_000)
    assert found.looks == (("backward-input", 0), ("forward", 0), ("transfer", 0))
    assert found.notes == ()


def test_ports_of_the_endpoint_model():
    found = lanes(two_devices(CommunicationModel.ENDPOINT), plan_of_two_devices())
    assert names(found.transfer) == ["send d0", "receive d0", "send d1", "receive d1"]
    assert found.transfer[0].bars == found.transfer[3].bars


def test_transfers_without_contention_are_still_seen():
    found = lanes(two_devices(CommunicationModel.DELAY), plan_of_two_devices())
    assert names(found.transfer) == ["d0->d1", "d1->d0"]
    assert "do not contend" in found.notes[0]


def test_many_channels_become_one_lane_per_sender():
    problem, plan = star(6)
    assert len(lanes(problem, plan, most=5).transfer) == 5
    found = lanes(problem, plan, most=4)
    assert names(found.transfer) == ["from d0"]
    assert len(found.transfer[0].bars) == 5
    assert found.notes == ("5 channels or ports are drawn as one lane per sending device.",)


def test_many_ports_become_one_lane_per_sender():
    problem, plan = star(6)
    cluster = replace(problem.cluster, communication=CommunicationModel.ENDPOINT)
    found = lanes(replace(problem, cluster=cluster), plan, most=5)
    assert names(found.transfer) == ["from d0"]


def test_a_plan_that_starts_before_zero_is_drawn_from_there():
    problem, plan = chain(1)
    runs = (replace(plan.runs[0], start_ticks=-5), *plan.runs[1:])
    assert lanes(problem, replace(plan, runs=runs)).start_ticks == -5


def test_a_plan_without_a_schedule_is_refused():
    plan = replace(plan_of_two_devices(), runs=(OperatorRun("embed", "single", ("d0",)),))
    with pytest.raises(MissingFacetError, match="no schedule"):
        lanes(two_devices(), plan)
