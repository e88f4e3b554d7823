"""Profiles of kernels held against the roofline."""

import msgspec
import pytest

from milp_plan.capture.calibration import calibrate, compared, kernel_work
from milp_plan.capture.instance import instance
from milp_plan.capture.record import capture_from_json, capture_to_json, write_capture
from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.cost.clusters import cluster
from milp_plan.cost.devices import device_spec
from milp_plan.cost.roofline import roofline_ns
from milp_plan.io.capture_wire import Profile
from tests.cli.cases import call

from .graphs import shipped


def with_times(capture, times):
    profile = Profile("made up", 1, "2026-11-23", capture.torch, times)
    return msgspec.structs.replace(capture, profile=profile)


def as_the_roofline_says(name, spec):
    capture = with_times(shipped(name), {kernel.name: 1 for kernel in shipped(name).kernels})
    times = {
        kernel: roofline_ns(spec, flops, moved)
        for kernel, (_, flops, moved) in kernel_work(capture).items()
    }
    return with_times(capture, times)


@pytest.mark.parametrize("name", ["gpt2-small", "resnet50"])
def test_a_profile_that_is_the_roofline_has_no_error_and_gives_its_rates(name):
    spec = device_spec("A100")
    capture = as_the_roofline_says(name, spec)
    classes = compared(capture, spec)
    assert sum(entry.kernels for entry in classes.values()) == len(capture.kernels)
    assert all(entry.error == 0 for entry in classes.values())
    assert all(entry.measured_ns == entry.roofline_ns for entry in classes.values())
    found = calibrate(capture).spec
    reached = spec.peak_flops_per_s * spec.compute_permille // 1000
    moved = spec.memory_bytes_per_s * spec.memory_permille // 1000
    assert 0.6 * reached <= found.peak_flops_per_s <= reached
    assert 0.6 * moved <= found.memory_bytes_per_s <= moved


def test_a_slower_device_shows_as_an_error():
    spec = device_spec("A100")
    capture = as_the_roofline_says("gpt2-small", spec)
    assert capture.profile is not None
    slower = with_times(capture, {k: 2 * ns for k, ns in capture.profile.kernels.items()})
    assert all(entry.error == pytest.approx(0.5) for entry in compared(slower, spec).values())


def test_profiles_are_written_and_read_and_name_kernels_of_the_graph():
    capture = as_the_roofline_says("gpt2-tiny", device_spec("A100"))
    assert capture_from_json(capture_to_json(capture)) == capture
    with pytest.raises(InputError, match="no such kernel"):
        capture_from_json(capture_to_json(with_times(capture, {"nobody": 1})))
    with pytest.raises(ValueError, match="no profile"):
        calibrate(shipped("gpt2-tiny"))


def step_work(problem, *, updates):
    operators = [o for o in problem.graph.operators if (o.kind == "update") == updates]
    return sum(ticks for o in operators for ticks in o.options[0].duration_ticks.values())


@pytest.mark.parametrize("granularity", ["kernel", "module", "block"])
def test_an_instance_takes_the_measured_times(granularity):
    capture = as_the_roofline_says("gpt2-tiny", device_spec("A100"))
    places = {kernel.name: 7 + 13 * place for place, kernel in enumerate(capture.kernels)}
    capture = with_times(capture, places)
    rates = calibrate(capture).spec
    made = instance(capture, cluster("2xV100"), granularity=granularity, measured=rates)
    assert step_work(made, updates=False) == sum(places.values())
    guessed = instance(capture, cluster("2xV100"), granularity=granularity, fuse=False)
    assert [o.name for o in made.graph.operators] == [o.name for o in guessed.graph.operators]
    assert made.graph.values == guessed.graph.values
    assert "made up" in made.provenance["kernels timed on"]


def test_measured_times_that_are_the_roofline_give_its_instance():
    spec = device_spec("A100")
    capture = as_the_roofline_says("gpt2-tiny", spec)
    made = instance(capture, cluster("2xA100"), measured=spec)
    assert made.graph == instance(capture, cluster("2xA100"), fuse=False).graph


def test_times_that_are_not_there(tmp_path):
    graph = tmp_path / "g.json"
    write_capture(shipped("gpt2-tiny"), graph)
    answer = call("capture", graph, "1xA100+1xV100", "--cost", "profile", "-o", tmp_path / "i.json")
    assert answer.exit_code == Exit.BAD_INPUT
    assert "capture the model with --profile" in answer.stderr
    assert "devices of A100, V100" in answer.stderr
    answer = call("capture", graph, "2xA100", "--cost", "profile", "--sharding", "2")
    assert answer.exit_code == Exit.USAGE
    assert "--cost profile" in answer.stderr
