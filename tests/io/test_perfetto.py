import gzip
import json
from dataclasses import replace

import pytest

from milp_plan import io
from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MissingFacetError,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Units,
    Value,
)

NANOSECONDS = Units()


def case(model=CommunicationModel.CHANNEL, units=NANOSECONDS):
    graph = ComputationGraph(
        (
            Operator("a", (Option("o", {"C": 2000}),), "forward"),
            Operator("b", (Option("o", {"C": 500}),), "update"),
        ),
        (Value("x", "a", ("b",), {"full": 1000}),),
    )
    cluster = Cluster(
        (DeviceClass("C", None),),
        (Device("d0", "C", None), Device("d1", "C", None)),
        (Channel("d0", "d1", 0, 10**9),),
        (),
        model,
    )
    plan = Plan(
        "p",
        (OperatorRun("a", "o", ("d0",), 0, 2000), OperatorRun("b", "o", ("d1",), 3000, 3500)),
        (Transfer("x", ("d0",), ("d1",), "full", 2000, 3000),),
    )
    return PlanningProblem("p", graph, cluster, units=units), plan


def lanes(trace):
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    return [
        (names[event["pid"], event["tid"]], event["name"], event["ts"], event["dur"])
        for event in trace["traceEvents"]
        if event["ph"] == "X"
    ]


def test_lanes_of_devices_and_channels():
    trace = io.trace(*case())
    assert lanes(trace) == [
        ("d0", "a", 0.0, 2.0),
        ("d0->d1", "x to d1", 2.0, 1.0),
        ("d1", "b", 3.0, 0.5),
    ]
    kinds = [event["cat"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert kinds == ["forward", "transfer", "update"]


def test_ports_are_lanes_of_their_own():
    found = [entry[0] for entry in lanes(io.trace(*case(CommunicationModel.ENDPOINT)))]
    assert found == ["d0", "send d0", "receive d1", "d1"]


def test_transfers_that_hold_nothing_are_asynchronous():
    events = io.trace(*case(CommunicationModel.DELAY))["traceEvents"]
    begin, end = (event for event in events if event["ph"] in "be")
    assert (begin["ph"], begin["ts"], end["ph"], end["ts"]) == ("b", 2.0, "e", 3.0)
    assert (begin["id"], begin["cat"], begin["name"]) == (end["id"], end["cat"], end["name"])


def test_units_of_the_source():
    trace = io.trace(*case(units=Units("ms", "bytes", 1000)))
    assert lanes(trace)[0] == ("d0", "a", 0.0, 2000.0)


def test_memory_counters_and_file(tmp_path):
    problem, plan = case()
    path = tmp_path / "trace.json.gz"
    io.write_trace(problem, plan, path, {"d0": [(0, 1000), (3000, 0)]})
    trace = json.loads(gzip.decompress(path.read_bytes()))
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert [(c["name"], c["ts"], c["args"]) for c in counters] == [
        ("memory d0", 0.0, {"bytes": 1000}),
        ("memory d0", 3.0, {"bytes": 0}),
    ]
    assert trace["otherData"]["problem"] == "p"
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid"} <= set(event)
        assert event["ph"] == "M" or event["ts"] >= 0


def test_a_plan_without_times_has_no_trace():
    problem, plan = case()
    untimed = tuple(replace(run, start_ns=None) for run in plan.runs)
    with pytest.raises(MissingFacetError):
        io.trace(problem, replace(plan, runs=untimed))
