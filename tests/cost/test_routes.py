"""Routes of values: the supply and transfer laws of docs/laws.md, case by case."""

import pytest

from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    Placement,
    PlanningProblem,
    Value,
)
from milp_plan.cost.routes import Route, route_between, routes

# a byte a tick; a-b fast, to and from c slower, d hears nobody, e hears only d
LATENCY = {("a", "b"): 1, ("b", "a"): 1, ("a", "c"): 5, ("b", "c"): 3, ("c", "a"): 5, ("d", "e"): 1}
VALUE = Value(
    "x",
    "make",
    ("use",),
    {"full": 20, "half": 10, "other": 10},
    reshard_ticks={("half", "full"): 7, ("full", "half"): 0},
)


def problem(communication: CommunicationModel = CommunicationModel.CHANNEL) -> PlanningProblem:
    names = ("a", "b", "c", "d", "e")
    options = (
        Option("whole", {"any": 1}),
        Option("halves", {"any": 1}, gang=2),
    )
    made = tuple(
        Option(o.name, o.duration_ticks, o.gang, writes={"x": "half"} if o.gang == 2 else {})
        for o in options
    )
    read = tuple(
        Option(o.name, o.duration_ticks, o.gang, reads={"x": "half"} if o.gang == 2 else {})
        for o in options
    )
    return PlanningProblem(
        "routes",
        ComputationGraph((Operator("make", made), Operator("use", read)), (VALUE,)),
        Cluster(
            (DeviceClass("any", None),),
            tuple(Device(name, "any", None) for name in names),
            tuple(Channel(*ends, latency, 10**9) for ends, latency in LATENCY.items()),
            (("a", "b"), ("b", "a"), ("c", "d"), ("d", "e")),
            communication,
        ),
    )


def between(source: str, before: str, target: str, after: str) -> tuple[Route, ...] | None:
    return route_between(problem(), VALUE, (tuple(source), before), (tuple(target), after))


@pytest.mark.parametrize(
    ("source", "before", "target", "after"),
    [("a", "full", "a", "full"), ("ab", "full", "b", "full"), ("ab", "half", "ab", "half")],
)
def test_native_copies_serve(source, before, target, after):
    assert between(source, before, target, after) == ()


def test_one_send_for_each_device_without_the_value():
    found = between("a", "full", "abc", "full")
    assert found is not None
    assert [(r.source, r.target, r.duration_ticks) for r in found] == [
        (("a",), ("b",), 21),
        (("a",), ("c",), 25),
    ]
    assert found[0].resources == ("a->b",)
    assert found[0].key == ("x", ("b",), "full")


def test_send_takes_the_fastest_source():
    (route,) = between("ab", "full", "c", "full") or ()
    assert (route.source, route.duration_ticks) == (("b",), 23)


@pytest.mark.parametrize(
    ("source", "before", "target", "after", "ticks"),
    [
        ("ab", "half", "a", "full", 7),  # gather among the devices that hold the shards
        ("ab", "full", "ab", "half", 0),  # each keeps its part
        ("ab", "half", "c", "full", 7 + 23),  # gather, then the quickest way out
        ("a", "full", "ab", "half", 0 + 11),  # the part that moves
        ("ab", "half", "ba", "half", 11),  # shards change places
        ("ab", "half", "cb", "half", 15),  # one of them moves
    ],
)
def test_reshards(source, before, target, after, ticks):
    (route,) = between(source, before, target, after) or ()
    assert (route.source, route.target, route.layout) == (tuple(source), tuple(target), after)
    assert route.duration_ticks == ticks


@pytest.mark.parametrize(
    ("source", "before", "target", "after"),
    [
        ("a", "full", "d", "full"),  # no channel
        ("a", "full", "bd", "full"),  # no channel to one of them
        ("ab", "half", "ab", "other"),  # no such change
        ("ab", "half", "cd", "half"),  # no channel for one shard
        ("ab", "half", "d", "full"),  # change allowed, move not
    ],
)
def test_no_way(source, before, target, after):
    assert between(source, before, target, after) is None


def test_layouts_come_from_the_options():
    made, read = Placement("halves", ("a", "b")), Placement("whole", ("a",))
    (route,) = routes(problem(), VALUE, made, "use", read) or ()
    assert (route.layout, route.duration_ticks) == ("full", 7)


def test_ports_and_delays():
    def held(model: CommunicationModel) -> tuple[str, ...]:
        ends = (("a",), "full"), (("a", "b"), "half")
        (route,) = route_between(problem(model), VALUE, *ends) or ()
        return route.resources

    assert held(CommunicationModel.CHANNEL) == ("a->b",)
    assert held(CommunicationModel.ENDPOINT) == ("send a", "receive b")
    assert held(CommunicationModel.DELAY) == ()
