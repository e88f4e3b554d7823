"""Captured models cut into stages: the problem, its plans as stage files, and those read back."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from milp_plan.capture.chain import COPY, GRADIENT, STATE, WORKSPACE, stage_problem
from milp_plan.capture.instance import instance
from milp_plan.capture.stages import read_stages, stages_from_json, stages_text
from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.core import FULL, InputError
from milp_plan.cost.clusters import cluster
from milp_plan.execute.pipelines import without_room
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.command_model import captured_stages
from milp_plan.kinds.placement.planners.contiguous import ContiguousSearch
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.models.registry import get
from tests.cli.cases import call

from .graphs import FOLDER, random_capture, shipped
from .test_record import damaged

TRAINED = ["gpt2-narrow", "llama-tiny", "resnet50-tiny", "vit"]


def problem_of(name, devices=4, **options):
    return stage_problem(shipped(name), cluster(f"{devices}xA100"), **options)


def solved(problem):
    """The best chain: a dynamic programme over all ideals of the pieces."""
    graph = read_serial(problem)
    assert not isinstance(graph, str), graph
    search = ContiguousSearch(graph, 0, lambda: True)
    assert search.exact()
    return graph.plan(search.places, "ideals")


def exported(problem):
    plan = solved(problem)
    assert verify(problem, plan).ok
    return stages_from_json(stages_text(problem, plan)), plan


@pytest.mark.parametrize("name", TRAINED)
def test_the_memory_of_a_device_is_in_the_file(name):
    problem = problem_of(name)
    assert exported(problem)[0].memory == 80_000_000_000
    plan = solved(problem)
    limits = {device: 60_000_000_000 + place for place, device in enumerate(sorted(used(plan)))}
    smaller = replace(problem, cluster=problem.cluster.with_memory(limits))
    room = int(problem.provenance[WORKSPACE])
    assert stages_from_json(stages_text(smaller, plan)).memory == 60_000_000_000 + room
    limits = dict.fromkeys(problem.cluster.device_names)
    free = replace(problem, cluster=problem.cluster.with_memory(limits))
    text = stages_text(free, plan)
    assert b"memory" not in text
    assert stages_from_json(text).memory is None


def used(plan):
    return {name for entry in plan.runs for name in entry.devices}


@pytest.mark.parametrize("granularity", ["module", "block"])
@pytest.mark.parametrize("name", TRAINED)
def test_all_work_of_the_passes_is_in_the_stages(name, granularity):
    problem = problem_of(name, granularity=granularity)
    whole = instance(shipped(name), cluster("4xA100"), granularity=granularity, optimizer="sgd")
    passes = [op for op in whole.graph.operators if op.kind != "update"]
    work = sum(op.options[0].duration_ticks["A100"] for op in passes)
    stages, plan = exported(problem)
    assert sum(s.forward + s.backward + s.weight for s in stages.stages) == work
    named = [module for stage in stages.stages for module in stage.modules]
    groups = {op.group for op in problem.graph.operators}
    assert sorted(named) == sorted(groups)
    assert len(stages.stages) == len({run.devices for run in plan.runs}) > 1


def test_pieces_are_modules_without_others_inside():
    for granularity in ("module", "block"):
        groups = {
            op.group for op in problem_of("gpt2-narrow", granularity=granularity).graph.operators
        }
        assert not [a for a in groups for b in groups if b.startswith(f"{a}.")]


def test_every_stage_holds_what_its_parameters_need():
    problem = problem_of("gpt2-narrow")
    stages, _ = exported(problem)
    capture = shipped("gpt2-narrow")
    trained = sum(s.bytes for s in capture.storages if s.trained)
    (tied,) = [s.bytes for s in capture.storages if s.aliases]
    assert sum(stage.gradients for stage in stages.stages) == trained + tied
    assert sum(stage.state for stage in stages.stages) == 2 * (trained + tied)
    assert stages.stages[0].backward == 0 < stages.stages[1].backward
    assert all(stage.held for stage in stages.stages)


def test_memory_is_what_a_micro_batch_leaves_next_to_the_largest_workspace():
    problem = problem_of("gpt2-narrow")
    room = int(problem.provenance[WORKSPACE])
    (full,) = {device.memory_bytes for device in cluster("4xA100").devices}
    assert {device.memory_bytes for device in problem.cluster.devices} == {full - room}
    assert not any(op.options[0].workspace_bytes for op in problem.graph.operators)
    beside = [v for v in problem.graph.values if v.name.startswith((GRADIENT, STATE))]
    assert sum(v.bytes[FULL] for v in beside if v.name.startswith(GRADIENT) and COPY in v.name) > 0


def test_random_graphs_give_chains_that_are_read_back():
    for seed in range(12):
        capture = random_capture(random.Random(seed), 40)
        problem = stage_problem(capture, cluster("3xA100"))
        plan = solved(problem)
        assert verify(problem, plan).ok
        stages = stages_from_json(stages_text(problem, plan)).stages
        devices = [
            {run.devices[0] for run in plan.runs if _group(problem, run) in s.modules}
            for s in stages
        ]
        assert all(len(one) == 1 for one in devices)
        assert all(one != two for one, two in pairwise(devices))


def _group(problem, run):
    return problem.graph.operator(run.operator).group


def test_only_training_steps_of_modules_or_blocks_are_cut():
    with pytest.raises(InputError, match="'training'"):
        problem_of("llama-inference")
    with pytest.raises(InputError, match="module or block"):
        problem_of("gpt2-tiny", granularity="kernel")
    plain = instance(shipped("gpt2-tiny"), cluster("1xA100"))
    with pytest.raises(InputError, match="capture --stages"):
        stages_text(plain, None)


def test_files_that_are_damaged_give_one_error_each():
    problem = problem_of("gpt2-tiny", 2)
    text = stages_text(problem, solved(problem))
    rng = random.Random(5)
    findings = []
    for _ in range(300):
        document = json.loads(text)
        damaged(rng, document)
        try:
            stages_from_json(json.dumps(document).encode(), "s.json")
        except InputError as error:
            findings.append(error.findings)
    assert len(findings) > 150
    assert all("s.json" in str(finding) for refused in findings for finding in refused)
    twice = json.loads(text)
    twice["stages"][1]["modules"] = twice["stages"][0]["modules"]
    with pytest.raises(InputError, match="in one stage"):
        stages_from_json(json.dumps(twice).encode())


def test_stage_files_are_pieces_of_a_pipeline_and_commands_say_what_goes_together(tmp_path):
    problem = problem_of("gpt2-tiny", 2)
    file = tmp_path / "s.json"
    file.write_bytes(stages_text(problem, solved(problem)))
    model = captured_stages(file, None)
    read = read_stages(file)
    assert [piece.forward for piece in model.pieces] == [stage.forward for stage in read.stages]
    assert model.transfer == read.transfer > 0
    graph = FOLDER / "gpt2-tiny.capture.json.gz"
    arguments = ("capture", graph, "2xA100", "--stages", "-o", tmp_path / "i.json")
    assert call(*arguments).exit_code == Exit.DONE
    assert call(*arguments, "--recompute", "full").exit_code == Exit.USAGE


def stage_file(folder, memory):
    """Three stages; the first holds most, all share a workspace."""
    rows = [
        {
            "modules": [f"part.{number}"],
            "forward": 10**6 * (number + 1),
            "backward": 10**6 if number else 0,
            "weight": 2 * 10**6,
            "held": 10**9 * (6 - number),
            "gradient": 10**8,
            "receives": 10**7 if number else 0,
            "workspace": 10**9,
            "parameters": 2 * 10**9,
            "gradients": 2 * 10**9,
            "state": 4 * 10**9,
        }
        for number in range(3)
    ]
    written = {
        "format": "milp-plan-torch-stages",
        "version": 1,
        "problem": "three",
        "graph": "0" * 64,
        "torch": "2.13.0",
        "transfer": 1000,
        "stages": rows,
    }
    path = folder / "stages.json"
    path.write_text(json.dumps(written | ({} if memory is None else {"memory": memory})))
    return path


def planned(file, *arguments):
    asked = ("--times", file, "--micro-batches", "6", "--time-limit", "4", "--json", "--quiet")
    result = call("pipeline", *asked, "--record-folder", file.parent / "runs", *arguments)
    return json.loads(result.stdout), result.stderr


def test_the_memory_of_a_device_goes_along_into_the_pipeline(tmp_path):
    """It was lost: a plan with a peak far above it was proved and exported."""
    limit = 16 * 10**9
    free, stated = planned(stage_file(tmp_path, None))
    assert free["peak_memory"] > limit
    assert "names no memory of a device" in stated
    assert "no memory limit" in free["scope"]
    kept, stated = planned(stage_file(tmp_path, limit))
    assert kept["memory_limit"] == limit
    assert kept["peak_memory"] <= limit
    assert kept["time"] > free["time"]
    assert "memory limit of the file" in kept["scope"]
    assert kept["stages"] == 3  # as many devices as stages, unless --stages says something else
    other, stated = planned(stage_file(tmp_path, limit), "--memory", "40GB")
    assert other["memory_limit"] == 40 * 10**9
    assert "--memory takes the place of the limit of" in stated
    none, _ = planned(stage_file(tmp_path, limit), "--memory", "none")
    assert none["memory_limit"] is None


def test_a_first_stage_without_an_input_gradient_is_planned_as_a_pipeline(tmp_path):
    """It takes no time and seemed to hold memory: the order model did not apply."""
    model = captured_stages(stage_file(tmp_path, 18 * 10**9), None)
    problem = build(Case(model, 3, 4, memory=model.memory, cut=(1, 1, 1))).problem
    formulation = get("pipeline_order").formulation
    assert formulation.unsupported(problem, formulation.Options()) is None
    first = problem.graph.operator("W0@0").options[0]
    assert first.workspace_bytes == 10**8
    made = [value for value in problem.graph.values if value.name.startswith("g0@")]
    assert not any(value.bytes[FULL] for value in made)


def test_processes_without_room_are_named(tmp_path):
    """All forward passes first: the first process holds four micro-batches."""
    stages = read_stages(stage_file(tmp_path, 20 * 10**9))
    rows = [[(n, letter, b) for letter in "FB" for b in range(4)] for n in range(3)]
    assert without_room(rows, stages)[0].startswith("process 0 needs 30.")
    apart = [[(n, letter, b) for b in range(4) for letter in "FB"] for n in range(3)]
    assert without_room(apart, stages) == []
    assert without_room(rows, read_stages(stage_file(tmp_path, None))) == []


def test_stages_on_one_device_share_its_workspace(tmp_path):
    """It counted once for each stage: three stages of 8 GB seemed to need 3 GB of it."""
    file = stage_file(tmp_path, None)
    model = captured_stages(file, None)
    alone = build(Case(model, 1, 1, cut=(3,))).problem
    weights = [v for v in alone.graph.values if v.persistent]
    assert sum(value.bytes[FULL] for value in weights) == 24 * 10**9 + 10**9
    apart = build(Case(model, 3, 1, cut=(1, 1, 1))).problem
    resting = {v.name: v.bytes[FULL] for v in apart.graph.values if v.persistent}
    assert resting["weights 0"] == 8 * 10**9 + 10**7  # a gradient may arrive ahead of its pass
    assert resting["weights 1"] == 8 * 10**9 + 2 * 10**7
    assert resting["workspace"] == 10**9
