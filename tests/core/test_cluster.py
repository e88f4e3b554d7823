import pytest

from milp_plan.core import CommunicationModel, Device, Option, PlanningProblem
from tests.support.problems import random_problem

from .builders import cluster, graph, operator


def test_devices_and_channels_by_name():
    c = cluster()
    assert c.device_names == ("d0", "d1")
    assert c.device("d1").memory_bytes is None
    with pytest.raises(KeyError):
        c.device("d9")
    assert c.channel("d0", "d1").latency_ticks == 2
    assert c.channel("d0", "d0") is None
    assert c.communication is CommunicationModel.CHANNEL


def test_sites_are_devices_or_groups_of_the_size():
    c = cluster(groups=(("d0", "d1"), ("d1", "d0")))
    assert c.sites(1) == (("d0",), ("d1",))
    assert c.sites(2) == (("d0", "d1"), ("d1", "d0"))
    assert c.sites(3) == ()


def test_memory_can_be_set_and_lifted():
    c = cluster().with_memory({"d0": None, "d1": 7})
    assert [d.memory_bytes for d in c.devices] == [None, 7]
    assert cluster().with_memory({}) == cluster()


def test_memory_scale_rounds_down_and_leaves_no_limit_alone():
    p = PlanningProblem("p", graph("a"), cluster())
    assert [d.memory_bytes for d in p.with_memory_scale(1, 3).cluster.devices] == [33, None]


def test_placements_and_durations():
    devices = (Device("d0", "c", None), Device("d1", "k", None))
    classes = (*cluster().device_classes, type(cluster().device_classes[0])("k", None))
    options = (Option("one", {"c": 3}), Option("two", {"c": 3, "k": 9}, gang=2))
    p = PlanningProblem(
        "p", graph([operator("a", *options)]), cluster(devices=devices, device_classes=classes)
    )
    first, second = p.placements("a")
    assert (tuple(first), tuple(second)) == (("one", ("d0",)), ("two", ("d0", "d1")))
    assert (p.duration_ticks("a", first), p.duration_ticks("a", second)) == (3, 9)


def test_unlike_placements_have_every_duration_and_memory():
    for seed in range(30):
        p = random_problem(seed)
        for operator_ in p.graph.operators:
            name = operator_.name
            every, few = p.placements(name), p.unlike_placements(name)
            assert set(few) <= set(every)
            assert _seen(p, name, few) == _seen(p, name, every)


def _seen(p, operator_name, places):
    """What time and memory see of placements."""
    found = set()
    for place in places:
        memory = [p.cluster.device(device).memory_bytes for device in place.devices]
        least = min((limit for limit in memory if limit is not None), default=None)
        found.add((place.option, p.duration_ticks(operator_name, place), least))
    return found
