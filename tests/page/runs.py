"""Runs for the tests of reports: files of a record, a plan and an instance, and a large entry."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from milp_plan.core import (
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.io.plan_file import write_plan
from milp_plan.kinds.schedule.formats import write
from milp_plan.report.page import Entry
from milp_plan.run import kind_of
from tests.report.plans import plan_of_two_devices, two_devices


def record(problem: Any, value: int | None, **more: Any) -> dict[str, Any]:
    """A record as a run writes it, as far as reports read it."""
    return {
        "record": 2,
        "kind": "schedule",
        "instance": problem.name,
        "fingerprint": problem.fingerprint,
        "objective": "makespan",
        "unit": "ns",
        "ticks_per_unit": 1,
        "value": value,
        "bound": 9_000,
        "gap": 0.25,
        "proved": False,
        "stop": "time_limit",
        "verdict": "ok",
        "seconds": 3.5,
        "strategy": "schedule",
        "settings": {"seed": 0, "time_limit_s": 3.5},
        "versions": {"numpy": "2"},
        "trace": [
            {"seconds": 0.5, "incumbent": None, "bound": 8_000},
            {"seconds": 1.0, "incumbent": 15_000, "bound": 8_000},
            {"seconds": 2.0, "incumbent": value, "bound": 9_000},
        ],
        **more,
    }


def run_files(
    folder: Path, plan: Plan | None = None, name: str = "run", **more: Any
) -> tuple[Path, Path]:
    """Write a record with its plan, and its instance in a folder beside; return both files."""
    (folder / "instances").mkdir(parents=True, exist_ok=True)
    problem, plan = two_devices(), plan or plan_of_two_devices()
    instance = folder / "instances" / f"{problem.name}.json"
    write(problem, instance)
    write_plan(plan, folder / f"{name}.plan.json")
    value = kind_of(problem).verify(problem, plan).value
    there = os.path.relpath(instance, folder)
    reported = record(problem, value, instance_file=there) | more
    path = folder / f"{name}.json"
    path.write_text(json.dumps(reported))
    return path, instance


def renamed(name: str, problem: PlanningProblem, plan: Plan) -> tuple[PlanningProblem, Plan]:
    """Give a device, an operator and a kind a strange name."""
    graph, cluster = problem.graph, problem.cluster
    first = replace(graph.operators[0], name=name, kind=name)
    values = tuple(
        replace(
            value,
            producer=name if value.producer == "embed" else value.producer,
            consumers=tuple(name if user == "embed" else user for user in value.consumers),
        )
        for value in graph.values
    )
    devices = (replace(cluster.devices[0], name=name), *cluster.devices[1:])

    def place(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name if entry == "d0" else entry for entry in names)

    channels = tuple(
        replace(c, source=place((c.source,))[0], target=place((c.target,))[0])
        for c in cluster.channels
    )
    problem = replace(
        problem,
        name=name,
        graph=ComputationGraph((first, *graph.operators[1:]), values),
        cluster=replace(cluster, devices=devices, channels=channels),
    )
    runs = tuple(
        replace(
            run,
            operator=name if run.operator == "embed" else run.operator,
            devices=place(run.devices),
        )
        for run in plan.runs
    )
    trips = tuple(
        replace(trip, source=place(trip.source), target=place(trip.target))
        for trip in plan.transfers
    )
    return problem, replace(plan, problem=name, runs=runs, transfers=trips)


def entry(problem: Any, plan: Any, name: str = "run") -> Entry:
    """What a report is told of a plan."""
    kind = kind_of(problem)
    verdict = kind.verify(problem, plan)
    reported = record(problem, verdict.value)
    panels = kind.panels(problem, plan)
    return Entry(name, reported, kind, problem, verdict, "", panels)


def grid(devices: int, operators: int) -> tuple[PlanningProblem, Plan]:
    """A chain of operators on every device, each tenth of which sends to the next device."""
    slot, work = 20, 12

    def name(device: int, place: int) -> str:
        return f"layer{place}.d{device}"

    kinds = ("forward", "backward-input", "backward-weight")
    places = [(d, i) for d in range(devices) for i in range(operators)]
    made = [
        Operator(name(d, i), (Option("single", {"gpu": work + i % 5}),), kinds[i % 3])
        for d, i in places
    ]
    sent = [(d, i) for d, i in places if i % 10 == 0 and d + 1 < devices and i + 1 < operators]
    values = [
        Value(f"act{i}.{d}", name(d, i), (name(d, i + 1),), {"full": 1000 + i})
        for d, i in places
        if i + 1 < operators
    ]
    values += [
        Value(f"sent{i}.{d}", name(d, i), (name(d + 1, i + 1),), {"full": 4}) for d, i in sent
    ]
    names = [f"d{d}" for d in range(devices)]
    cluster = Cluster(
        (DeviceClass("gpu", 10**6),),
        tuple(Device(n, "gpu", 10**6) for n in names),
        tuple(
            Channel(a, b, 0, 10**9)
            for x, a in enumerate(names)
            for y, b in enumerate(names)
            if abs(x - y) == 1
        ),
    )
    problem = PlanningProblem(
        f"grid-{devices}x{operators}", ComputationGraph(tuple(made), tuple(values)), cluster
    )
    runs = tuple(
        OperatorRun(name(d, i), "single", (f"d{d}",), slot * i, slot * i + work + i % 5)
        for d, i in places
    )
    trips = []
    for d, i in sent:
        start = slot * i + work + i % 5
        trips.append(Transfer(f"sent{i}.{d}", (f"d{d}",), (f"d{d + 1}",), "full", start, start + 4))
    return problem, Plan(problem.name, runs, tuple(trips))
