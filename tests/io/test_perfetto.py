import gzip
import json
from dataclasses import replace
from itertools import pairwise

import pytest

from milp_plan.check import verify
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
from milp_plan.io.files import write_document
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import times
from milp_plan.kinds.schedule.perfetto import trace as trace_of
from milp_plan.kinds.schedule.perfetto import trace_text
from tests.support.memory_saving import HOST, planted_memory_saving

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
    """Device, thread, name, start and length of every box."""
    names = {}
    for event in trace["traceEvents"]:
        if event["name"] in ("process_name", "thread_name"):
            names[event["pid"], event.get("tid")] = event["args"]["name"]
    return [
        (
            names[event["pid"], None],
            names[event["pid"], event["tid"]],
            event["name"],
            event["ts"],
            event["dur"],
        )
        for event in trace["traceEvents"]
        if event["ph"] == "X"
    ]


def arrows(trace):
    """Where each flow starts and ends: device number, thread number, time."""
    ends = {}
    for event in trace["traceEvents"]:
        if event["ph"] in ("s", "f"):
            end = (event["pid"], event["tid"], event["ts"])
            ends.setdefault(event["id"], {})[event["ph"]] = end
    return [(end["s"], end["f"]) for end in ends.values()]


@pytest.mark.parametrize("model", list(CommunicationModel))
def test_a_device_is_a_process_that_computes_sends_and_receives(model):
    trace = trace_of(*case(model))
    assert lanes(trace) == [
        ("d0", "compute", "a", 0.0, 2.0),
        ("d0", "send", "x to d1", 2.0, 1.0),
        ("d1", "receive", "x to d1", 2.0, 1.0),
        ("d1", "compute", "b", 3.0, 0.5),
    ]
    boxes = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [box["cat"] for box in boxes] == ["forward", "transfer", "transfer", "update"]
    assert [box["tid"] for box in boxes] == [0, 1, 2, 0]
    assert arrows(trace) == [((0, 1, 2.0), (1, 0, 3.0))]
    order = [e["args"]["sort_index"] for e in trace["traceEvents"] if "sort_index" in e["name"]]
    assert order == [0, 1, 0, 1, 2, 3]


def pipeline(family="v", **options):
    """A pipeline whose transfers hold nothing, and its plan: all forwards first."""
    template, _ = uniform(2, 3, chunks=2, transfer=5, **options)
    problem = pipeline_problem("pipe", template, place(family, 2))
    shop = shop_of(problem)
    words = [
        [k for letter in "FBW" for k in kinds if shop.kinds[k].name[0] == letter for _ in range(3)]
        for kinds in shop.on_machine
    ]
    plan = shop.plan(times(shop, words), "test")
    assert verify(problem, plan).ok
    return problem, plan


def test_boxes_say_stage_micro_batch_and_kind():
    trace = trace_of(*pipeline())
    boxes = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
    reported = {key: boxes["B2@1"]["args"][key] for key in ("kind", "stage", "micro-batch")}
    assert reported == {"kind": "backward-input", "stage": "stage 2", "micro-batch": 1}
    trip = boxes["y0@2 to d1"]["args"]
    assert (trip["kind"], trip["stage"], trip["micro-batch"]) == ("transfer", "stage 0", 2)
    assert (trip["source"], trip["target"], trip["layout"]) == ("d0", "d1", "full")
    assert int(trip["stop"]) - int(trip["start"]) == 5 * 2


