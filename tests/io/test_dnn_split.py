"""Splits of the placement benchmark, and the published program's values of the public ones."""

import json

import pytest

from milp_plan.check import verify
from milp_plan.core import InputError, Objective
from milp_plan.io.files import write_document
from milp_plan.io.goal import Goal
from milp_plan.kinds.placement.dnn_split import split_text
from milp_plan.kinds.schedule.formats import read, write
from milp_plan.kinds.schedule.kind import KIND
from tests.support.public import public_file

from .samples import store
from .test_dnn_partitioning import sample

FOLDER = "dnn-partitioning"
SPLIT = {"cpus": [{"load": 1.5, "nodes": [3]}], "fpgas": [{"nodes": [1, 4]}, {"nodes": [2]}]}


def both(tmp_path, split, goal):
    instance = store(tmp_path, sample(), "small.json")
    file = tmp_path / "split.json"
    file.write_text(json.dumps(split))
    problem = read(instance, goal)
    return problem, KIND.read_plan(file, problem, instance), instance


def test_a_split_is_a_plan(tmp_path):
    problem, plan, _ = both(tmp_path, SPLIT, Goal(Objective.BOTTLENECK))
    places = {run.operator: (run.devices, run.call) for run in plan.runs}
    assert places == {
        "node1": (("accelerator0",), None),
        "node4": (("accelerator0",), None),
        "node2#2": (("accelerator1",), None),
        "node2#3": (("cpu0",), None),
    }
    verdict = verify(problem, plan)
    assert verdict.ok
    # node 1 to nodes 2 and 3 costs 0.125 at each paying end, node 2 to node 4 nothing.
    figures = {name: value / problem.units.time_scale for name, value in verdict.components.items()}
    assert figures["load accelerator0"] == pytest.approx(2 * 2.87 + 0.125)
    assert figures["load accelerator1"] == pytest.approx(0.125)
    assert figures["load cpu0"] == pytest.approx(28.7)


def test_a_split_for_latency_has_one_call_per_accelerator(tmp_path):
    split = {"fpgas": [{"nodes": [1]}, {"nodes": [2]}], "cpus": [{"nodes": []}, {"nodes": [3, 4]}]}
    problem, plan, _ = both(tmp_path, split, Goal(Objective.LATENCY))
    assert {run.call for run in plan.runs if run.devices != ("cpu0",)} == {0}
    assert {run.devices for run in plan.runs if run.call is None} == {("cpu0",)}
    assert "colocation" in {violation.rule for violation in verify(problem, plan).violations}


def test_a_plan_is_written_as_a_split_and_read_again(tmp_path):
    problem, plan, instance = both(tmp_path, SPLIT, Goal(Objective.BOTTLENECK))
    write_document(tmp_path / "again.json", split_text(problem, plan, instance))
    again = KIND.read_plan(tmp_path / "again.json", problem, instance)
    assert {r.operator: r.devices for r in again.runs} == {r.operator: r.devices for r in plan.runs}


def test_unknown_nodes_are_named_all_at_once(tmp_path):
    split = {"fpgas": [{"nodes": [1, 77]}], "cpus": [{"nodes": [88]}]}
    with pytest.raises(InputError) as caught:
        both(tmp_path, split, Goal(Objective.BOTTLENECK))
    text = str(caught.value)
    assert "unknown node 77" in text
    assert "unknown node 88" in text
    assert "split.json" in text


def test_a_split_needs_a_file_of_the_benchmark(tmp_path):
    instance = store(tmp_path, sample(), "small.json")
    native = tmp_path / "native.json"
    problem = read(instance, Goal(Objective.BOTTLENECK))
    write(problem, native)
    (tmp_path / "split.json").write_text(json.dumps(SPLIT))
    with pytest.raises(InputError, match="a dnn-partitioning file"):
        KIND.read_plan(tmp_path / "split.json", read(native), native)


PUBLISHED = {
    "throughput-inputs/LayerGraphs/bert24_inference": 20.084,
    "throughput-inputs/LayerGraphs/bert24_training": 49.4049,
    "throughput-inputs/LayerGraphs/gnmt_inference": 46.2085,
    "throughput-inputs/LayerGraphs/gnmt_training": 137.15,
    "throughput-inputs/LayerGraphs/inceptionv3_inference": 102.482,
    "throughput-inputs/LayerGraphs/resnet50_inference": 43.9183,
    "latency-inputs/LayerGraphs/gnmt_inference": 293.403,
    "latency-inputs/LayerGraphs/inceptionv3_inference": 865.519,
}
"""Values that the published program (msr-fiddle/dnn-partitioning, commit b207b6a) prints for the
human experts' splits, to six digits; the two for latency exceed the memory of their instances."""


def part_loads(instance, split):
    """Load of each accelerator from the file's own numbers: the formula of arXiv 2006.16423."""
    nodes = {node["id"]: node for node in instance["nodes"]}
    loads = []
    for part in split["fpgas"]:
        inside = set(part["nodes"])
        work = sum(nodes[number]["fpgaLatency"] for number in inside)
        read = {e["sourceId"]: e["cost"] for e in instance["edges"] if e["destId"] in inside}
        made = {e["sourceId"]: e["cost"] for e in instance["edges"] if e["destId"] not in inside}
        come = sum(cost for number, cost in read.items() if number not in inside)
        go = sum(cost for number, cost in made.items() if number in inside)
        loads.append(work + come + go)
    return loads


def load_score(instance, split):
    nodes = {node["id"]: node for node in instance["nodes"]}
    cpus = [sum(nodes[n]["cpuLatency"] for n in part["nodes"]) for part in split["cpus"]]
    return max(part_loads(instance, split) + cpus)


def latency_score(instance, split):
    """Every accelerator runs its part as one call; the experts leave the CPU empty."""
    part_of = {n: i for i, part in enumerate(split["fpgas"]) for n in part["nodes"]}
    needs = {i: set() for i in range(len(split["fpgas"]))}
    for edge in instance["edges"]:
        before, after = part_of[edge["sourceId"]], part_of[edge["destId"]]
        needs[after] |= {before} - {after}
    loads, finish = part_loads(instance, split), {}
    while len(finish) < len(needs):
        for part, before in needs.items():
            if before <= set(finish):
                finish[part] = max((finish[b] for b in before), default=0) + loads[part]
    return max(finish.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_experts_are_worth_what_the_published_program_says(name):
    instance = public_file(f"{FOLDER}/{name}.json")
    split = public_file(f"{FOLDER}/human-experts/{instance.stem}_expert.json")
    latency = name.startswith("latency")
    problem = read(instance, Goal(Objective.LATENCY if latency else Objective.BOTTLENECK))
    verdict = verify(problem, KIND.read_plan(split, problem, instance))
    assert {violation.rule for violation in verdict.violations} == (
        {"memory"} if latency else set()
    )
    assert verdict.value is not None
    assert verdict.value / problem.units.time_scale == pytest.approx(PUBLISHED[name], rel=3e-6)