def test_boxes_of_a_thread_never_overlap_and_every_transfer_has_an_arrow():
    problem, plan = pipeline()
    trace = trace_of(problem, plan)
    threads = {}
    for device, thread, _, start, length in lanes(trace):
        threads.setdefault((device, thread), []).append((start, start + length))
    assert {"compute", "send", "send 2", "receive 2"} <= {thread for _, thread in threads}
    assert not any("compute 2" in thread for thread in threads)
    for boxes in threads.values():
        boxes.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(boxes))
    assert len(arrows(trace)) == len(plan.transfers)
    boxes = {
        (event["pid"], event["tid"], event["ts"]): event["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "X"
    }
    heads = {boxes[end] for _, end in arrows(trace)}
    assert {f"F1@{n}" for n in range(3)} <= heads
    for tail, end in arrows(trace):
        value = boxes[tail].split(" to ")[0]
        assert boxes[end] in problem.graph.value(value).consumers


@pytest.mark.parametrize(("here", "there"), [("d0", "host-d0"), ("host-d0", "d0")])
def test_journeys_between_a_device_and_its_host_are_offload(here, there):
    problem, plan = case()
    names = {"d0": here, "d1": there}
    devices = tuple(replace(d, name=names[d.name]) for d in problem.cluster.devices)
    channels = (Channel(here, there, 0, 10**9),)
    cluster = replace(problem.cluster, devices=devices, channels=channels)
    runs = tuple(replace(run, devices=(names[run.devices[0]],)) for run in plan.runs)
    trips = tuple(replace(trip, source=(here,), target=(there,)) for trip in plan.transfers)
    moved = replace(plan, runs=runs, transfers=trips)
    problem = replace(problem, cluster=cluster)
    assert verify(problem, moved).ok
    assert lanes(trace_of(problem, moved)) == [
        (here, "compute", "a", 0.0, 2.0),
        ("d0", "offload", f"x to {there}", 2.0, 1.0),
        (there, "compute", "b", 3.0, 0.5),
    ]


def test_a_broken_plan_is_drawn_too():
    problem, plan = case()
    twice = OperatorRun("b", "no such", ("d0",), 1000, 1500)
    unread = replace(plan.transfers[0], target=("d0",), source=("d1",))
    lost = Transfer("no such", ("d0",), ("d0",), "full", 0, 1000)
    broken = replace(plan, runs=(*plan.runs, twice), transfers=(*plan.transfers, lost, unread))
    found = lanes(trace_of(problem, broken))
    assert ("d0", "compute 2", "b", 1.0, 0.5) in found
    assert not any("no such" in name for _, _, name, *_ in found)


def test_units_of_the_source():
    trace = trace_of(*case(units=Units("ms", "bytes", 1000)))
    assert lanes(trace)[0] == ("d0", "compute", "a", 0.0, 2000.0)


def test_memory_counters_and_file(tmp_path):
    problem, plan = case()
    path = tmp_path / "trace.json.gz"
    write_document(path, trace_text(problem, plan, {"d0": [(0, 1000), (3000, 0)]}))
    trace = json.loads(gzip.decompress(path.read_bytes()))
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert [(c["name"], c["pid"], c["ts"], c["args"]) for c in counters] == [
        ("memory d0", 0, 0.0, {"bytes": 1000}),
        ("memory d0", 0, 3.0, {"bytes": 0}),
    ]
    assert trace["otherData"]["problem"] == "p"
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid"} <= set(event)
        assert event["ph"] == "M" or event["ts"] >= 0


def test_a_plan_without_times_has_no_trace():
    problem, plan = case()
    untimed = tuple(replace(run, start_ticks=None) for run in plan.runs)
    with pytest.raises(MissingFacetError):
        trace_of(problem, replace(plan, runs=untimed))


def test_what_runs_again_and_what_waits_on_a_host_is_named():
    seen = 0
    for seed in range(12):
        case = planted_memory_saving(seed)
        events = trace_of(case.problem, case.plan)["traceEvents"]
        boxes = [event for event in events if event["ph"] == "X"]
        again = [event for event in boxes if event["name"].endswith(", again")]
        assert len(again) == len(case.plan.runs) - len(case.problem.graph.operators)
        back = [trip for trip in case.plan.transfers if trip.source == (HOST,)]
        assert len([event for event in boxes if event["cat"] == "reload"]) == len(back)
        arrows = {event["id"] for event in events if event["ph"] == "s"}
        assert len(arrows) >= len(back)
        seen += bool(again) and bool(back)
    assert seen > 2
